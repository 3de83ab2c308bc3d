"""What a worker is told of a task, and what it says when it ends; both can be pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kgroup.catchup.chunks import CHUNK_BYTES, CHUNK_RECORDS, TRANSACTION_S, RateLimit
from kgroup.catchup.model import Chunk, ChunkProgress, Order, Place
from kgroup.catchup.verification import ChunkResult
from kgroup.catchup.worker.task_ledger import Work


@dataclass(frozen=True, slots=True)
class TransactionBounds:
    """A transaction ends when it has so many records or bytes, or has lasted so long, whichever is first."""

    records: int = CHUNK_RECORDS
    size: int = CHUNK_BYTES
    seconds: float = TRANSACTION_S


@dataclass(frozen=True, slots=True)
class Handling:
    """How records are handed to a handler.

    ``lanes`` handlers work at a time, one with order ``partition``; each gets up to ``batch`` records at once, where it
    takes several. A record that was refused is tried ``retries`` times more, after ``backoff_s``, then twice that, and
    so on, a minute at most. ``timeout_s`` is how long a handler may take for what it was given. ``window`` is how many
    records may be handed over before it is written down how far they came: so many may come again after a crash.
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

    ``chunks`` are in the order they are worked through. ``options`` are the sink's, as ``Delivery.options`` has them;
    ``dead_letters`` is the topic for what is refused, None: a refused record stops its partition. ``maybe_processed``
    are the offsets below which records of a partition may have been handled before (``GapRange``). ``rate`` is this
    task's share. ``config`` is from ``librdkafka_config``, with its secrets; ``timeout_s`` is how long no answer of a
    broker may come.
    """

    work: Work
    chunks: tuple[Chunk, ...]
    sink: str
    options: Mapping[str, str]
    order: Order
    config: Mapping[str, Any] = field(repr=False)
    timeout_s: float
    maybe_processed: tuple[tuple[str, int, int], ...] = ()
    dead_letters: str | None = None
    handling: Handling = Handling()
    bounds: TransactionBounds = TransactionBounds()
    rate: RateLimit | None = None

    @property
    def number(self) -> int:
        """The task's own number in its plan."""
        return self.work.task.number

    @property
    def plan_id(self) -> str:
        """Whose task it is."""
        return self.work.plan_id

    def maybe_until(self, place: Place) -> int:
        """Records of a partition below this offset may have been handled before; 0 where none may."""
        return max((until for *where, until in self.maybe_processed if tuple(where) == place), default=0)


@dataclass(frozen=True, slots=True)
class Stopped:
    """A record that was refused ``attempts`` times, and has no dead-letter topic: its partition stops there."""

    topic: str
    partition: int
    offset: int
    attempts: int
    why: str


@dataclass(frozen=True, slots=True)
class TaskResult:
    """How a task ended.

    ``progress`` is what the ledger has of its chunks now, ``counted`` what this run counted apart from that.
    ``finished``: every chunk is delivered to its end; ``interrupted``: it was asked to stop before.
    """

    number: int
    progress: tuple[ChunkProgress, ...]
    counted: tuple[ChunkResult, ...]
    stopped: tuple[Stopped, ...]
    finished: bool
    interrupted: bool
