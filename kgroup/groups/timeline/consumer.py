"""The epochs of a consumer, share or streams group: joins and leaves, the epoch they cause, its target, the way to it.

The numbers are the record types of consumer groups (KIP-848); the others have the same records in the same order. A
join writes the member (record type 5), the epoch (3), and the member's current assignment (8). The new target follows
at once or later: a 7 for each member that it changes, then a 6. Each step of a member towards it is another 8. A leave
writes tombstones (8, 7, 5), then the epoch. A change thus comes before the epoch that it causes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from kgroup.groups.timeline.context import HistoryContext, PartitionMoves, ProtocolSwitch, identity, reasons
from kgroup.groups.timeline.departures import Absence, Departure, departure
from kgroup.groups.timeline.steps import Cause, HistoryStep, PresentMember, StepKind
from kgroup.model.group_log import (
    EpochWritten,
    MemberAssignment,
    MemberAssignmentWritten,
    MemberDetails,
    MemberWritten,
    Partitions,
    PatternResolved,
    RebalanceProtocol,
    ShareStatesWritten,
    SpareTasks,
    TargetEpochWritten,
    TargetWritten,
    Topology,
    TopologyWritten,
)
from kgroup.model.groups import LEFT_TEMPORARILY
from kgroup.model.topic_partition import TopicPartition

BATCH_MS = 1_000
"""Records of one request are appended together; a record that is this much older belongs to another request."""

_HEARTBEAT_MS = 15_000
"""The longest heartbeat interval that brokers allow by default: a commit may follow a heartbeat after this time."""

_BEATS_A_SESSION = 3
"""The least number of heartbeats in a session timeout, if it is set as Kafka recommends."""


class Epochs:
    """Makes steps from the records of such a group, in the log's order; a step ends when the next one begins."""

    def __init__(self, context: HistoryContext) -> None:
        self._context = context
        self._members: dict[str, MemberDetails] = {}
        self._targets: dict[str, Partitions] = {}
        self._spares: dict[str, SpareTasks] = {}
        self._holdings: dict[str, MemberAssignment] = {}
        self._gone_targets: dict[str, Partitions] = {}
        self._gone_members: dict[str, MemberDetails] = {}
        self._gone_holdings: dict[str, MemberAssignment] = {}
        self._owners: dict[TopicPartition, str] = {}
        self._heartbeats_ms: dict[str, int] = {}
        self._frozen: tuple[ObservedMember, ...] | None = None
        self._since: dict[str, int] = {}
        self._changes = EpochChanges()
        self._open: OpenEpoch | None = None
        self._last: EpochWritten | None = None
        self._carried: ProtocolSwitch | None = None
        self._topology: Topology | None = None
        self._initialized: Partitions | None = None

    @property
    def number(self) -> int:
        """The group epoch, 0 before any."""
        return 0 if self._last is None else self._last.epoch

    @property
    def members(self) -> Mapping[str, str | None]:
        """The present members and those that left since the last epoch: member id -> instance id."""
        all_details = {**self._gone_members, **self._members}
        return {member_id: details.instance_id for member_id, details in all_details.items()}

    def owner(self, tp: TopicPartition) -> str | None:
        """Id of the member that owns a partition now or still has to revoke it; None if there is none."""
        subtopology = None if self._topology is None else self._topology.reads.get(tp.topic)
        return self._owners.get(tp if subtopology is None else TopicPartition(subtopology, tp.partition))

    def note_switch(self, carried: ProtocolSwitch) -> None:
        self._carried = carried

    def reset(self) -> HistoryStep | None:
        """Drop all state: the group is gone or has switched to the classic protocol; return the open step."""
        step = self.close(None)
        for state in (self._members, self._targets, self._holdings, self._owners, self._since, self._heartbeats_ms):
            state.clear()
        self._spares.clear()
        self._forget_gone()
        self._changes, self._last, self._carried = EpochChanges(), None, None
        self._topology = self._initialized = None
        return step

    def member(self, record: MemberWritten) -> None:
        self._note_time(record.at_ms)
        member_id, details, changes = record.member_id, record.details, self._changes
        self._freeze()
        before = self._members.pop(member_id, None)
        if details is None:
            if before is None:
                changes.gone[member_id] = Departure(Cause.GONE, inferred=False)
            else:
                self._gone_members[member_id] = before
                changes.gone[member_id] = departure(self._absence(member_id, before, record))
            return
        self._members[member_id] = details
        if before is not None:
            if (before.topics, before.pattern) != (details.topics, details.pattern):
                changes.subscribed.append(member_id)
            return
        self._since[member_id] = record.log_offset
        self._heartbeats_ms[member_id] = record.at_ms
        old = self._predecessor(details.instance_id)
        if old is not None:
            changes.replaced[member_id] = old
            changes.gone.pop(old, None)
            if self._open is not None and old in self._open.waiting:
                self._open.waiting ^= {old, member_id}
            if self._gone_members[old].topics != details.topics:
                changes.subscribed.append(member_id)
        elif self._carried is None or member_id not in self._carried.members:
            changes.joined.append(member_id)

    def _predecessor(self, instance_id: str | None) -> str | None:
        """Id of the gone member with this instance id that a static member replaces; None if there is none."""
        if instance_id is None:
            return None
        gone_members = self._gone_members
        return next(
            (old for old in self._changes.gone if old in gone_members and gone_members[old].instance_id == instance_id),
            None,
        )

    def pattern(self, record: PatternResolved) -> None:
        self._note_time(record.at_ms)
        self._changes.pattern = record.topics is not None

    def topology(self, record: TopologyWritten) -> None:
        self._note_time(record.at_ms)
        before, self._topology = self._topology, record.topology
        self._changes.topology |= None not in (before, record.topology) and before != record.topology

    def share_states(self, record: ShareStatesWritten) -> None:
        self._note_time(record.at_ms)
        before, self._initialized = self._initialized, None if record.states is None else record.states.initialized
        self._changes.initialized |= bool(self._initialized and self._initialized - (before or frozenset()))

    def target(self, record: TargetWritten) -> None:
        if record.spares is not None:
            self._spares[record.member_id] = record.spares
        if record.partitions is None:
            self._freeze()
            self._spares.pop(record.member_id, None)
            if (before := self._targets.pop(record.member_id, None)) is not None:
                self._gone_targets[record.member_id] = before
        else:
            self._targets[record.member_id] = record.partitions

    def target_epoch(self, record: TargetEpochWritten) -> None:
        if self._open is not None and record.epoch is not None and record.epoch >= self._open.record.epoch:
            if self._open.record.protocol is not RebalanceProtocol.SHARE:  # there several members share a partition
                assigned = {identity(m, d.instance_id): self._target(m) for m, d in self._members.items()}
                self._open.moves = self._context.ownership.assign(assigned) if assigned else None
            self._open.promoted = self._promoted() if self._open.moves is not None else None
            self._open.target = True
            self._settle(record.at_ms)

    def _promoted(self) -> int | None:
        """How many active tasks of the target are at a member that has them as standby or warm-up tasks now."""
        spares = {member_id: held.spares for member_id, held in self._holdings.items() if held.spares is not None}
        taken = (
            self._targets.get(member_id, frozenset()) & (held.standby | held.warmup)
            for member_id, held in spares.items()
        )
        return sum(map(len, taken)) if spares else None

    def holding(self, record: MemberAssignmentWritten) -> None:
        member_id, holding = record.member_id, record.holding
        if holding is None:
            self._freeze()
        before = self._holdings.pop(member_id, None)
        if before is not None:
            for tp in before.partitions | before.pending:
                if self._owners.get(tp) == member_id:
                    del self._owners[tp]
        if holding is None:
            if before is not None:
                self._gone_holdings[member_id] = before
            return
        self._heartbeats_ms[member_id] = record.at_ms
        self._holdings[member_id] = holding
        self._owners |= dict.fromkeys(holding.partitions | holding.pending, member_id)
        self._settle(record.at_ms, member_id)

    def epoch(self, record: EpochWritten) -> HistoryStep | None:
        """Start a new epoch; return the step that it ends, None if there is none or the epoch is only repeated."""
        self._note_time(record.at_ms)
        before = self._last
        if before is not None and before.epoch == record.epoch and not self._changes.any:
            return None
        step = self.close(record)
        self._open = self._begin(record, before)
        self._last, self._changes, self._carried = record, EpochChanges(), None
        self._forget_gone()
        if not self._members:
            self._context.ownership.all_left()
        return step

    def _begin(self, record: EpochWritten, before: EpochWritten | None) -> OpenEpoch:
        changes, causes, inferred = self._changes, dict[Cause, list[str]](), set[Cause]()
        if self._carried is not None:
            causes[self._carried.cause] = []
        if before is not None and (record.epoch < before.epoch or record.protocol is not before.protocol):
            causes[Cause.RECREATED] = []
            self._context.ownership.reset()
        if changes.joined:
            causes[Cause.JOIN] = changes.joined
        for member_id, went in changes.gone.items():
            causes.setdefault(went.cause, []).append(member_id)
            if went.inferred:
                inferred.add(went.cause)
        if changes.replaced:
            causes[Cause.STATIC_REPLACED] = list(changes.replaced)
        if changes.subscribed or changes.pattern:
            causes[Cause.SUBSCRIPTION] = changes.subscribed
        causes |= {cause: [] for cause in _of_application(changes, record, before)}
        hashes = (None if before is None else before.topics_hash, record.topics_hash)
        # A static member that came back with the same subscription changes nothing about the topics.
        if (
            before is not None
            and causes.keys() <= {Cause.STATIC_REPLACED}
            and None not in hashes
            and hashes[0] != hashes[1]
        ):
            causes[Cause.PARTITIONS] = []
        kind = StepKind.REBALANCE if self._members else StepKind.EMPTY
        if not causes and kind is StepKind.REBALANCE:
            causes[Cause.INITIALIZED if changes.initialized else Cause.UNKNOWN] = []
        return OpenEpoch(record, kind, causes, inferred, returned=self._returned())

    def flush(self, now_ms: int | None) -> HistoryStep | None:
        """The step of static members that came back without an epoch; None without them, or if one may still follow.

        An epoch may follow within a second of their records; ``now_ms`` None: the log has ended, none follows.
        """
        changes = self._changes
        if not changes.replaced or self._last is None:
            return None
        if now_ms is not None and now_ms - changes.at_ms <= BATCH_MS:
            return None
        causes = {Cause.STATIC_REPLACED: list(changes.replaced)}
        step = HistoryStep(
            protocol=self._last.protocol,
            number=self._last.epoch,
            kind=StepKind.REWRITTEN,
            log_offset=min(self._since[member_id] for member_id in changes.replaced),
            at_ms=changes.at_ms,
            reasons=reasons(self._context, causes),
            members=self._present(self._observed()),
            moved=0,
            moved_needlessly=0,
            returned=self._returned(),
        )
        changes.replaced = {}
        self._frozen = None
        return step

    def close(self, following: EpochWritten | None) -> HistoryStep | None:
        """End and return the open step; ``following`` is the next epoch, None if the log or the group ends."""
        ended, self._open = self._open, None
        if ended is None:
            return None
        settled = ended.settled_ms
        completed = None
        if ended.kind is StepKind.REBALANCE:
            completed = (
                True if settled is not None else False if following is not None and self._is_complete(ended) else None
            )
        return HistoryStep(
            protocol=ended.record.protocol,
            number=ended.record.epoch,
            kind=ended.kind,
            log_offset=ended.record.log_offset,
            at_ms=ended.record.at_ms,
            reasons=reasons(self._context, ended.causes, frozenset(ended.inferred)),
            members=self._present(self._frozen if self._frozen is not None else self._observed()),
            moved=None if ended.moves is None else ended.moves.moved,
            moved_needlessly=None if ended.moves is None else ended.moves.needlessly,
            promoted=ended.promoted,
            returned=ended.returned,
            took_ms=None if settled is None else max(0, settled - ended.record.at_ms),
            completed=completed,
        )

    def _is_complete(self, current: OpenEpoch) -> bool:
        """Whether all records were read that would show that the members reached this epoch."""
        member_ids = set(self._members) | set(self._gone_members)
        return member_ids <= set(self._holdings) | set(self._gone_members) and self._context.evidence.whole(
            current.record.log_offset, current.record.log_offset + 1
        )

    def _settle(self, at_ms: int, member_id: str | None = None) -> None:
        """Note the time when every member has its target; ``member_id`` None: the target has just become known."""
        current = self._open
        if current is None or current.settled_ms is not None or not current.target or not self._members:
            return
        if member_id is None:
            current.waiting = {member_id for member_id in self._members if not self._has_reached(member_id, current)}
        elif self._has_reached(member_id, current):
            current.waiting.discard(member_id)
        if not current.waiting:
            current.settled_ms = at_ms

    def _has_reached(self, member_id: str, current: OpenEpoch) -> bool:
        holding = self._holdings.get(member_id)
        if holding is None:
            return False
        if holding.epoch == LEFT_TEMPORARILY:
            return True
        target = self._targets.get(member_id)
        return holding.epoch >= current.record.epoch and holding.stable and target in (None, holding.partitions)

    def _target(self, member_id: str) -> Partitions | None:
        """A member's target; None if the member is older than the log and no target was read since."""
        return self._targets.get(member_id, frozenset() if member_id in self._since else None)

    def _freeze(self) -> None:
        """Keep the present members for the open step: later changes belong to the next epoch, not written yet."""
        if self._frozen is None:
            self._frozen = self._observed()

    def _forget_gone(self) -> None:
        for state in (self._gone_members, self._gone_targets, self._gone_holdings):
            state.clear()
        self._frozen = None

    def _observed(self) -> tuple[ObservedMember, ...]:
        members = []
        for member_id, details in self._members.items():
            holding = self._holdings.get(member_id)
            partitions = self._targets.get(member_id, None if holding is None else holding.partitions)
            spares = self._spares.get(member_id, None if holding is None else holding.spares)
            away = holding is not None and holding.epoch == LEFT_TEMPORARILY
            members.append(ObservedMember(member_id, details, partitions, away, spares))
        return tuple(members)

    def _present(self, observed: tuple[ObservedMember, ...]) -> tuple[PresentMember, ...]:
        members = [
            PresentMember(
                self._context.name(member.member_id),
                member.member_id,
                member.details.instance_id,
                member.details.client_id,
                member.details.host,
                member.partitions,
                None,
                member.away,
                self._session_ms(member.details),
                member.details.rebalance_timeout_ms,
                member.spares,
            )
            for member in observed
        ]
        return tuple(sorted(members, key=lambda present: (present.name, present.member_id)))

    def _returned(self) -> tuple[str, ...]:
        same = [
            new
            for new, old in self._changes.replaced.items()
            if old in self._gone_targets and self._gone_targets[old] == self._targets.get(new, self._gone_targets[old])
        ]
        return self._context.named(same)

    def _absence(self, member_id: str, details: MemberDetails, record: MemberWritten) -> Absence:
        """What is known of a gone member's end; in this protocol only heartbeats renew a session, commits do not."""
        evidence, holding = self._context.evidence, self._holdings.get(member_id, self._gone_holdings.get(member_id))
        owned = (
            holding.partitions | holding.pending if holding is not None else self._targets.get(member_id, frozenset())
        )
        if self._topology is not None:
            reads, tasks = self._topology.reads, owned
            owned = frozenset(TopicPartition(topic, n) for topic, sub in reads.items() for of, n in tasks if of == sub)
        since = self._since.get(member_id, -1)
        commit_ms = evidence.last_commit(owned, since, record.log_offset)
        heartbeat_ms = self._heartbeats_ms.get(member_id)
        session_ms, poll_ms = self._session_ms(details), details.rebalance_timeout_ms
        beat_ms = _HEARTBEAT_MS if session_ms is None else min(_HEARTBEAT_MS, session_ms // _BEATS_A_SESSION)
        proofs = [time for time in (heartbeat_ms, None if commit_ms is None else commit_ms - beat_ms) if time]
        signs = [time for time in (heartbeat_ms, commit_ms) if time is not None]
        whole = evidence.whole(since, record.log_offset)
        rhythm_ms = evidence.rhythm_ms if owned and whole else None
        if holding is not None and holding.epoch == LEFT_TEMPORARILY:
            # It left for a moment and is expected back: no other sign of life can follow.
            signs, proofs, rhythm_ms = ([heartbeat_ms], [], 0) if heartbeat_ms is not None and whole else ([], [], None)
        return Absence(
            silent_ms=record.at_ms - max(signs) if signs else None,
            proven_ms=record.at_ms - max(proofs) if proofs else None,
            rhythm_ms=rhythm_ms,
            session_ms=session_ms,
            poll_ms=poll_ms,
            noticed_ms=0,
            early_ms=beat_ms if commit_ms is not None and signs and max(signs) == commit_ms else 0,
            # Java's client leaves when it exceeds its poll interval; librdkafka only stops heartbeats (seen with 2.15).
            mute_ms=None if session_ms is None or poll_ms is None else poll_ms + session_ms,
        )

    def _session_ms(self, details: MemberDetails) -> int | None:
        own_ms = details.classic_session_ms
        return self._context.session_ms if own_ms is None else own_ms

    def _note_time(self, at_ms: int) -> None:
        if at_ms - self._changes.at_ms > BATCH_MS and not self._changes.any and self._frozen is None:
            self._forget_gone()
        self._changes.at_ms = at_ms


@dataclass(slots=True)
class EpochChanges:
    """What has changed since the last epoch."""

    at_ms: int = 0
    joined: list[str] = field(default_factory=list)
    gone: dict[str, Departure] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)
    subscribed: list[str] = field(default_factory=list)
    pattern: bool = False
    topology: bool = False
    initialized: bool = False

    @property
    def any(self) -> bool:
        """Whether anything has changed that can cause an epoch."""
        return bool(self.joined or self.gone or self.replaced or self.subscribed or self.pattern or self.topology)


def _of_application(changes: EpochChanges, record: EpochWritten, before: EpochWritten | None) -> Iterator[Cause]:
    if changes.topology:
        yield Cause.TOPOLOGY
    if before is not None and None not in (before.settings, record.settings) and before.settings != record.settings:
        yield Cause.SETTINGS


class ObservedMember(msgspec.Struct, frozen=True):
    """A member at one moment."""

    member_id: str
    details: MemberDetails
    partitions: Partitions | None
    away: bool
    spares: SpareTasks | None


@dataclass(slots=True)
class OpenEpoch:
    """The current epoch as far as it was read; ``waiting`` are members that have not reached it yet."""

    record: EpochWritten
    kind: StepKind
    causes: dict[Cause, list[str]]
    inferred: set[Cause]
    moves: PartitionMoves | None = None
    promoted: int | None = None
    target: bool = False
    waiting: set[str] = field(default_factory=set)
    settled_ms: int | None = None
    returned: tuple[str, ...] = ()
