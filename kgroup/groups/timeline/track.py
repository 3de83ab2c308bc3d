"""One pass over a group's events, in the log's order: the steps, and the owner of the partition at each commit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from kgroup.groups.timeline.classic import GenerationTracker
from kgroup.groups.timeline.commit_evidence import CommitEvidence
from kgroup.groups.timeline.consumer import BATCH_MS, Epochs
from kgroup.groups.timeline.context import HistoryContext, ProtocolSwitch, names_of
from kgroup.groups.timeline.steps import HistoryStep, PresentMember, StepKind
from kgroup.model.group_log import (
    CommitWritten,
    EpochWritten,
    Event,
    GenerationWritten,
    GroupDeleted,
    MemberAssignmentWritten,
    MemberWritten,
    Partitions,
    PatternResolved,
    RebalanceProtocol,
    ScannedRange,
    ShareStatesWritten,
    TargetEpochWritten,
    TargetWritten,
    TopologyWritten,
    Unreadable,
)
from kgroup.model.topic_partition import TopicPartition


class OwnedCommit(msgspec.Struct, frozen=True):
    """A commit, and the name of the member that owned the partition then; None if it had none or it is unknown."""

    commit: CommitWritten
    owner: str | None


class TrackedGroup(msgspec.Struct, frozen=True):
    """The result of one pass over the events: all steps, oldest first, the commits, and the evidence from commits."""

    steps: tuple[HistoryStep, ...]
    commits: tuple[OwnedCommit, ...]
    evidence: CommitEvidence


def track_group(
    events: Sequence[Event], reach: ScannedRange, session_ms: int | None = None, *, commits: bool = True
) -> TrackedGroup:
    """Steps and commits of one group; it never raises, whatever the order and the values of the events.

    ``session_ms`` is the session timeout that the group or the broker has set, None if unknown. ``commits``
    False: without the commits and their owners, of which there are many; the steps are the same.
    """
    evidence = CommitEvidence(events, reach)
    of_members = [event for event in events if not isinstance(event, CommitWritten)]
    follower = _Follower(HistoryContext(names_of(of_members), evidence, session_ms), reach)
    for event in events if commits else of_members:
        follower.follow(event)
    follower.end()
    return TrackedGroup(_finished(follower.steps), tuple(follower.commits), evidence)


class _Follower:
    def __init__(self, context: HistoryContext, reach: ScannedRange) -> None:
        self.steps: list[HistoryStep] = []
        self.commits: list[OwnedCommit] = []
        self._context = context
        self._reach = reach
        self._generations = GenerationTracker(context)
        self._epochs = Epochs(context)
        self._owners: dict[TopicPartition, str] = {}
        self._gone: tuple[GroupDeleted, ProtocolSwitch, int] | None = None
        self._protocol: RebalanceProtocol | None = None
        if reach.complete:
            context.ownership.reset()

    def follow(self, event: Event) -> None:
        if isinstance(event, CommitWritten):
            self.commits.append(OwnedCommit(event, self._owner(event.tp)))
            return
        if isinstance(event, Unreadable):
            return
        self._settle(event.at_ms)
        match event:
            case GenerationWritten():
                self._generation(event)
            case GroupDeleted():
                self._group_gone(event)
            case _:
                self._of_consumers(event)

    def _of_consumers(self, event: Event) -> None:
        match event:
            case EpochWritten():
                self._epoch(event)
            case MemberWritten():
                self._enter_consumer()
                self._epochs.member(event)
            case PatternResolved():
                self._epochs.pattern(event)
            case TargetEpochWritten():
                self._epochs.target_epoch(event)
            case TargetWritten():
                self._enter_consumer()
                self._epochs.target(event)
            case MemberAssignmentWritten():
                self._epochs.holding(event)
            case TopologyWritten():
                self._epochs.topology(event)
            case ShareStatesWritten():
                self._epochs.share_states(event)

    def end(self) -> None:
        self._deleted()
        self._add(self._epochs.flush(None))
        self._add(self._epochs.close(None))

    def _add(self, step: HistoryStep | None) -> None:
        if step is not None:
            self.steps.append(step)

    def _owner(self, tp: TopicPartition) -> str | None:
        classic = self._protocol in (None, RebalanceProtocol.CLASSIC)
        member_id = self._owners.get(tp) if classic else self._epochs.owner(tp)
        return None if member_id is None else self._context.name(member_id)

    def _settle(self, now_ms: int) -> None:
        self._add(self._epochs.flush(now_ms))
        if self._gone is not None and abs(now_ms - self._gone[0].at_ms) > BATCH_MS:
            self._deleted()

    def _deleted(self) -> None:
        """Add a DELETED step for a group that is gone and did not return at once under the other protocol."""
        if self._gone is None:
            return
        (record, _, number), self._gone = self._gone, None
        self._context.ownership.reset()
        self.steps.append(
            HistoryStep(
                protocol=record.protocol,
                number=number,
                kind=StepKind.DELETED,
                log_offset=record.log_offset,
                at_ms=record.at_ms,
            )
        )

    def _group_gone(self, record: GroupDeleted) -> None:
        if record.protocol is RebalanceProtocol.CLASSIC:
            if self._protocol not in (None, RebalanceProtocol.CLASSIC):
                return  # the other half of a conversion, already seen
            members, number = self._generations.members, self._generations.number
            self._generations.reset()
        else:
            if self._protocol is RebalanceProtocol.CLASSIC and self._epochs.number == 0:
                return
            members, number = self._epochs.members, self._epochs.number
            self._add(self._epochs.reset())
        self._owners.clear()
        self._gone = record, ProtocolSwitch(_OTHER.get(record.protocol), dict(members)), number

    def _protocol_switch(self, to: RebalanceProtocol) -> ProtocolSwitch | None:
        """The switch from the other protocol, with its members; None if the group did not switch just now."""
        if self._gone is not None and self._gone[1].to is not to:
            self._deleted()  # and recreated at once
        deleted, self._gone = self._gone, None
        return None if deleted is None else deleted[1]

    def _generation(self, record: GenerationWritten) -> None:
        carried = self._protocol_switch(RebalanceProtocol.CLASSIC)
        if self._protocol is RebalanceProtocol.CONSUMER and carried is None:
            self._add(self._epochs.reset())
        self._protocol = RebalanceProtocol.CLASSIC
        begins = self._reach.to_log_start and not self.steps
        self._add(self._generations.add(record, carried, first=begins))
        self._owners = {tp: member.member_id for member in record.members for tp in member.partitions or frozenset()}

    def _enter_consumer(self) -> None:
        if self._gone is None:
            return
        if (carried := self._protocol_switch(RebalanceProtocol.CONSUMER)) is not None:
            self._epochs.note_switch(carried)

    def _epoch(self, record: EpochWritten) -> None:
        self._enter_consumer()
        if self._protocol is RebalanceProtocol.CLASSIC:
            self._generations.reset()
            self._owners.clear()
        self._protocol = record.protocol
        self._add(self._epochs.epoch(record))


_OTHER = {
    RebalanceProtocol.CLASSIC: RebalanceProtocol.CONSUMER,
    RebalanceProtocol.CONSUMER: RebalanceProtocol.CLASSIC,
}
"""What a group can become: a share or streams group nothing else; CONSUMER is any protocol with epochs here."""


def _finished(steps: Sequence[HistoryStep]) -> tuple[HistoryStep, ...]:
    """The steps in the log's order, with ``lasted_ms`` and the members' ``other`` filled in."""
    ordered = sorted(steps, key=lambda step: step.log_offset)
    last_partitions: dict[str, Partitions] = {}
    finished = []
    for index, step in enumerate(ordered):
        following = ordered[index + 1] if index + 1 < len(ordered) else None
        lasted_ms = None if following is None else max(0, following.at_ms - step.at_ms)
        members = tuple(_compared(present, last_partitions) for present in step.members)
        finished.append(replace(step, members=members, lasted_ms=lasted_ms))
    return tuple(finished)


def _compared(present: PresentMember, last_partitions: dict[str, Partitions]) -> PresentMember:
    if present.partitions is None:
        return present
    before = last_partitions.get(present.name)
    last_partitions[present.name] = present.partitions
    return present if before is None else replace(present, other=before != present.partitions)
