"""The values of a catch-up: the ranges of a gap, chunks and tasks, and what the ledger says of a plan.

A *plan* is a frozen set of ranges [start, end) that a group has not handled. Its ranges are cut into *chunks*, which
are read and delivered in offset order; a *task* is an ordered list of chunks that one worker works through. Offsets are
integers, half open ranges, times in ms since 1970; None is unknown, never -1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kgroup.model.groups import Commit

LEDGER_TOPIC = "_kgroup_ledger"
"""The default of ``--ledger-topic``."""

Place = tuple[str, int]
"""(topic, partition)"""


class PlanState(StrEnum):
    """How far a plan has come. Only PLANNED to CANCELLING are open; open plans never overlap."""

    PLANNED = "planned"
    RELEASING = "releasing"
    RELEASED = "released"
    CANCELLING = "cancelling"
    DONE = "done"
    CANCELLED = "cancelled"

    @property
    def is_open(self) -> bool:
        """Whether something is still owed, or may be."""
        return self not in (PlanState.DONE, PlanState.CANCELLED)


class Order(StrEnum):
    """What is kept in order: all of a partition, each key of it, nothing."""

    PARTITION = "partition"
    KEY = "key"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class GapRange:
    """A partition's part of the gap: offsets [start, end).

    ``before`` is the commit that the group had, put back as it was by a cancel; None where it had none (or where no
    group is moved). ``end_leader_epoch`` goes with the commit at ``end``. ``topic_id`` tells a topic that was made
    anew. ``maybe_processed_until`` is the offset below which records may have been handled already by the crashed
    consumer (it lies in [start, end]), None where nothing shows it. ``records`` and ``size`` (bytes) are estimates,
    ``oldest_ms`` is the time of the first record, ``retention_deadline_ms`` when retention may take it (None: never,
    or not known).
    """

    topic: str
    partition: int
    start: int
    end: int
    before: Commit | None
    end_leader_epoch: int | None
    topic_id: str | None
    maybe_processed_until: int | None
    records: int | None
    size: int | None
    oldest_ms: int | None
    retention_deadline_ms: int | None

    @property
    def place(self) -> Place:
        """(topic, partition)"""
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Offsets [start, end) that are left to nobody, with the reason: ``--skip-before``, ``--give-up``."""

    topic: str
    partition: int
    start: int
    end: int
    why: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """Offsets [start, end) of one partition; ``number`` is its own in the plan, from 0, and never changes."""

    number: int
    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Task:
    """Chunks (by number) that one worker works through in this order; a task's number is its own in the plan."""

    number: int
    chunks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CatchupPlan:
    """The plan's own record in the ledger, written once: nothing of it ever changes.

    ``group`` is None where ranges were named and no group is moved; ``group_type`` is classic or consumer then.
    ``command`` has no secrets. ``released_at`` says what the group is released at: ``head``, or ``until`` for
    ``--until``.
    """

    id: str
    group: str | None
    group_type: str | None
    cluster_id: str | None
    created_ms: int
    who: str
    reason: str | None
    command: tuple[str, ...]
    ranges: tuple[GapRange, ...]
    chunks: tuple[Chunk, ...]
    given_up: tuple[Abandoned, ...] = ()
    released_at: str = "head"


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """The topic of ``--to-topic``, or one for dead letters, as it was before the first record was delivered to it.

    ``id`` is None on brokers before topic ids. ``ends`` are the log end offsets, by partition number: all that is
    delivered to a partition has this offset or a higher one; a partition that is not listed was added later.
    """

    id: str | None
    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where the records go; kept with the plan's own record where that was said, and fixed once anything is delivered,
    since it decides what is delivered already.

    ``sink`` is ``topic``, ``files``, ``command``, ``python`` or ``spark``; ``options`` are its own settings, without
    secrets, as strings. ``buckets`` is into how many buckets keys are dealt out by their hash where only the newest
    record of each is delivered (``--latest-per-key``), 0: every record is. The chunks of its tasks are buckets then,
    whose numbers begin at ``buckets.first``. ``tuning`` is how fast, and how often a refused record is tried again, as
    it was typed (``rate``, ``lanes``, ``retries``, ``backoff``, ``handler-timeout``): each run may say others.
    ``target`` is set with ``topic`` from the first replay on, ``dead_letters`` by name for each topic that got some.
    """

    sink: str
    order: Order
    tasks: tuple[Task, ...]
    options: dict[str, str]
    buckets: int = 0
    tuning: dict[str, str] = field(default_factory=dict)
    target: TargetTopic | None = None
    dead_letters: dict[str, TargetTopic] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StateRecord:
    """The state of a plan, written by the runner of ``epoch``.

    With RELEASING comes ``log_position``: the end of the group's partition of ``__consumer_offsets`` before any of its
    offsets were moved. With CANCELLING come ``targets`` and ``expected``: for each partition that is moved back, the
    offset it gets and the one that stood there. ``note`` says why a plan was closed.
    """

    state: PlanState
    at_ms: int
    who: str
    epoch: int
    log_position: int | None = None
    targets: tuple[tuple[str, int, int], ...] = ()
    expected: tuple[tuple[str, int, int | None], ...] = ()
    note: str | None = None


@dataclass(frozen=True, slots=True)
class RunnerEpoch:
    """Who works on a plan: a task that finds none, or another's, stops. ``seen_ms`` is the last sign of the runner."""

    number: int
    who: str
    at_ms: int
    seen_ms: int


@dataclass(frozen=True, slots=True)
class LostOffsets:
    """Offsets [start, end) of a chunk that could not be read, and why: the log start had passed them."""

    start: int
    end: int
    why: str


@dataclass(frozen=True, slots=True)
class BucketShare:
    """What of a chunk fell to a bucket of keys: counts as in Progress, of which ``filtered`` were not the newest."""

    chunk: int
    records: int
    filtered: int
    dead: int
    size: int
    may_repeat: int = 0
    lost: tuple[LostOffsets, ...] = ()


@dataclass(frozen=True, slots=True)
class ChunkProgress:
    """How far a chunk is delivered: all below ``delivered_to``. It is written in the transaction that delivers.

    ``records`` were visible to a reader, of which ``filtered`` were not wanted and ``dead`` went to the dead-letter
    topic (or are named there); the others were delivered. ``may_repeat`` is how many records of a handler's sink may
    come again because they were handled and not yet written down.

    Of a bucket of keys, which is delivered whole (``delivered_to`` is 1) or not at all (0), ``shares`` say from which
    chunks its records are; the other counts are their sums.

    ``again`` is how many records were delivered before and disappeared from the target topic: they are delivered once
    more. ``kept`` are the offsets [start, end) above ``delivered_to`` whose records the target topic still has, so that
    they are not.
    """

    chunk: int
    delivered_to: int
    records: int
    filtered: int
    dead: int
    size: int
    at_ms: int
    epoch: int
    lost: tuple[LostOffsets, ...] = ()
    may_repeat: int = 0
    shares: tuple[BucketShare, ...] = ()
    again: int = 0
    kept: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PlanSnapshot:
    """All that the ledger says of one plan. ``offset`` is where the plan's own record stands in the ledger.

    ``progress`` is of chunks, and of buckets where there are some; a chunk's is what those tell of it then.
    """

    plan: CatchupPlan
    offset: int
    state: StateRecord
    epoch: RunnerEpoch | None
    delivery: Delivery | None
    progress: dict[int, ChunkProgress]
