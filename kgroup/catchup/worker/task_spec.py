"""What a worker receives for a task, and what it returns; both can be pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kgroup.catchup.worker.task_ledger import Work
from kgroup.groups.catchup.chunks import CHUNK_BYTES, CHUNK_RECORDS, TRANSACTION_S, RateLimit
from kgroup.groups.catchup.model import Chunk, ChunkProgress, Order
from kgroup.groups.catchup.verification import ChunkResult
from kgroup.model.topic_partition import PartitionValue, TopicPartition


@dataclass(frozen=True, slots=True)
class TransactionBounds:
    """Limits of a transaction: it ends at the first one it reaches, records, bytes or seconds."""

    records: int = CHUNK_RECORDS
    size: int = CHUNK_BYTES
    seconds: float = TRANSACTION_S


@dataclass(frozen=True, slots=True)
class Handling:
    """How records are handed to a handler.

    ``lanes`` handlers work in parallel; with order ``partition`` it is one. Each gets up to ``batch`` records at once,
    if it accepts several. A refused record is retried ``retries`` times: first after ``backoff_s``, then after twice
    that, and so on, at most a minute. ``timeout_s`` is how long a handler may take for the records it was given.
    ``window`` limits the records handed over before progress is recorded: they may be received again after a crash.
    """

    lanes: int = 1
    batch: int = 500
    retries: int = 3
    backoff_s: float = 0.5
    timeout_s: float = 60.0
    window: int = 10_000


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task of a plan.

    ``chunks`` are in the order of work. ``options`` are the sink's, as in ``Delivery.options``. ``dead_letters`` is the
    topic for refused records; if None, a refused record stops its partition. ``maybe_processed`` has, by partition, the
    offset below which records may have been handled before (``GapRange``). ``rate`` is this task's share. ``config`` is
    from ``librdkafka_config`` and contains secrets. ``timeout_s`` is how long a broker may take to answer.
    """

    work: Work
    chunks: tuple[Chunk, ...]
    sink: str
    options: Mapping[str, str]
    order: Order
    config: Mapping[str, Any] = field(repr=False)
    timeout_s: float
    maybe_processed: Mapping[TopicPartition, int] = field(default_factory=dict)
    dead_letters: str | None = None
    handling: Handling = Handling()
    bounds: TransactionBounds = TransactionBounds()
    rate: RateLimit | None = None

    @property
    def number(self) -> int:
        """The task's number in its plan."""
        return self.work.task.number

    @property
    def plan_id(self) -> str:
        """The plan of the task."""
        return self.work.plan_id

    def maybe_until(self, tp: TopicPartition) -> int:
        """Records of a partition below this offset may have been handled before; 0 if none may have been."""
        return self.maybe_processed.get(tp, 0)


@dataclass(frozen=True, slots=True)
class Stopped(PartitionValue):
    """A record that was refused ``attempts`` times, without a dead-letter topic: its partition stops there."""

    topic: str
    partition: int
    offset: int
    attempts: int
    why: str


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a task.

    ``progress`` is what the ledger has of its chunks; ``counted`` is what this run counted independently of it.
    ``finished``: every chunk is delivered to its end. ``interrupted``: it was asked to stop before that.
    """

    number: int
    progress: tuple[ChunkProgress, ...]
    counted: tuple[ChunkResult, ...]
    stopped: tuple[Stopped, ...]
    finished: bool
    interrupted: bool
