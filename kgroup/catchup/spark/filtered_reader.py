"""The reader of a task whose records come from Spark SQL: ``run_task`` reads from it as from ``BatchReader``.

Spark drops no record: those that a filter rejects come without their contents, marked. So the task itself counts every
record, wanted or not. Needs pyarrow, but no pyspark; pyarrow is imported only inside functions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from kgroup.catchup.spark.failures import task_error
from kgroup.catchup.spark.source import NOT_A_RECORD, WANTED, reader_error
from kgroup.catchup.worker.chunk_counts import ChunkCount, FilteredOut
from kgroup.catchup.worker.task_run import TaskRun
from kgroup.cluster.reader.batches import Batch, BatchReader, HeaderList
from kgroup.groups.catchup.model import Chunk
from kgroup.model.records import LostOffsets, OffsetRange
from kgroup.support.errors import KgroupError

if TYPE_CHECKING:
    import pyarrow

_NO_TIME = (0, -1)


class ArrowBatch(Batch):
    """Records of one partition as Arrow rows, in the columns of ``arrow.schema`` or more."""

    __slots__ = ("_rows",)

    def __init__(self, topic: str, partition: int, rows: pyarrow.RecordBatch, position: int) -> None:
        super().__init__(topic, partition, (), position)
        self._rows = rows

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    def offsets(self) -> list[int]:
        """Ascending, with gaps."""
        offsets: list[int] = self._rows.column("offset").to_pylist()
        return offsets

    def keys(self) -> list[bytes | None]:
        """None: the record has no key; an empty key is ``b""``."""
        keys: list[bytes | None] = self._rows.column("key").to_pylist()
        return keys

    def values(self) -> list[bytes | None]:
        """None is a tombstone."""
        values: list[bytes | None] = self._rows.column("value").to_pylist()
        return values

    def timestamps(self) -> list[tuple[int, int]]:
        """(kind, ms); kind 1: set by the producer, 2: set by the broker, 0: no timestamp."""
        import pyarrow as pa

        times = self._rows.column("timestamp").cast(pa.int64()).to_pylist()
        kinds = self._rows.column("timestampType").to_pylist()
        return [_NO_TIME if us is None else (kind + 1, us // 1000) for kind, us in zip(kinds, times, strict=True)]

    def headers(self) -> list[HeaderList | None]:
        """Headers of each record in order; a name may occur twice. None: no headers."""
        column = self._rows.column("headers")
        if column.null_count == len(column):
            return [None] * len(column)
        return [None if had is None else [(one["key"], one["value"]) for one in had] for had in column.to_pylist()]

    def size(self) -> int:
        """Bytes of keys and values."""
        import pyarrow.compute as compute

        lengths = (compute.sum(compute.binary_length(self._rows.column(name))).as_py() for name in ("key", "value"))
        return sum(length or 0 for length in lengths)

    def part(self, first: int, behind: int) -> ArrowBatch:
        """The rows with index ``first`` up to, but not including, ``behind``."""
        if first == 0 and behind >= len(self):
            return self
        position = self.position if behind >= len(self) else self._rows.column("offset")[behind].as_py()
        return ArrowBatch(self.topic, self.partition, self._rows.slice(first, max(0, behind - first)), position)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Records of a chunk, all below ``position``; or a mark: how far it was read, and what was lost directly below."""

    chunk: int
    position: int
    wanted: pyarrow.RecordBatch | None = None
    filtered_out: pyarrow.Array | None = None
    lost: tuple[LostOffsets, ...] = ()

    @classmethod
    def of(cls, chunk: int, rows: pyarrow.RecordBatch) -> _Piece:
        """A piece of records; of those that were filtered out it keeps the offsets alone."""
        import pyarrow.compute as compute

        offsets, wanted = rows.column("offset"), rows.column(WANTED)
        return cls(chunk, offsets[-1].as_py() + 1, rows.filter(wanted), offsets.filter(compute.invert(wanted)))

    @property
    def is_mark(self) -> bool:
        """Whether it has no records."""
        return self.wanted is None

    def items(self, topic: str, partition: int, start: int) -> Iterator[Batch | FilteredOut | LostOffsets]:
        """What a reader yields for the part of this piece from offset ``start`` on."""
        if self.wanted is None or self.filtered_out is None:
            yield from (one for one in self.lost if one.end > start)
            yield Batch(topic, partition, [], max(self.position, start))
        elif self.position > start:
            offsets = self.filtered_out.to_pylist()
            if offsets := offsets[bisect_left(offsets, start) :]:
                yield FilteredOut(offsets, self.position)
            wanted = ArrowBatch(topic, partition, self.wanted, self.position)
            yield wanted.part(bisect_left(wanted.offsets(), start), len(wanted))


class FilteredReader:
    """Reads a task's chunks from Spark's rows, in the task's order. A context manager.

    A later attempt skips the records below its start. With ``again`` uncommitted rows are kept, since they may be
    requested again. ``config`` is for topic metadata.
    """

    def __init__(
        self,
        batches: Iterable[pyarrow.RecordBatch],
        chunks: tuple[Chunk, ...],
        config: Mapping[str, Any],
        *,
        timeout_s: float,
        again: bool,
    ) -> None:
        self._batches = iter(batches)
        self._numbers = {(chunk.topic, chunk.partition, chunk.end): chunk.number for chunk in chunks}
        self._indexes = {chunk.number: index for index, chunk in enumerate(chunks)}
        self._config = config
        self._timeout_s = timeout_s
        self._again = again
        self._committed: Callable[[], Mapping[int, ChunkCount]] = dict
        self._pending: deque[_Piece] = deque()
        self._kept: deque[_Piece] = deque()
        self._partitions: dict[str, frozenset[int]] = {}
        self._failure: KgroupError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def follow(self, run: TaskRun) -> None:
        """Read the committed positions from this run."""
        self._committed = lambda: run.committed

    def partitions(self, topic: str, *, again: bool = False) -> frozenset[int]:
        """The partitions of a topic, read once or ``again``. Raises as ``BatchReader.partitions``."""
        if again or topic not in self._partitions:
            with BatchReader(self._config, timeout_s=self._timeout_s) as reader:
                self._partitions[topic] = reader.partitions(topic)
        return self._partitions[topic]

    def fetch_ahead(self, ranges: Sequence[OffsetRange]) -> None:
        """Do nothing: Spark decides when its source reads what."""

    def batches(self, topic: str, partition: int, start: int, end: int) -> Iterator[Batch | FilteredOut | LostOffsets]:
        """Yield the records of [start, end) in order: the offsets that were filtered out before the others.

        Raises the error of Spark's reader, and KgroupError if the rows end too early.
        """
        for piece in self._pieces(self._numbers[topic, partition, end]):
            yield from piece.items(topic, partition, start)
            if piece.is_mark and piece.position >= end:
                return

    def _pieces(self, number: int) -> Iterator[_Piece]:
        """Yield the pieces of one chunk: first those kept, then new ones."""
        self._forget()
        yield from [piece for piece in self._kept if piece.chunk == number]
        while True:
            while not self._pending:
                self._take()
            piece = self._pending.popleft()
            if self._indexes[piece.chunk] > self._indexes[number]:
                raise KgroupError(f"Spark's rows of chunk {piece.chunk} came too early", code="spark-job")
            if piece.chunk != number:
                continue  # already delivered, or its partition was stopped
            self._forget()
            if self._again:
                self._kept.append(piece)
            yield piece

    def _forget(self) -> None:
        committed = self._committed()
        while self._kept:
            known = committed.get(self._kept[0].chunk)
            if known is None or known.position < self._kept[0].position:
                break
            self._kept.popleft()

    def _take(self) -> None:
        """Split the next batch into pieces, each of one chunk and either records or a mark."""
        if self._failure is not None:
            raise self._failure
        batch = next(self._batches, None)
        if batch is None:
            raise KgroupError("Spark's rows ended before their range did", code="spark-job")
        failure = reader_error(batch)
        numbers, marks = batch.column("_chunk").to_pylist(), batch.column(NOT_A_RECORD).to_pylist()
        for (number, is_mark), first, behind in runs(list(zip(numbers, marks, strict=True))):
            rows = batch.slice(first, behind - first)
            if is_mark:
                self._pending.extend(_marks(number, rows))
            else:
                self._pending.append(_Piece.of(number, rows))
        if failure is not None:
            self._pending.pop()  # the last row only carries the error
            self._failure = task_error(failure, "reading")


def _marks(number: int, rows: pyarrow.RecordBatch) -> Iterator[_Piece]:
    for row in rows.select(["offset", "_lost"]).to_pylist():
        lost = tuple(LostOffsets(**one) for one in row["_lost"] or ())
        yield _Piece(number, row["offset"], lost=lost)


def runs(values: list[Any]) -> Iterator[tuple[Any, int, int]]:
    """(value, first, behind) for each run of equal values: [5, 5, 7] gives (5, 0, 2) and (7, 2, 3). Pure."""
    first = 0
    for index in range(1, len(values) + 1):
        if index == len(values) or values[index] != values[first]:
            yield values[first], first, index
            first = index
