"""Reconstructs a group at a past moment from its records in ``__consumer_offsets``. Pure; never raises on odd records.

Compaction removes a record only if a later one with the same key exists, and then removes all older ones too. So the
remaining records of a key are the end of its history without a gap. The newest one up to a moment is the state at that
moment. If only later records remain, the state is unknown, unless compaction has removed nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from kgroup.groups.timeline.fold import GroupTimeline
from kgroup.model.commit import Commit
from kgroup.model.group_log import (
    CommitWritten,
    EpochWritten,
    Event,
    GenerationMember,
    GenerationWritten,
    GroupDeleted,
    MemberAssignment,
    MemberDetails,
    Partitions,
    RebalanceProtocol,
    ScannedRange,
    ShareStates,
    ShareStatesWritten,
    SpareTasks,
    TransactionEnd,
    Unreadable,
)
from kgroup.model.groups import Member, assignment_of
from kgroup.model.streams_group import StreamsGroup, StreamsMember, StreamsTask, TaskRole
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.durations import format_duration

_OF_COMMITS = frozenset({0, 1, None})
"""Record types of commits; None is a key too short to have a type, which may have been a commit."""

_OF_STATES = frozenset({2, 3, 11, 17})
"""Record types of a group's state."""

_FOREIGN: Mapping[int | None, str] = {11: "share", 17: "streams"}
"""The types of groups that show in the key alone: no offset of theirs may be taken for a consumer's."""


class PastCommit(msgspec.Struct, frozen=True):
    """The commit of one partition at a past moment.

    ``commit`` None: there was no commit. ``at_ms`` is when it was committed or deleted, None if there is no record.
    ``topic_id`` is None before Kafka 4.1. ``unknown`` is the reason why the commit is unknown, None if it is known.
    """

    commit: Commit | None
    at_ms: int | None = None
    topic_id: str | None = None
    unknown: str | None = None


class LoggedState(msgspec.Struct, frozen=True):
    """A group at a moment.

    ``type`` and ``state`` are None if only later records of them remain, or if they may be in a part of the log that
    was not read. For the type of a share or streams group a later record is enough, or one that cannot be decoded.
    ``partitions`` are all that the group ever committed, as far as the log shows, including those without a commit at
    that moment. ``newest_ms`` is the time of its newest record up to that moment. ``open`` are the partitions with
    commits in a transaction that was open then; such commits do not count.
    ``incomplete`` is the reason why partitions or the group's state may be missing, None if nothing is missing.
    """

    name: str
    type: str | None
    partitions: Mapping[TopicPartition, PastCommit]
    newest_ms: int
    open: frozenset[TopicPartition]
    incomplete: str | None
    state: str | None = None
    protocol_type: str | None = None
    assignor: str | None = None
    generation: int | None = None
    leader: str | None = None
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    members: tuple[Member, ...] = ()
    share_partitions: Partitions = frozenset()
    """The partitions that a share group has start offsets of, which are in another topic."""
    streams: StreamsGroup | None = None
    """The topology and the tasks of a streams group, whose members then have no assignment of partitions."""

    @property
    def commits(self) -> dict[TopicPartition, Commit]:
        """The commits of the group, as far as they are known."""
        return {
            tp: past_commit.commit
            for tp, past_commit in self.partitions.items()
            if past_commit.commit and not past_commit.unknown
        }


def state_at(name: str, events: Iterable[Event], reach: ScannedRange, at_ms: int | None = None) -> LoggedState | None:
    """The group as it was at ``at_ms`` (None: at the end of the log); None if there was no such group.

    ``events`` are in log order. For each key they need at least the newest event that counted at ``at_ms`` and the
    newest event of all. A commit of a transaction that was still open at ``at_ms`` does not count.
    """
    records = _NewestRecords(at_ms)
    for event in events:
        records.take(event)
    partitions = records.partitions(reach)
    if records.newest_ms is None and not any(past_commit.unknown for past_commit in partitions.values()):
        return None
    incomplete = None if reach.to_log_start else reach.stopped or "the log was not read to its start"
    group = LoggedState(name, None, partitions, records.newest_ms or 0, frozenset(records.open), incomplete)
    if records.foreign is not None:
        return replace(group, type=records.foreign)
    match records.timeline.newest_state:
        case GenerationWritten() as generation:
            return _classic_group(group, generation)
        case EpochWritten() as epoch:
            return replace(
                _group_with_epochs(group, epoch, records.timeline), share_partitions=records.share_partitions
            )
    if records.share_states is not None:
        # AlterShareGroupOffsets creates a group without a record of its epoch, which its first member writes (4.4.0).
        state = None if records.state_is_lost or incomplete is not None else "Empty"
        return replace(
            group, type="share", state=state, protocol_type="share", share_partitions=records.share_partitions
        )
    if records.timeline.gone_at is not None and not records.state_is_lost:
        # A deleted group loses its offsets; later commits belong to a new group with the same name. If the record
        # after the deletion is lost, the group may have been converted instead, which keeps its offsets.
        partitions = {tp: past_commit for tp, past_commit in partitions.items() if records.is_later(tp)}
        group = replace(group, partitions=partitions)
    if not any(past_commit.commit or past_commit.unknown for past_commit in partitions.values()):
        return None
    if records.state_is_lost or incomplete is not None:
        return replace(group, type=records.first_later)
    return replace(group, type="classic", state="Empty", protocol_type="")


def log_line(state: LoggedState, now_ms: int) -> str:
    """The line ``from __consumer_offsets, not from its coordinator; last record 12s old``."""
    age = format_duration(max(0, now_ms - state.newest_ms) // 1000)
    partly = "" if state.incomplete is None else "; NOT READ TO ITS START"
    return f"from __consumer_offsets, not from its coordinator; last record {age} old{partly}"


@dataclass(slots=True)
class _NewestRecords:
    """The newest record of each key up to a moment, and the first commit of each partition after it."""

    at_ms: int | None
    newest_ms: int | None = None
    timeline: GroupTimeline = field(default_factory=GroupTimeline)
    first_later: str | None = None
    """The type of a share or streams group whose first record of its state is later."""
    foreign: str | None = None
    """The type of a group whose newest record of its state is of a share or streams group, and cannot be decoded."""
    open: set[TopicPartition] = field(default_factory=set)
    share_states: ShareStates | None = None
    state_is_lost: bool = False
    _commits: dict[TopicPartition, CommitWritten] = field(default_factory=dict)
    _later: dict[TopicPartition, CommitWritten] = field(default_factory=dict)
    _unreadable: Unreadable | None = None

    def take(self, event: Event) -> None:
        """Add the next newer record."""
        if self.at_ms is not None and event.at_ms > self.at_ms:
            if isinstance(event, CommitWritten) and event.counts:
                self._later.setdefault(event.tp, event)
            elif (foreign := _foreign_type(event)) or isinstance(event, _STATES):
                # A group that was converted since has the end of its old type before the record of its new type.
                if not self.state_is_lost:
                    self.first_later = foreign
                self.state_is_lost = True
            return
        if isinstance(event, CommitWritten):
            self._take_commit(event)
            return
        if isinstance(event, Unreadable):
            if event.record_type in _OF_COMMITS:
                self._unreadable = event
            self.state_is_lost |= event.record_type in _OF_STATES
            self.foreign = _foreign_type(event) or self.foreign
        elif isinstance(event, _STATES):
            self.foreign = None
        elif isinstance(event, ShareStatesWritten):
            self.share_states = event.states
        self.timeline.add(event)
        self._note_time(event.at_ms)

    def _take_commit(self, event: CommitWritten) -> None:
        tp = event.tp
        if not event.counts:
            if event.ending is TransactionEnd.OPEN:
                self.open.add(tp)
            return
        if self.at_ms is not None and event.ended_ms is not None and event.ended_ms > self.at_ms:
            self.open.add(tp)
            self._later.setdefault(tp, event)
            return
        self._commits[tp] = event
        self._note_time(event.at_ms)

    def _note_time(self, at_ms: int) -> None:
        self.newest_ms = at_ms if self.newest_ms is None else max(self.newest_ms, at_ms)

    @property
    def share_partitions(self) -> Partitions:
        return frozenset() if self.share_states is None else self.share_states.initialized

    def is_later(self, tp: TopicPartition) -> bool:
        """Whether the partition was committed after the group was deleted, or its commit is not known."""
        record, gone_at = self._commits.get(tp), self.timeline.gone_at
        return record is None or gone_at is None or record.log_offset > gone_at

    def partitions(self, reach: ScannedRange) -> dict[TopicPartition, PastCommit]:
        """The commit of each partition that has a counting record in the log, sorted by partition."""
        partitions = sorted(self._commits.keys() | self._later.keys())
        return {tp: self._of(tp, reach) for tp in partitions}

    def _of(self, tp: TopicPartition, reach: ScannedRange) -> PastCommit:
        record, broken = self._commits.get(tp), self._unreadable
        if broken is not None and (record is None or record.log_offset < broken.log_offset):
            return PastCommit(None, unknown=f"{broken.why}: it may be this partition's commit")
        if record is not None:
            commit = None
            if record.offset is not None:
                commit = Commit(record.offset, record.leader_epoch, record.metadata)
            return PastCommit(commit, record.at_ms, record.topic_id)
        if not reach.to_log_start:
            return PastCommit(
                None, unknown=f"the log was not read back to its commit: {reach.stopped or 'the scan ended before'}"
            )
        if reach.complete:
            return PastCommit(None)
        return PastCommit(
            None,
            unknown="its commit from that time, if there was one, is no longer in the log: compaction has deleted it",
        )


_STATES = (GenerationWritten, EpochWritten, GroupDeleted)


def _foreign_type(event: Event) -> str | None:
    """The type of a share or streams group, if the event is a record of the state of one; else None."""
    if isinstance(event, Unreadable):
        return _FOREIGN.get(event.record_type)
    if isinstance(event, EpochWritten) and event.protocol is not RebalanceProtocol.CONSUMER:
        return event.protocol.value
    return None


def _classic_group(group: LoggedState, record: GenerationWritten) -> LoggedState:
    return replace(
        group,
        type="classic",
        state="Stable" if record.members else "Empty",
        protocol_type=record.protocol_type,
        assignor=record.assignor,
        generation=record.generation,
        leader=record.leader,
        members=tuple(_classic_member(member) for member in record.members),
    )


def _classic_member(member: GenerationMember) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.host,
        rack=None,
        epoch=None,
        protocol="classic",
        subscription=None if member.topics is None else tuple(sorted(member.topics)),
        subscription_regex=None,
        assignment=assignment_of(member.partitions),
        target_assignment=None,
    )


def _group_with_epochs(group: LoggedState, record: EpochWritten, timeline: GroupTimeline) -> LoggedState:
    return replace(
        group,
        type=record.protocol.value,
        state=None if group.incomplete is not None else _state(timeline, record),
        protocol_type=record.protocol.value,
        group_epoch=record.epoch,
        assignment_epoch=timeline.target_epoch,
        members=tuple(
            _member(timeline, member_id, details, record.protocol) for member_id, details in timeline.details.items()
        ),
        streams=_streams_group(timeline) if record.protocol is RebalanceProtocol.STREAMS else None,
    )


_NOTHING = MemberAssignment(0, False, frozenset(), frozenset())


def _streams_group(timeline: GroupTimeline) -> StreamsGroup:
    topology = None if timeline.topology is None else timeline.topology.topology
    members = {}
    for member_id, details in timeline.details.items():
        holding, target = timeline.holdings.get(member_id, _NOTHING), timeline.targets.get(member_id, frozenset())
        members[member_id] = StreamsMember(
            process_id=details.process_id or "",
            topology_epoch=details.topology_epoch or 0,
            tasks=_tasks(holding.partitions | holding.pending, holding.spares),
            target=_tasks(target, timeline.target_spares.get(member_id)),
        )
    if topology is None:
        return StreamsGroup(None, None, members)
    return StreamsGroup(topology.epoch, topology.subtopologies, members)


def _tasks(active: Partitions, spares: SpareTasks | None) -> dict[TaskRole, tuple[StreamsTask, ...]]:
    spares = spares or SpareTasks()
    of_roles = zip(TaskRole, (active, spares.standby, spares.warmup), strict=True)
    return {role: tuple(sorted(StreamsTask(*task) for task in tasks)) for role, tasks in of_roles}


def _state(timeline: GroupTimeline, record: EpochWritten) -> str:
    """The state, derived as the coordinator does it (maybeUpdateGroupState of ConsumerGroup and StreamsGroup).

    A share group with members is always Stable.
    """
    if not timeline.details:
        return "Empty"
    if record.protocol is RebalanceProtocol.SHARE:
        return "Stable"
    topology = None if timeline.topology is None else timeline.topology.topology
    if record.protocol is RebalanceProtocol.STREAMS and (topology is None or topology.epoch != record.topology_epoch):
        return "NotReady"
    if timeline.target_epoch is None or record.epoch > timeline.target_epoch:
        return "Assigning"
    settled = all(
        (holding := timeline.holdings.get(member_id)) is not None
        and holding.stable
        and holding.epoch == timeline.target_epoch
        for member_id in timeline.details
    )
    return "Stable" if settled else "Reconciling"


def _member(timeline: GroupTimeline, member_id: str, details: MemberDetails, protocol: RebalanceProtocol) -> Member:
    holding = timeline.holdings.get(member_id)
    tasks = protocol is RebalanceProtocol.STREAMS  # of subtopologies: they are no partitions of topics
    topology = None if timeline.topology is None else timeline.topology.topology
    return Member(
        member_id=member_id,
        instance_id=details.instance_id,
        client_id=details.client_id,
        host=details.host,
        rack=None,
        epoch=None if holding is None else holding.epoch,
        protocol=protocol.value if details.classic_session_ms is None else "classic",
        subscription=tuple(sorted(topology.reads if tasks and topology else details.topics)),
        subscription_regex=details.pattern,
        assignment=assignment_of(None if holding is None or tasks else holding.partitions | holding.pending),
        target_assignment=assignment_of(None if tasks else timeline.targets.get(member_id)),
    )
