"""The content of the ledger: the newest record of each key, combined to plans. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec.structs import replace

from kgroup.catchup.ledger.records import (
    LEDGER_DAMAGED,
    RecordKey,
    RecordKind,
    Value,
    decode,
    decode_key,
    decode_plan_head,
    decode_plan_without_chunks,
    plan_of,
)
from kgroup.cluster.reader.to_end import Item
from kgroup.groups.catchup.dead_letters import Redrive
from kgroup.groups.catchup.model import (
    AppliedRate,
    CatchupPlan,
    ChunkProgress,
    Delivery,
    GapRange,
    PlanHead,
    PlanSnapshot,
    PlanState,
    PlanTotals,
    RunnerEpoch,
    StateRecord,
    ThrottleRecord,
)
from kgroup.model.records import OffsetRange
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotFound, Refused, refusal_code
from kgroup.support.hint import Hint

PLAN_OVERLAPS = refusal_code(
    "plan-overlaps", "catchup start", "Another plan has these offsets.", "Continue with that plan: catchup resume."
)
PLAN_EXISTS = refusal_code(
    "plan-exists",
    "catchup start",
    "The ledger already has a plan with this id.",
    "Run the command again: it makes another id.",
)

_CHUNK = b"chunk/"
_CHOOSING = (b"/plan", b"/state")
"""The ends of the keys of which a PlanHead is made."""


Wanted = Callable[[PlanHead], bool]
"""Whether the progress of a plan is needed; asked again with each of its states. False once is False for good."""


def nothing_wanted(head: PlanHead) -> bool:
    """No progress is needed: the heads are enough."""
    return False


def affecting(groups: Container[str] | None) -> Wanted:
    """The plans that show what is pending of these groups, None: of any. Plans without a group may affect each."""

    def wanted(head: PlanHead) -> bool:
        if head.group is None:  # it covers its ranges also after its end, see unrecorded_releases
            return head.state is not PlanState.CANCELLED
        return head.may_be_open and (groups is None or head.group in groups)

    return wanted


@dataclass(slots=True)
class LedgerView:
    """The newest record of each key that was read; values are decoded only on demand.

    With ``only`` set, records of plans with other ids are ignored. Records that kgroup did not write are always
    ignored. The progress of a plan that is not ``wanted`` is dropped: a ledger may have hundreds of plans of 40,000
    chunks; with ``keeps_keys``, its keys are kept. With ``lenient``, ``ledgered`` returns what can be read of a plan
    with damaged records.
    """

    only: Set[str] | None = None
    wanted: Wanted | None = None
    lenient: bool = False
    keeps_keys: bool = False
    _newest: dict[str, dict[bytes, tuple[int, bytes]]] = field(default_factory=dict)
    _dropped: dict[str, set[bytes]] = field(default_factory=dict)
    """By plan, the keys of the progress that was dropped."""

    def add(self, items: Iterable[Item]) -> LedgerView:
        """Add these records, in log order; returns itself."""
        prefix, owner = b"", None
        for offset, key, value in items:
            if key is None:
                continue
            if not (prefix and key.startswith(prefix)):  # mostly it is the plan of the record before
                owner = plan_of(key)
                prefix = b"" if owner is None else f"{owner}/".encode()
            if owner is None or (self.only is not None and owner not in self.only):
                continue
            if owner in self._dropped and key.startswith(_CHUNK, len(prefix)):
                if value is None:
                    self._dropped[owner].discard(key)
                elif self.keeps_keys:
                    self._dropped[owner].add(key)
                continue
            records = self._newest.setdefault(owner, {})
            if value is None:
                records.pop(key, None)
                continue
            records[key] = (offset, value)
            if self.wanted is not None and key.endswith(_CHOOSING) and owner not in self._dropped:
                self._drop_unwanted(owner, self.wanted)
        return self

    def has_progress(self, plan_id: str) -> bool:
        """Whether the progress of the plan was kept."""
        return plan_id not in self._dropped

    def _drop_unwanted(self, plan_id: str, wanted: Wanted) -> None:
        with suppress(KgroupError):  # an unreadable plan is kept, so that it is reported
            if not wanted(self.head(plan_id)):
                records = self._newest[plan_id]
                dropped = {key for key in records if b"/chunk/" in key}
                self._dropped[plan_id] = dropped if self.keeps_keys else set()
                self._newest[plan_id] = {key: record for key, record in records.items() if key not in dropped}

    def group(self, plan_id: str) -> str | None:
        """The group of a plan; raises as ``head``, but does not read the state."""
        return self._head(plan_id).group

    def head(self, plan_id: str) -> PlanHead:
        """What chooses a plan. Raises NotFound if its own record is not present, and as ``decode``."""
        state = self.value(RecordKey(plan_id, RecordKind.STATE))
        return replace(self._head(plan_id), state=state.state if isinstance(state, StateRecord) else None)

    def _head(self, plan_id: str) -> PlanHead:
        key = RecordKey(plan_id, RecordKind.PLAN)
        record = self._newest.get(plan_id, {}).get(key.encode())
        if record is None:
            raise no_plan(plan_id)
        return decode_plan_head(key, *record)

    def plan_ids(self) -> tuple[str, ...]:
        """The plans whose own record is present, in the order of these records."""
        offsets = ((records[key][0], plan_id) for plan_id, key, records in self._with_plan())
        return tuple(plan_id for _, plan_id in sorted(offsets))

    def pruned_ids(self) -> frozenset[str]:
        """The plans of which only the state is left, and which were finished."""
        pruned = set[str]()
        for plan_id in self._newest.keys() - set(self.plan_ids()):
            with suppress(KgroupError):  # by a newer kgroup: whether it was finished is unknown
                if not self.state(plan_id).state.is_open:
                    pruned.add(plan_id)
        return frozenset(pruned)

    def _with_plan(self) -> Iterator[tuple[str, bytes, dict[bytes, tuple[int, bytes]]]]:
        for plan_id, records in self._newest.items():
            key = RecordKey(plan_id, RecordKind.PLAN).encode()
            if key in records:
                yield plan_id, key, records

    def keys(self, plan_id: str) -> tuple[bytes, ...]:
        """The keys of a plan's records."""
        return (*self._newest.get(plan_id, ()), *self._dropped.get(plan_id, ()))

    def value(self, key: RecordKey) -> Value | None:
        """The newest value of a key, None if there is none. Raises as ``decode``."""
        record = self._newest.get(key.plan_id, {}).get(key.encode())
        return None if record is None else decode(key, record[1])

    def plan(self, plan_id: str) -> CatchupPlan:
        """The plan's own record. Raises NotFound if there is none, and as ``decode``."""
        plan = self.value(RecordKey(plan_id, RecordKind.PLAN))
        if not isinstance(plan, CatchupPlan):
            raise no_plan(plan_id)
        return plan

    def state(self, plan_id: str) -> StateRecord:
        """The state of a plan. Raises Refused [ledger-damaged] if there is none, and as ``decode``."""
        state = self.value(RecordKey(plan_id, RecordKind.STATE))
        if not isinstance(state, StateRecord):
            raise Refused(f"the ledger has plan {plan_id}, but not its state", code=LEDGER_DAMAGED)
        return state

    def epoch(self, plan_id: str) -> RunnerEpoch | None:
        """The epoch of the plan's runner, None before the first runner. Raises as ``decode``."""
        epoch = self.value(RecordKey(plan_id, RecordKind.EPOCH))
        return epoch if isinstance(epoch, RunnerEpoch) else None

    def delivery(self, plan_id: str) -> Delivery | None:
        """The delivery of the plan, None if it is not set yet. Raises as ``decode``."""
        delivery = self.value(RecordKey(plan_id, RecordKind.DELIVERY))
        return delivery if isinstance(delivery, Delivery) else None

    def throttle(self, plan_id: str) -> ThrottleRecord | None:
        """What ``catchup throttle`` set last, None if nothing. Raises as ``decode``."""
        throttle = self.value(RecordKey(plan_id, RecordKind.THROTTLE))
        return throttle if isinstance(throttle, ThrottleRecord) else None

    def applied(self, plan_id: str) -> AppliedRate | None:
        """What its last runner that replayed applied, None if there was none. Raises as ``decode``."""
        applied = self.value(RecordKey(plan_id, RecordKind.APPLIED))
        return applied if isinstance(applied, AppliedRate) else None

    def progress(self, plan_id: str, chunks: Iterable[int]) -> dict[int, ChunkProgress]:
        """The progress of these chunks by number; chunks without progress are left out. Raises as ``decode``."""
        values = ((number, self.value(RecordKey(plan_id, RecordKind.CHUNK, number))) for number in chunks)
        return {number: value for number, value in values if isinstance(value, ChunkProgress)}

    def ledgered(self, plan_id: str) -> PlanSnapshot:
        """Everything about a plan. Raises NotFound if there is none, and as ``decode`` for any of its records.

        A verified plan comes with its totals, whatever chunks the ledger still has. Any other plan must be ``wanted``:
        otherwise its progress is missing.
        """
        try:
            return self._ledgered(plan_id)
        except NotFound:
            raise
        except KgroupError as error:
            if not self.lenient:
                raise
            return self.salvaged(plan_id, error)

    def salvaged(self, plan_id: str, damage: KgroupError) -> PlanSnapshot:
        """What can be read of a plan of which ``ledgered`` raises ``damage``; see PlanSnapshot."""
        offset = self._newest[plan_id][RecordKey(plan_id, RecordKind.PLAN).encode()][0]
        values = {kind: self._readable(RecordKey(plan_id, kind)) for kind in RecordKind if kind is not RecordKind.CHUNK}
        plan, state = values[RecordKind.PLAN], values[RecordKind.STATE]
        epoch, delivery, totals = values[RecordKind.EPOCH], values[RecordKind.DELIVERY], values[RecordKind.TOTALS]
        if not isinstance(plan, CatchupPlan):
            plan = CatchupPlan(plan_id, None, None, None, 0, "unknown", None, (), (), chunks=())
        if not isinstance(state, StateRecord):
            state = StateRecord(PlanState.RELEASING, 0, plan.who, 0)
        chunks = (RecordKey(plan_id, RecordKind.CHUNK, chunk.number) for chunk in plan.chunks)
        readable = {key.chunk: self._readable(key) for key in chunks if key.encode() in self._newest[plan_id]}
        snapshot = PlanSnapshot(
            plan,
            offset,
            state,
            epoch if isinstance(epoch, RunnerEpoch) else None,
            delivery if isinstance(delivery, Delivery) else None,
            {value.chunk: value for value in readable.values() if isinstance(value, ChunkProgress)},
            damage=damage,
        )
        may_have_ended = plan.ranges and not (isinstance(values[RecordKind.STATE], StateRecord) and state.state.is_open)
        if may_have_ended and isinstance(totals, PlanTotals) and totals.complete:
            return snapshot.with_totals(totals)
        return snapshot

    def _readable(self, key: RecordKey) -> Value | None:
        with suppress(KgroupError):
            return self.value(key)
        return None

    def damaged_keys(self, plan_id: str) -> tuple[bytes, ...]:
        """The keys of a plan's records that cannot be read."""

        def is_damaged(raw: bytes, value: bytes) -> bool:
            try:
                decode(decode_key(raw), value)
            except KgroupError:
                return True
            return False

        records = self._newest.get(plan_id, {})
        return tuple(raw for raw, (_, value) in records.items() if is_damaged(raw, value))

    def _ledgered(self, plan_id: str) -> PlanSnapshot:
        ended = self._ended(plan_id)
        if ended is not None and ended.is_verified:
            return ended
        plan = self.plan(plan_id)
        records = self._newest[plan_id]
        delivery = self.delivery(plan_id)
        keys = [(decode_key(raw), value) for raw, (_, value) in records.items()]
        values = ((key.chunk, decode(key, value)) for key, value in keys if key.chunk is not None)
        progress = {number: value for number, value in values if isinstance(value, ChunkProgress)}
        return PlanSnapshot(
            plan,
            records[RecordKey(plan_id, RecordKind.PLAN).encode()][0],
            self.state(plan_id),
            self.epoch(plan_id),
            delivery,
            progress,
            throttle=self.throttle(plan_id),
            applied=self.applied(plan_id),
        )

    def brief(self, plan_id: str) -> PlanSnapshot:
        """As ``ledgered``, but for a list: with the totals of an ended plan instead of its chunks and progress.

        Without totals it is the same as ``ledgered``.
        """
        return self._ended(plan_id) or self.ledgered(plan_id)

    def _ended(self, plan_id: str) -> PlanSnapshot | None:
        """An ended plan with its totals; None if it is open or the ledger has no totals of its ranges."""
        key = RecordKey(plan_id, RecordKind.PLAN)
        record = self._newest.get(plan_id, {}).get(key.encode())
        if record is None or (state := self.state(plan_id)).state.is_open:
            return None
        totals, (offset, raw) = self.value(RecordKey(plan_id, RecordKind.TOTALS)), record
        plan = decode_plan_without_chunks(key, raw)
        if not isinstance(totals, PlanTotals) or len(plan.ranges) != len(totals.ranges):
            return None
        epoch, delivery, throttle = self.epoch(plan_id), self.delivery(plan_id), self.throttle(plan_id)
        return PlanSnapshot(plan, offset, state, epoch, delivery, {}, totals, throttle=throttle)


def no_plan(plan_id: str) -> NotFound:
    """The error for a plan that is not in the ledger; the caller raises it."""
    return NotFound(
        f"plan {plan_id} is not in the ledger",
        hint=Hint(
            "{} shows all plans; it may have been pruned, or be in another ledger (--ledger-topic)", ("catchup", "list")
        ),
        code="no-plan",
    )


def refuse_overlap(view: LedgerView, plan: CatchupPlan) -> None:
    """Raise Refused with code ``plan-overlaps`` if an open plan of the same group has some of the same offsets.

    The code is ``plan-exists`` if the plan id is in use. Raises as ``decode``: an unreadable plan may overlap. A plan
    without a group moves nothing, so at most it delivers the records of an unreadable plan again.
    """
    if plan.id in view.plan_ids():
        raise Refused(f"the ledger already has a plan {plan.id}", code=PLAN_EXISTS)
    for plan_id in view.plan_ids():
        try:
            if view.group(plan_id) != plan.group or not view.state(plan_id).state.is_open:
                continue
            error = overlap_refusal(plan.ranges, view.plan(plan_id))
        except KgroupError:
            if plan.group is None:
                continue
            raise
        if error:
            raise error


def refuse_unknown_redrive(view: LedgerView, plan: CatchupPlan, delivery: Delivery | None) -> None:
    """Raise Refused with code ``plan-overlaps`` if a plan of the same dead letters was made since they were read.

    It may have ended in the meantime: what it delivered would be delivered again.
    """
    redrive = None if delivery is None else Redrive.decode(delivery.options)
    if redrive is None:
        return
    for plan_id in view.plan_ids():
        if _is_newer_redrive(view, plan_id, plan, redrive.ledger_offset):
            raise Refused(
                f"another kgroup run made the plan {plan_id} while the dead letters of {redrive.topic} were read",
                hint="nothing was changed; run the same command again",
                code=PLAN_OVERLAPS,
            )


def _is_newer_redrive(view: LedgerView, plan_id: str, plan: CatchupPlan, known_offset: int) -> bool:
    """Whether a plan after that offset delivers dead letters that ``plan`` has, too."""
    with suppress(KgroupError):  # of an unreadable plan it is unknown; the listing reports it
        head = view.head(plan_id)
        if head.offset <= known_offset or head.group or not _is_redrive(view.delivery(plan_id)):
            return False
        other = view.plan(plan_id)
        ids = {item.topic_id for item in (*plan.ranges, *other.ranges)} - {None}
        return len(ids) < 2 and any(_shared(plan.ranges, other))
    return False


def _is_redrive(delivery: Delivery | None) -> bool:
    return delivery is not None and Redrive.decode(delivery.options) is not None


def overlap_refusal(ranges: Sequence[GapRange], other: CatchupPlan) -> Refused | None:
    """Refused [plan-overlaps] if the open plan ``other`` has some of the same offsets, else None."""
    shared = tuple(_shared(ranges, other))
    if not shared:
        return None
    whose = "" if other.group is None else f" of {other.group}"
    return Refused(
        f"the open plan {other.id}{whose} contains {len(shared)} of these ranges, or parts of them",
        details=tuple(map(str, shared[:3])) + ((f"and {len(shared) - 3} more",) if len(shared) > 3 else ()),
        hint=Hint("continue that plan:  {}", ("catchup", "resume", other.id)),
        code=PLAN_OVERLAPS,
    )


def _shared(ranges: Sequence[GapRange], other: CatchupPlan) -> Iterator[OffsetRange]:
    by_partition: dict[TopicPartition, list[tuple[int, int]]] = {}
    for item in other.ranges:
        by_partition.setdefault(item.tp, []).append((item.start, item.end))
    for item in ranges:
        for start, end in by_partition.get(item.tp, ()):
            low, high = max(start, item.start), min(end, item.end)
            if low < high:
                yield OffsetRange(item.topic, item.partition, low, high)
