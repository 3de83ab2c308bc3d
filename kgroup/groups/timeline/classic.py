"""The generations of a classic group: each record is compared with the one before it.

The coordinator writes a generation when the leader's assignment arrives, when the group becomes Empty, and when a
static member is replaced (same generation). Heartbeats leave no trace, failed joins only a gap in the numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from kgroup.groups.timeline.context import HistoryContext, ProtocolSwitch, identity, reasons
from kgroup.groups.timeline.departures import Absence, Departure, departure
from kgroup.groups.timeline.steps import Cause, HistoryStep, PresentMember, StepKind
from kgroup.model.group_log import GenerationMember, GenerationWritten, Partitions, RebalanceProtocol

_NOBODY: Mapping[str, str | None] = {}


class _Change(msgspec.Struct, frozen=True):
    """Member ids that joined, left and replaced others; ``replaced`` is, for static members, new id -> old id."""

    joined: tuple[str, ...]
    left: tuple[str, ...]
    replaced: Mapping[str, str]


class GenerationTracker:
    """Makes steps from the records of a classic group, in the log's order."""

    def __init__(self, context: HistoryContext) -> None:
        self._context = context
        self._before: GenerationWritten | None = None
        self._withheld: Partitions = frozenset()
        self._sizes: dict[str, int] = {}
        self._began = -1
        self._came_back_ms: dict[str, int] = {}

    @property
    def members(self) -> Mapping[str, str | None]:
        """The present members: member id -> instance id."""
        return {} if self._before is None else {m.member_id: m.instance_id for m in self._before.members}

    @property
    def number(self) -> int:
        """The present generation, 0 before any."""
        return 0 if self._before is None else self._before.generation

    def reset(self) -> None:
        """Drop all state: the group is gone or has switched to the consumer protocol."""
        self._before = None
        self._withheld = frozenset()
        self._sizes.clear()
        self._came_back_ms.clear()

    def add(self, record: GenerationWritten, carried: ProtocolSwitch | None, *, first: bool) -> HistoryStep | None:
        """The step of a record; None if it repeats the one before it, or only creates the group.

        ``carried`` has the members under the other protocol, if the group switched just now. ``first`` is whether
        the log has no earlier record of the group.
        """
        before = self._before
        if before is None and carried is None and record.generation == 0 and not record.members:
            # Kafka 4 writes this record when it creates a group, a moment before the first member joins.
            self._context.ownership.reset()
            self._before = record
            return None
        members = carried.members if carried else self.members if before else _NOBODY
        change = _change(members, record)
        same = before is not None and record.generation == before.generation
        if before is not None and same and _is_equal(before, record):
            self._before = record
            return None
        causes, inferred = self._causes(record, change, carried)
        kind = StepKind.REWRITTEN if same else StepKind.REBALANCE if record.members else StepKind.EMPTY
        known_before = before is not None or carried is not None
        if not known_before:
            # The oldest record has nothing to compare with; only generation 1 is known to be the first with members.
            causes = {Cause.JOIN: [m.member_id for m in record.members]} if record.generation == 1 else {}
        if not causes and kind is not StepKind.EMPTY and not (first and record.generation == 1):
            causes = {Cause.UNKNOWN: ()}
        step = self._step(record, kind, change, causes, inferred)
        self._remember_assignment(record)
        if same:
            self._came_back_ms |= dict.fromkeys(change.replaced, record.at_ms)
        else:
            self._began = record.log_offset
            self._came_back_ms.clear()
        self._before = record
        return step

    def _causes(
        self, record: GenerationWritten, change: _Change, carried: ProtocolSwitch | None
    ) -> tuple[dict[Cause, Collection[str]], frozenset[Cause]]:
        before, causes, inferred = self._before, dict[Cause, list[str]](), set[Cause]()
        if carried is not None:
            causes[carried.cause] = []
        if before is not None and record.generation < before.generation:
            causes[Cause.RECREATED] = []
        if change.joined:
            causes[Cause.JOIN] = list(change.joined)
        if change.replaced:
            causes[Cause.STATIC_REPLACED] = list(change.replaced)
        if before is None:
            if change.left:
                causes[Cause.GONE] = list(change.left)
            return dict(causes), frozenset()
        for member_id, went in self._departures(change, before, record).items():
            causes.setdefault(went.cause, []).append(member_id)
            if went.inferred:
                inferred.add(went.cause)
        if record.members and before.leader is not None and before.leader in change.left:
            causes[Cause.LEADER_GONE] = [before.leader]
        self._add_metadata(causes, change, before, record)
        return dict(causes), frozenset(inferred)

    def _departures(
        self, change: _Change, before: GenerationWritten, record: GenerationWritten
    ) -> dict[str, Departure]:
        earlier = {member.member_id: member for member in before.members}
        return {
            member_id: departure(self._absence(earlier[member_id], before, record))
            for member_id in change.left
            if member_id in earlier
        }

    def _add_metadata(
        self, causes: dict[Cause, list[str]], change: _Change, before: GenerationWritten, record: GenerationWritten
    ) -> None:
        """Add the causes for changed subscriptions, for new partitions, and for partitions withheld until now."""
        earlier = {member.member_id: member for member in before.members}
        changed = [m.member_id for m in record.members if _changed_subscription(m, earlier, change.replaced)]
        if changed:
            causes[Cause.SUBSCRIPTION] = changed
        if self._has_new_partitions(record):
            causes[Cause.PARTITIONS] = []
        if self._withheld & _assigned(record):
            causes[Cause.FOLLOW_UP] = []

    def _absence(self, member: GenerationMember, before: GenerationWritten, record: GenerationWritten) -> Absence:
        evidence = self._context.evidence
        owned = member.partitions or frozenset()
        span = (self._began, record.log_offset)
        gone_ms = record.at_ms if record.joined_ms is None or not record.members else record.joined_ms
        joined_ms = self._came_back_ms.get(member.member_id, before.joined_ms)
        plain_ms = evidence.last_commit(owned, *span, plain=True)
        any_ms = evidence.last_commit(owned, *span)
        proofs = [time for time in (joined_ms, plain_ms) if time is not None]
        signs = [time for time in (joined_ms, any_ms) if time is not None]
        telling = bool(owned) and evidence.whole(*span)
        return Absence(
            silent_ms=gone_ms - max(signs) if signs else None,
            proven_ms=gone_ms - max(proofs) if proofs else None,
            rhythm_ms=evidence.rhythm_ms if telling else None,
            session_ms=member.session_timeout_ms,
            poll_ms=member.rebalance_timeout_ms,
            noticed_ms=max(0, member.session_timeout_ms) // 3,
        )

    def _has_new_partitions(self, record: GenerationWritten) -> bool:
        """Whether a topic that was assigned before now has a higher partition number than ever."""
        return any(number > self._sizes[topic] for topic, number in _sizes(record).items() if topic in self._sizes)

    def _remember_assignment(self, record: GenerationWritten) -> None:
        assigned = _assigned(record)
        if "cooperative" in (record.assignor or ""):
            before = _assigned(self._before) if self._before is not None else frozenset()
            self._withheld = (self._withheld | before) - assigned if record.members else frozenset()
        else:
            self._withheld = frozenset()
        for topic, number in _sizes(record).items():
            self._sizes[topic] = max(number, self._sizes.get(topic, number))

    def _step(
        self,
        record: GenerationWritten,
        kind: StepKind,
        change: _Change,
        causes: Mapping[Cause, Collection[str]],
        inferred: frozenset[Cause],
    ) -> HistoryStep:
        context = self._context
        if Cause.RECREATED in causes:
            context.ownership.reset()
        moves = None
        assigned = {identity(m.member_id, m.instance_id): m.partitions for m in record.members}
        if record.members:
            moves = context.ownership.assign(assigned)
        else:
            context.ownership.all_left()
        quiet_ms, idle_ms = self._quiet_and_idle(record) if kind is StepKind.REBALANCE else (None, None)
        return HistoryStep(
            protocol=RebalanceProtocol.CLASSIC,
            number=record.generation,
            kind=kind,
            log_offset=record.log_offset,
            at_ms=record.at_ms,
            reasons=reasons(context, causes, inferred),
            leader=None if record.leader is None else context.name(record.leader),
            assignor=record.assignor,
            members=tuple(self._present(member) for member in record.members),
            moved=None if moves is None else moves.moved,
            moved_needlessly=None if moves is None else moves.needlessly,
            never_completed=self._never_completed(record, causes),
            returned=self._returned(record, change),
            took_ms=_took_ms(record) if kind is StepKind.REBALANCE else None,
            joined_ms=record.joined_ms if kind is StepKind.REBALANCE else None,
            quiet_ms=quiet_ms,
            idle_ms=idle_ms,
            completed=None if kind is not StepKind.REBALANCE else True,
        )

    def _present(self, member: GenerationMember) -> PresentMember:
        return PresentMember(
            self._context.name(member.member_id),
            member.member_id,
            member.instance_id,
            member.client_id,
            member.host,
            member.partitions,
            None,
            session_ms=member.session_timeout_ms,
            poll_ms=member.rebalance_timeout_ms,
        )

    def _never_completed(self, record: GenerationWritten, causes: Mapping[Cause, object]) -> int | None:
        before = self._before
        if before is None or Cause.RECREATED in causes:
            return None if before is None and record.generation > 1 else 0
        skipped = max(0, record.generation - before.generation - 1)
        whole = self._context.evidence.whole(before.log_offset, record.log_offset)
        return skipped if not skipped or whole else None

    def _returned(self, record: GenerationWritten, change: _Change) -> tuple[str, ...]:
        """Names of static members that were replaced and have the same partitions as before."""
        if self._before is None:
            return ()
        earlier = {member.member_id: member.partitions for member in self._before.members}
        same = [
            m.member_id
            for m in record.members
            if (old := change.replaced.get(m.member_id)) is not None
            and m.partitions is not None
            and earlier.get(old) == m.partitions
        ]
        return self._context.named(same)

    def _quiet_and_idle(self, record: GenerationWritten) -> tuple[int | None, int | None]:
        before, evidence = self._before, self._context.evidence
        if before is None or not before.members or not evidence.whole(before.log_offset, record.log_offset):
            return None, None
        last_ms = evidence.last_of_all(before.log_offset, record.log_offset)
        if last_ms is not None:
            quiet_ms = max(0, record.at_ms - last_ms)
            return quiet_ms, quiet_ms
        idle_ms = max(0, record.at_ms - before.at_ms)
        longest_ms = max(member.rebalance_timeout_ms or member.session_timeout_ms for member in before.members)
        return None, idle_ms if idle_ms <= longest_ms else None


def _change(members: Mapping[str, str | None], record: GenerationWritten) -> _Change:
    now = {member.member_id: member.instance_id for member in record.members}
    old_of = {instance: member_id for member_id, instance in members.items() if instance is not None}
    fresh = [member_id for member_id in now if member_id not in members]
    replaced = {
        member_id: old_of[instance]
        for member_id in fresh
        if (instance := now[member_id]) is not None and instance in old_of and old_of[instance] not in now
    }
    replaced_ids = set(replaced.values())
    return _Change(
        tuple(member_id for member_id in fresh if member_id not in replaced),
        tuple(member_id for member_id in members if member_id not in now and member_id not in replaced_ids),
        replaced,
    )


def _is_equal(before: GenerationWritten, record: GenerationWritten) -> bool:
    return (before.members, before.leader, before.assignor) == (record.members, record.leader, record.assignor)


def _changed_subscription(
    member: GenerationMember, earlier: Mapping[str, GenerationMember], replaced: Mapping[str, str]
) -> bool:
    before = earlier.get(replaced.get(member.member_id, member.member_id))
    if before is None or before.topics is None or member.topics is None:
        return False
    return before.topics != member.topics


def _assigned(record: GenerationWritten) -> Partitions:
    return frozenset(tp for member in record.members for tp in member.partitions or ())


def _sizes(record: GenerationWritten) -> dict[str, int]:
    """Topic -> the highest assigned partition."""
    sizes: dict[str, int] = {}
    for topic, partition in _assigned(record):
        sizes[topic] = max(partition, sizes.get(topic, partition))
    return sizes


def _took_ms(record: GenerationWritten) -> int | None:
    if record.joined_ms is None or record.at_ms < record.joined_ms:
        return None
    return record.at_ms - record.joined_ms
