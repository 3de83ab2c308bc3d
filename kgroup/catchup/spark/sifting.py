"""Passes rows from Spark to a sink: a reader over the rows that passed a filter, as ``run_task`` accepts one.

Spark's thread reads rows, and another thread delivers them. The latter must not block on rows: a transaction has to end
in time even if no row comes for minutes. Needs pyarrow, but no pyspark.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

from kgroup.catchup.model import Chunk, LostOffsets
from kgroup.catchup.spark.failures import task_error
from kgroup.catchup.spark.sifted import SiftedBatch, VisibleCount, runs
from kgroup.catchup.spark.source import MARK, reader_error
from kgroup.catchup.worker.chunk_counts import ChunkCount
from kgroup.catchup.worker.task_run import TaskRun
from kgroup.cluster.reader.batches import Batch, BatchReader, LostBatchRange
from kgroup.support.errors import KgroupError

if TYPE_CHECKING:
    import pyarrow

_TICK_S = 0.1
_WAITING = 2
_STOP_HEARD_S = 5.0
_END = object()


class Feed:
    """A short queue of batches from one thread to another."""

    def __init__(self) -> None:
        self._queue: queue.Queue[Any] = queue.Queue(_WAITING)

    def fill(self, batches: Iterable[pyarrow.RecordBatch], wanted: Callable[[], bool]) -> None:
        """Queue the batches until ``wanted`` returns False."""
        for item in chain(batches, (_END,)):
            while wanted():
                try:
                    self._queue.put(item, timeout=_TICK_S)
                    break
                except queue.Full:
                    continue
            else:
                return

    def next(self) -> pyarrow.RecordBatch | None:
        """The next batch, None if none came for a moment. Raises EOFError after the last."""
        try:
            item = self._queue.get(timeout=_TICK_S)
        except queue.Empty:
            return None
        if item is _END:
            self._queue.put(_END)
            raise EOFError
        return item


def delivered(batches: Iterable[pyarrow.RecordBatch], work: Callable[[Feed], Any]) -> Any:
    """Call ``work`` with a feed of these batches on another thread; returns its result."""
    feed, found = Feed(), []
    thread = threading.Thread(target=lambda: found.append(work(feed)), name="delivery", daemon=True)
    thread.start()
    feed.fill(batches, thread.is_alive)
    thread.join()
    return found[0]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows of a chunk; or, if ``rows`` is None, how far it was read, how much was visible, and what was lost."""

    chunk: int
    position: int
    rows: SiftedBatch | None = None
    seen: int = 0
    lost: tuple[LostOffsets, ...] = ()


class Sifted:
    """Reads a task's chunks from a feed, in the task's order. A context manager.

    ``begun`` is how many records of each chunk were visible below the offset where Spark began to read. A later attempt
    skips what the ledger has since then. With ``again`` uncommitted rows are kept, since they may be requested again.
    ``config`` is for topic metadata.
    """

    def __init__(
        self,
        feed: Feed,
        chunks: tuple[Chunk, ...],
        begun: Mapping[int, int],
        config: Mapping[str, Any],
        *,
        timeout_s: float,
        again: bool,
    ) -> None:
        self._feed = feed
        self._numbers = {(chunk.topic, chunk.partition, chunk.end): chunk.number for chunk in chunks}
        self._indexes = {chunk.number: index for index, chunk in enumerate(chunks)}
        self._begun = begun
        self._config = config
        self._timeout_s = timeout_s
        self._again = again
        self._committed: Callable[[], Mapping[int, ChunkCount]] = dict
        self._pending: deque[_Piece] = deque()
        self._kept: deque[_Piece] = deque()
        self._seen: dict[int, tuple[int, VisibleCount]] = {}
        self._starts: dict[int, int] = {}
        self._below: dict[int, int] = {}
        """How many records of a chunk Spark counted below the start of this delivery, as far as is known."""
        self._partitions: dict[str, frozenset[int]] = {}
        self._failure: KgroupError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def follow(self, run: TaskRun) -> None:
        """Read the committed positions from this run."""
        self._committed = lambda: run.committed

    def partitions(self, topic: str) -> frozenset[int]:
        """The partitions of a topic. Raises as ``BatchReader.partitions``."""
        if topic not in self._partitions:
            with BatchReader(self._config, timeout_s=self._timeout_s) as reader:
                self._partitions[topic] = reader.partitions(topic)
        return self._partitions[topic]

    def sift(self, count: ChunkCount) -> ChunkCount:
        """A copy of a count that includes what was filtered out; unchanged if nothing of its chunk has come yet."""
        number = count.chunk.number
        if number not in self._seen:
            return count
        before, seen = self._seen[number]
        visible, passed = seen.at(count.position)
        return count.sifted(self._begun.get(number, 0) + visible, visible - before, passed)

    def batches(self, topic: str, partition: int, start: int, end: int) -> Iterator[Batch | LostBatchRange]:
        """Yield what passed the filter of [start, end), in order; an empty batch if nothing came for a moment.

        Raises the error of the reader, and KgroupError if the rows end too early.
        """
        number, position = self._numbers[topic, partition, end], start
        if number not in self._seen:
            known = self._committed().get(number)
            before = 0 if known is None or known.position > start else known.records - self._begun.get(number, 0)
            self._seen[number], self._starts[number] = (before, VisibleCount(start, before)), start
        for piece in self._pieces(number):
            if piece is None:
                yield Batch(topic, partition, [], position)
                continue
            if piece.rows is not None:
                rows = piece.rows if position > start else piece.rows.from_offset(start)
                position = max(position, piece.position)
                if len(rows):
                    yield rows
                continue
            yield from (LostBatchRange(one.start, one.end, one.why) for one in piece.lost if one.end > start)
            position = max(position, piece.position)
            yield Batch(topic, partition, [], position)
            if position >= end:
                return

    def _pieces(self, number: int) -> Iterator[_Piece | None]:
        """Yield the pieces of one chunk: first those kept, then new ones. None: nothing came for a moment."""
        self._forget()
        yield from [piece for piece in self._kept if piece.chunk == number]
        ended_at: float | None = None
        while True:
            if not self._pending:
                if self._failure is not None:
                    raise self._failure
                try:
                    self._take(self._feed.next())
                except EOFError:
                    # The reader may have been asked to stop a moment before us.
                    ended_at = ended_at or time.monotonic()
                    if time.monotonic() - ended_at > _STOP_HEARD_S:
                        raise KgroupError("Spark's rows ended before their range did", code="spark-job") from None
                    time.sleep(_TICK_S)
                if not self._pending:
                    yield None
                    continue
            piece = self._pending.popleft()
            if piece.chunk != number:
                if self._indexes[piece.chunk] > self._indexes[number]:
                    raise KgroupError(f"Spark's rows of chunk {piece.chunk} came too early", code="spark-job")
                continue  # already delivered, or its partition was stopped
            yield self._noted(piece)

    def _noted(self, piece: _Piece) -> _Piece:
        """Count a piece, and keep it while it may be requested again."""
        self._forget()
        number, start = piece.chunk, self._starts[piece.chunk]
        before, seen = self._seen[number]
        if piece.rows is None:
            if min((one.start for one in piece.lost), default=piece.position) <= start:
                self._below[number] = piece.seen
            seen.mark(piece.position, piece.seen + self._more(number, before))
        else:
            rows = piece.rows.from_offset(start)
            if len(rows) < len(piece.rows):
                self._below[number] = piece.rows.visible_counts()[-len(rows) - 1]
            if len(rows):
                self._below.setdefault(number, min(before, rows.visible_counts()[0] - 1))
            more = self._more(number, before)
            seen.rows(rows.offsets(), [one + more for one in rows.visible_counts()])
            piece = replace(piece, rows=rows)
        if self._again:
            self._kept.append(piece)
        return piece

    def _more(self, number: int, before: int) -> int:
        """How many more records an earlier attempt counted below the start of this delivery than Spark counts now.

        The ledger has the earlier count. Compaction and retention may have deleted some of these records since then.
        """
        return before - self._below.get(number, before)

    def _forget(self) -> None:
        committed = self._committed()
        while self._kept:
            known = committed.get(self._kept[0].chunk)
            if known is None or known.position < self._kept[0].position:
                break
            self._kept.popleft()
        for number, (_, seen) in self._seen.items():
            if number in committed:
                seen.drop_below(committed[number].position)

    def _take(self, batch: pyarrow.RecordBatch | None) -> None:
        """Split a batch into pieces, each of one chunk and either rows or a mark."""
        if batch is None:
            return
        failure = reader_error(batch)
        numbers, marks = batch.column("_chunk").to_pylist(), batch.column(MARK).to_pylist()
        for both, first, behind in runs([2 * number + mark for number, mark in zip(numbers, marks, strict=True)]):
            number, is_mark = divmod(both, 2)
            rows = batch.slice(first, behind - first)
            self._pending.extend(self._marks(number, rows) if is_mark else (self._rows(number, rows),))
        if failure is not None:
            self._pending.pop()  # the last row only carries the error
            self._failure = task_error(failure, "reading")

    def _rows(self, number: int, rows: pyarrow.RecordBatch) -> _Piece:
        topic, partition = rows.column("topic")[0].as_py(), rows.column("partition")[0].as_py()
        position = rows.column("offset")[-1].as_py() + 1
        return _Piece(number, position, SiftedBatch(topic, partition, rows, position))

    def _marks(self, number: int, rows: pyarrow.RecordBatch) -> Iterator[_Piece]:
        for row in rows.select(["offset", "_seen", "_lost"]).to_pylist():
            lost = tuple(LostOffsets(one["start"], one["end"], one["why"]) for one in row["_lost"] or ())
            yield _Piece(number, row["offset"], None, row["_seen"], lost)
