"""What a worker receives for a task, and what it returns; both can be pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kgroup.catchup.worker.rate_limit import COMMIT_EVERY_S
from kgroup.catchup.worker.task_ledger import Work
from kgroup.groups.catchup.chunks import CHUNK_BYTES, CHUNK_RECORDS, RateLimit
from kgroup.groups.catchup.model import Chunk, ChunkProgress, Order
from kgroup.groups.catchup.verification import ChunkResult
from kgroup.model.topic_partition import PartitionValue, TopicPartition


@dataclass(frozen=True, slots=True)
class TransactionBounds:
    """Limits of a transaction: it ends at the first one it reaches, records, bytes or seconds."""

    records: int = CHUNK_RECORDS
    size: int = CHUNK_BYTES
    seconds: float = COMMIT_EVERY_S


@dataclass(frozen=True, slots=True)
class Handling:
    """How records are handed to a handler."""

    lanes: int = 1
    """Handlers that work in parallel; one with order ``partition``."""

    batch: int = 500
    """Records that a handler gets at once, if it accepts several."""

    retries: int = 3
    backoff_s: float = 0.5
    """The pause before the first retry of a refused record. Each further one is twice as long, at most a minute."""

    timeout_s: float = 60.0
    """How long a handler may take for the records it was given."""

    window: int = 10_000
    """Records handed over before progress is recorded: they may be received again after a crash."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task of a plan."""

    work: Work
    chunks: tuple[Chunk, ...]
    """In the order of work."""

    sink: str
    options: Mapping[str, str]
    """The sink's, as in ``Delivery.options``."""

    order: Order
    config: Mapping[str, Any] = field(repr=False)
    """From ``librdkafka_config``, with secrets."""

    timeout_s: float
    """How long a broker may take to answer."""

    maybe_processed: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The offset below which records may have been handled before (``GapRange``)."""

    dead_letters: str | None = None
    """The topic for refused records; None: a refused record stops its partition."""

    handling: Handling = Handling()
    bounds: TransactionBounds = TransactionBounds()
    rate: RateLimit | None = None
    """This task's share."""

    at_once: int = 1
    """How many tasks share the rate in force."""

    note_gap_s: float = 0.0
    """The least seconds between two notes of handlers in the ledger."""

    @property
    def number(self) -> int:
        return self.work.task.number

    @property
    def plan_id(self) -> str:
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
    """What a task tells the driver at its end."""

    number: int
    """The task's."""

    progress: tuple[ChunkProgress, ...]
    """What the ledger has of its chunks."""

    counted: tuple[ChunkResult, ...]
    """What this run counted independently of it."""

    stopped: tuple[Stopped, ...]
    finished: bool
    """Every chunk is delivered to its end."""

    interrupted: bool
    """It was asked to stop before that."""
