"""The values of a catch-up: the ranges of a gap, chunks, tasks, and what the ledger records about a plan.

A *plan* is a frozen set of ranges [start, end) that a group has not processed. Its ranges are cut into *chunks*, which
are read and delivered in offset order. A *task* is an ordered list of chunks that one worker processes. Ranges are
half-open, times are in ms since 1970, and an unknown value is None, never -1.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct, field
from msgspec.structs import replace

from kgroup.model.commit import Commit
from kgroup.model.numbers import Int64, NonNegativeInt64
from kgroup.model.records import AscendingOffsets, LostOffsets, OffsetRange
from kgroup.support.errors import KgroupError
from kgroup.support.json_types import ExplainedEnum


class ReleasePoint(ExplainedEnum):
    """Where a group is released."""

    LOG_END = "log-end", "the log end offset"
    UNTIL = "until", "the offset of --until"


class PlanState(ExplainedEnum):
    """The state of a plan. PLANNED to CANCELLING are open; open plans of a group never overlap."""

    PLANNED = "planned", "nothing is moved yet"
    RELEASING = "releasing", "the group's offsets are being moved"
    RELEASED = "released", "the group may start; the gap is not delivered in full"
    CANCELLING = "cancelling", "the group's offsets are being moved back"
    DONE = "done", "it is finished"
    CANCELLED = "cancelled", "it is cancelled"

    @property
    def is_open(self) -> bool:
        """Whether records of the plan are, or may be, still undelivered."""
        return self not in (PlanState.DONE, PlanState.CANCELLED)

    @property
    def moved_group(self) -> bool:
        """Whether the release has moved its group, or may have, and the plan was not cancelled."""
        return self not in (PlanState.PLANNED, PlanState.CANCELLED)


class PlanPhase(ExplainedEnum):
    """The state of a plan as tables show it, with what its runner does."""

    PLANNED = PlanState.PLANNED.value, PlanState.PLANNED.meaning
    RELEASING = PlanState.RELEASING.value, PlanState.RELEASING.meaning
    PENDING = "pending", "the group may start; no sink is chosen"
    REPLAYING = "replaying", "a run delivers the gap"
    STOPPED = "stopped", "the group may start; no run delivers the gap"
    DAMAGED = "damaged", "a record of the plan cannot be read, so it cannot be continued"
    CANCELLING = PlanState.CANCELLING.value, PlanState.CANCELLING.meaning
    DONE = PlanState.DONE.value, PlanState.DONE.meaning
    CANCELLED = PlanState.CANCELLED.value, PlanState.CANCELLED.meaning
    NOT_IN_LEDGER = (
        "not-in-ledger",
        "the group's offsets have the mark of a plan that the ledger does not have, or cannot show",
    )


class Order(ExplainedEnum):
    """What delivery keeps in order."""

    PARTITION = "partition", "of each partition"
    KEY = "key", "of each key"
    NONE = "none", "nothing"


class GapRange(AscendingOffsets, OffsetRange, frozen=True):
    """A partition's part of the gap: offsets [start, end).

    ``before`` is the group's commit at the time of the plan, which a cancel restores. It is None if there was no commit
    or if no group is moved. ``end_leader_epoch`` is committed together with ``end``. ``topic_id`` detects a recreated
    topic. Records below ``maybe_processed_until`` may have been processed by the crashed consumer; it lies in [start,
    end] and is None if unknown. ``records`` and ``size`` (bytes) are estimates. ``oldest_ms`` is the time of the first
    record. ``retention_deadline_ms`` is when retention may delete that record; None: never, or unknown.
    """

    before: Commit | None
    end_leader_epoch: NonNegativeInt64 | None
    topic_id: str | None
    maybe_processed_until: NonNegativeInt64 | None
    records: NonNegativeInt64 | None
    size: NonNegativeInt64 | None
    oldest_ms: Int64 | None
    retention_deadline_ms: Int64 | None


class ExplainedRange(AscendingOffsets, OffsetRange, frozen=True):
    """Offsets [start, end) and what is special about them: why they are lost, not delivered, or read again."""

    reason: Annotated[str, "The reason, for people."]


class Chunk(OffsetRange, frozen=True):
    """Offsets [start, end) of one partition; ``number`` is unique in the plan, starts at 0 and never changes."""

    number: NonNegativeInt64


class Task(Struct, frozen=True):
    """Chunks (by number) that one worker processes in this order; the task's ``number`` is unique in the plan."""

    number: NonNegativeInt64
    chunks: tuple[NonNegativeInt64, ...]


class PlanWithoutChunks(Struct, frozen=True):
    """A plan without its chunks, which may be thousands.

    ``group`` is None if ranges were named (``--range``) and no group is moved; ``group_type`` is classic or consumer
    otherwise. ``command`` has no secrets. ``by_member``: a member of the group made the plan, and commits the release
    itself while the group lives (``kgroup.consumer``).
    """

    id: str
    group: str | None
    group_type: str | None
    cluster_id: str | None
    created_ms: Int64
    who: str
    reason: str | None
    command: tuple[str, ...]
    ranges: tuple[GapRange, ...]
    abandoned: tuple[ExplainedRange, ...] = ()
    release_point: ReleasePoint = ReleasePoint.LOG_END
    by_member: bool = False


class CatchupPlan(PlanWithoutChunks, frozen=True, kw_only=True):
    """The plan's own record in the ledger. It is written once and never changes."""

    chunks: tuple[Chunk, ...]


class PlanHead(Struct, frozen=True):
    """What chooses a plan, a fraction of its records; the fields are as in CatchupPlan and PlanSnapshot.

    ``state`` is None until it is read.
    """

    id: str
    group: str | None
    who: str
    created_ms: int
    reason: str | None
    offset: int
    state: PlanState | None = None

    @property
    def may_be_open(self) -> bool:
        """Whether the plan is open, as far as the records show that were read."""
        return self.state is None or self.state.is_open


class TargetTopic(Struct, frozen=True):
    """The target or dead-letter topic as it was before the replay delivered the first record to it.

    ``id`` is None on brokers without topic ids. ``ends`` are the log end offsets by partition number: every delivered
    record has at least this offset. A partition that is not listed was added later.
    """

    id: str | None
    ends: tuple[NonNegativeInt64, ...]


class Delivery(Struct, frozen=True):
    """Where the records are delivered; fixed once a record is delivered, as it decides which count as delivered.

    It is written with the plan's own record if a sink was given then. ``sink`` is ``topic``, ``files``, ``command``,
    ``python``, ``spark``, ``group``, ``session`` or ``job``. ``options`` are the sink's settings and the filters as
    strings, without secrets.
    ``tuning`` is the speed and the retries as the user typed them (``rate``, ``yield-to``, ``lanes``, ``retries``,
    ``backoff``, ``handler-timeout``); each run may change them. ``target`` is set for ``topic`` from the first
    replay on. ``dead_letters`` has, by name, each topic that received dead letters.
    """

    sink: str
    order: Order
    tasks: tuple[Task, ...]
    options: dict[str, str]
    tuning: dict[str, str] = field(default_factory=dict)
    target: TargetTopic | None = None
    dead_letters: dict[str, TargetTopic] = field(default_factory=dict)


class StateRecord(Struct, frozen=True):
    """The state of a plan, written by the runner with this ``epoch``.

    RELEASING has ``log_position``: the end of the group's partition of ``__consumer_offsets`` before any of its offsets
    were moved. CANCELLING has ``targets`` and ``expected``: for each partition that is moved back, its new offset, and
    the offset committed before (None: no commit). ``note`` is why a plan was closed, or cannot be verified.
    """

    state: PlanState
    at_ms: Int64
    who: str
    epoch: NonNegativeInt64
    log_position: NonNegativeInt64 | None = None
    targets: tuple[tuple[str, NonNegativeInt64, NonNegativeInt64], ...] = ()
    expected: tuple[tuple[str, NonNegativeInt64, NonNegativeInt64 | None], ...] = ()
    note: str | None = None


class AppliedRate(Struct, frozen=True):
    """The rate limit that the runner with this ``epoch`` applies to all tasks together, per second; None: no limit.

    ``halvings`` is how often it was halved because the group is late by ``time_lag_ms``, None without ``--yield-to``
    and if that is unknown.
    """

    epoch: NonNegativeInt64
    records: float | None
    bytes: float | None
    halvings: NonNegativeInt64
    time_lag_ms: NonNegativeInt64 | None


class RunnerEpoch(Struct, frozen=True):
    """The runner of a plan; a task that finds another, or none, stops. ``seen_ms``: last heartbeat, 0 after the end."""

    number: NonNegativeInt64
    who: str
    at_ms: Int64
    seen_ms: Int64


class ThrottleRecord(Struct, frozen=True):
    """What ``catchup throttle`` set: ``rate`` and ``yield-to`` as typed. They replace those of ``Delivery.tuning``.

    Any run of kgroup writes it, and the runner reads it again and again.
    """

    tuning: dict[str, str]
    at_ms: Int64
    who: str


class ChunkProgress(Struct, frozen=True):
    """How far a chunk is delivered. A transactional sink writes it in the transaction that delivers the records."""

    chunk: NonNegativeInt64
    delivered_to: NonNegativeInt64
    """Everything below this offset is delivered."""

    records: NonNegativeInt64
    """Visible to a reader: those delivered, ``filtered`` (not wanted) or ``dead`` (dead-lettered or named)."""

    filtered: NonNegativeInt64
    dead: NonNegativeInt64
    size: NonNegativeInt64
    at_ms: Int64
    epoch: NonNegativeInt64
    lost: tuple[LostOffsets, ...] = ()
    may_repeat: NonNegativeInt64 = 0
    """Records that a handler may get again: they were processed, but that was not written to the ledger."""


class RangeVerification(OffsetRange, frozen=True):
    """The verification of one range of a plan; if a group is moved, there is one range per partition.

    ``records`` were visible: the sum of ``delivered``, ``filtered`` and ``dead``. Everything below ``delivered_to`` is
    finished. ``undelivered`` are chunks, or parts of chunks, that are not finished. ``contradictions`` are sentences
    about results that contradict each other. ``may_repeat`` records of a handler may be delivered twice, or have been.
    """

    delivered_to: NonNegativeInt64
    records: NonNegativeInt64
    filtered: NonNegativeInt64
    dead: NonNegativeInt64
    size: NonNegativeInt64
    may_repeat: NonNegativeInt64
    chunks: NonNegativeInt64
    finished_chunks: NonNegativeInt64
    lost: tuple[ExplainedRange, ...]
    undelivered: tuple[OffsetRange, ...]
    contradictions: tuple[str, ...]

    def __post_init__(self) -> None:
        if any(row.start > row.end for row in (self, *self.undelivered)):
            raise ValueError("the end of a range, or of an undelivered one, is below its start")

    @property
    def delivered(self) -> int:
        """Records that the sink has."""
        return self.records - self.filtered - self.dead

    @property
    def read_to_end(self) -> bool:
        """Whether the reader's position reached the end of each chunk."""
        return self.delivered_to >= self.end

    @property
    def complete(self) -> bool:
        """Whether every record of the range is accounted for."""
        return self.read_to_end and not self.lost and not self.contradictions


class PlanTotals(Struct, frozen=True):
    """The ranges of a plan when it ended, by partition and start. A list needs no chunk of a plan with totals."""

    ranges: tuple[RangeVerification, ...]

    @property
    def complete(self) -> bool:
        """Whether every record of the plan is accounted for."""
        return all(row.complete for row in self.ranges)


class PlanSnapshot(Struct, frozen=True):
    """What the ledger contains about one plan. ``offset`` is the offset of the plan's own record in the ledger.

    ``progress`` is by the number of the chunk. ``totals`` is set if the plan is verified, or has ended and was read for
    a list: then it has neither chunks nor progress. ``damage`` is why a record of the plan could not be read: then the
    rest is what the others show, the state RELEASING if it is unknown, no range if the plan's own record is damaged.
    """

    plan: CatchupPlan
    offset: int
    state: StateRecord
    epoch: RunnerEpoch | None
    delivery: Delivery | None
    progress: dict[int, ChunkProgress]
    totals: PlanTotals | None = None
    damage: KgroupError | None = None
    throttle: ThrottleRecord | None = None
    applied: AppliedRate | None = None

    @property
    def tuning(self) -> dict[str, str]:
        """The speed and the retries in force: those of the delivery, and what ``catchup throttle`` set since."""
        kept = {} if self.delivery is None else self.delivery.tuning
        return kept if self.throttle is None else {**kept, **self.throttle.tuning}

    @property
    def is_damaged(self) -> bool:
        """Whether the plan is open, and cannot be continued because of ``damage``."""
        return self.damage is not None and self.state.state.is_open

    @property
    def is_verified(self) -> bool:
        """Whether the plan is done and its totals are complete: the ledger need not have its chunks any more."""
        return self.state.state is PlanState.DONE and self.totals is not None and self.totals.complete

    def with_totals(self, totals: PlanTotals) -> PlanSnapshot:
        """The same plan with its totals instead of its chunks and their progress."""
        return replace(self, plan=replace(self.plan, chunks=()), progress={}, totals=totals)
