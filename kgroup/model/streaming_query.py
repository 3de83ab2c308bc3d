"""A Structured Streaming query of Spark, as its checkpoint shows it; it is read and judged like a group.

Times are in ms since 1970, by the clock of the query's driver (``planned_ms``) or of the file system (``done_ms``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

import msgspec

from kgroup.model.commit import Commit
from kgroup.model.group_log import CommitWritten, ScannedRange, TransactionEnd
from kgroup.model.topic_partition import TopicPartition

PREFIX = "spark:"
"""What the name of a query begins with; after it comes the checkpoint's URI, or a name that the context gives it."""

QUERY = "query"
"""The type of such a group."""

BatchEnds: TypeAlias = Mapping[TopicPartition, int]

Moves: TypeAlias = Mapping[TopicPartition, Commit]
"""The positions that a change sets."""


def is_query(name: str) -> bool:
    """Whether a group's name is that of a streaming query."""
    return name.startswith(PREFIX)


class QueryBatch(msgspec.Struct, frozen=True):
    """A batch: planned when Spark had written its end, done when Spark had written its commit.

    ``ends`` are the offsets after its last records, of all Kafka sources. ``done_ms`` is None while it is not done.
    ``moved`` is what it sets if kgroup appended it to move the query, which reads nothing in it; empty for Spark's own.
    """

    number: int
    planned_ms: int | None
    ends: BatchEnds
    done_ms: int | None = None
    is_skipped: bool = False
    """Whether kgroup called it done (``--accept in-flight``), and has not appended the batch after it."""
    moved: Moves = msgspec.field(default_factory=dict)


class QuerySource(msgspec.Struct, frozen=True):
    """A source of the query: its number, or the name that the query gave it. ``topics`` is empty if it is not Kafka."""

    key: str
    topics: tuple[str, ...]


class StreamingQuery(msgspec.Struct, frozen=True):
    """What a checkpoint shows.

    ``batches`` are the done ones that it keeps, oldest first. ``planned`` is the batch that is planned and not done,
    None without one: the query is in it, or was when it ended. ``initial`` are the offsets with which its sources
    began, as far as they are kept. ``has_gaps``: numbers are missing between done batches, as asynchronous progress
    leaves them, so that the query may have read more.
    ``planned_late``: batches are written at their ends, as in real-time mode, so that it has read more than is shown.
    ``stateful``: it keeps state beside its offsets.
    ``watermark_ms`` is the event time up to which its input counts as complete, None without one.
    ``file_sink`` is where it writes by Spark's file sink, as a change of kgroup noted it; None: not noted, "" nowhere.
    """

    location: str
    id: str | None
    log_version: int
    sources: tuple[QuerySource, ...]
    batches: tuple[QueryBatch, ...] = ()
    planned: QueryBatch | None = None
    initial: BatchEnds = msgspec.field(default_factory=dict)
    has_gaps: bool = False
    planned_late: bool = False
    stateful: bool = False
    watermark_ms: int | None = None
    file_sink: str | None = None
    every_s: float | None = None
    """How often its job starts, as its context says; None: it runs all the time, or the context does not have it."""

    @property
    def done(self) -> QueryBatch | None:
        """The last batch that is done."""
        return self.batches[-1] if self.batches else None

    @property
    def offsets(self) -> BatchEnds:
        """What the query has read: the end of its last done batch, or where it began."""
        return self.initial if self.done is None else {**self.initial, **self.done.ends}

    @property
    def commits(self) -> dict[TopicPartition, Commit]:
        """The same as commits; those that kgroup has made are as they were made."""
        moved = {} if self.done is None else self.done.moved
        return {tp: moved.get(tp) or Commit(offset, None, "") for tp, offset in self.offsets.items()}

    @property
    def reached(self) -> BatchEnds:
        """The offsets below which its sink may have the records: the end of a batch that is planned counts."""
        return self.offsets if self.planned is None else {**self.offsets, **self.planned.ends}

    @property
    def reads_ahead(self) -> str | None:
        """Why it may have read more than its checkpoint shows, as a phrase; None if it has not."""
        if self.has_gaps:
            return "asynchronous progress"
        return "real-time mode" if self.planned_late else None

    @property
    def state(self) -> str:
        """``InBatch`` while a batch is planned and not done, ``BatchDone`` between batches, ``New`` before the first.

        Whether the query runs, a checkpoint does not show: one without new data writes nothing.
        """
        if self.planned is not None:
            return "InBatch"
        return "New" if self.done is None else "BatchDone"

    @property
    def state_since_ms(self) -> int | None:
        """Since when it is in this state, None if its files do not say so."""
        if self.planned is not None:
            return self.planned.planned_ms
        return None if self.done is None else self.done.done_ms


class QueryChanges(msgspec.Struct, frozen=True):
    """How a command changes streaming queries.

    ``file_sink`` is the folder that Spark's file sink writes to, "" if the query has none, None if it was not said.
    ``in_flight`` is whether a batch that is planned and not done counts as done.
    """

    file_sink: str | None = None
    in_flight: bool = False

    @classmethod
    def of(cls, file_sink: str | None, accept: Collection[str]) -> QueryChanges:
        """What ``--file-sink`` and ``--accept`` say."""
        return cls("" if file_sink == "none" else file_sink, "in-flight" in accept)


def commits_of(query: StreamingQuery) -> tuple[CommitWritten, ...]:
    """Its done batches as commits of their ends, oldest first; the number of the batch is the offset of the record."""
    return tuple(commit for batch in query.batches for commit in _commits(batch))


def reach_of(query: StreamingQuery) -> ScannedRange:
    """How far back its batches are known: no batch is missing since the first that its checkpoint keeps."""
    if query.done is None:
        return ScannedRange(0, 0, None, None, to_log_start=False)
    first = query.batches[0]
    return ScannedRange(first.number, query.done.number + 1, first.done_ms, first.number, to_log_start=False)


def _commits(batch: QueryBatch) -> tuple[CommitWritten, ...]:
    return tuple(
        CommitWritten(
            log_offset=batch.number,
            at_ms=batch.done_ms or 0,
            topic=tp.topic,
            partition=tp.partition,
            offset=offset,
            metadata="" if tp not in batch.moved else batch.moved[tp].metadata,
            topic_id=None,
            producer_id=None,
            ending=TransactionEnd.PLAIN,
        )
        for tp, offset in batch.ends.items()
    )
