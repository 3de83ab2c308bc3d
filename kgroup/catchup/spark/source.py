"""Ranges of topics as a DataFrame, in the columns of Spark's own Kafka source, read by kgroup's reader.

Connection settings are inside the function that Spark sends to its workers. So they are in no option, not in Spark's UI
and in no query plan. pyspark and pyarrow are imported only inside functions.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from kgroup.catchup.worker import arrow
from kgroup.catchup.worker.failure import Failure, failure_of
from kgroup.catchup.worker.rack import in_own_rack
from kgroup.cluster.reader.batches import RECORDS_GONE, BatchReader
from kgroup.model.records import LostOffsets, OffsetRange
from kgroup.support.errors import Refused

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

BOOKKEEPING_DDL = "_chunk int, _end boolean, _lost array<struct<start:long,end:long,why:string>>, _error binary"
"""The columns of the bookkeeping. A row with ``_end`` is no record: it has topic, partition and offset only.

It reports that all of its part below ``offset`` was read, and which offsets were ``_lost`` (of this row alone). A part
may have several; the last has the part's end as its offset. ``_error`` is set in the very last row if reading failed
(``reader_error``).
"""

NOT_A_RECORD = "_end"
"""The column that marks a row without a record."""

WANTED = "_wanted"
"""The column that a filter adds to them: whether a record passed it (``where.with_wanted``)."""


class SourceRange(OffsetRange, frozen=True):
    """A part that a worker reads; ``chunk`` is the number of its chunk in the plan, None without a plan."""

    chunk: int | None = None


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What to read: for each of Spark's partitions its parts, in that order.

    ``config`` is from ``librdkafka_config`` and contains secrets. ``timeout_s`` is how long no broker may answer at
    all. With ``bookkeeping`` the columns of ``BOOKKEEPING_DDL`` are added: they report
    offsets below the log start, and reading continues. Without, these raise unless ``loses`` is True.
    """

    parts: tuple[tuple[SourceRange, ...], ...]
    config: Mapping[str, Any] = field(repr=False)
    timeout_s: float
    bookkeeping: bool = False
    loses: bool = False


def ddl(*, bookkeeping: bool = False) -> str:
    """The columns as a schema string for Spark."""
    return f"{arrow.DDL}, {BOOKKEEPING_DDL}" if bookkeeping else arrow.DDL


def frame(spark: SparkSession, reading: SourcePlan) -> DataFrame:
    """The DataFrame of a plan. Within one of its partitions, rows are in the order of the parts and their offsets.

    Nothing is read before an action.
    """
    number = len(reading.parts)

    def read(ids: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in ids:
            for partition_id in batch.column(0).to_pylist():
                yield from rows(reading, partition_id)

    return spark.range(0, number, 1, max(1, number)).mapInArrow(read, ddl(bookkeeping=reading.bookkeeping))


def rows(reading: SourcePlan, partition_id: int) -> Iterator[pyarrow.RecordBatch]:
    """Read the parts of Spark's partition, in a worker. Raises what ``BatchReader.batches`` does."""
    parts = reading.parts[partition_id]
    bookkeeping = _Bookkeeping() if reading.bookkeeping else None
    with BatchReader(in_own_rack(reading.config), timeout_s=reading.timeout_s) as reader:
        part: SourceRange | None = None
        try:
            for part in parts:
                yield from _of_part(reading, reader, part, bookkeeping)
        except Exception as error:
            if bookkeeping is None or part is None:
                raise
            yield error_row(part, failure_of(error))


def _of_part(
    reading: SourcePlan, reader: BatchReader, part: SourceRange, bookkeeping: _Bookkeeping | None
) -> Iterator[pyarrow.RecordBatch]:
    for item in reader.batches(part.topic, part.partition, part.start, part.end):
        if isinstance(item, LostOffsets):
            if bookkeeping is not None:
                yield bookkeeping.progress_row(part, item.end, item)
            elif not reading.loses:
                raise Refused(
                    f"{part.tp} [{item.start}, {item.end}) cannot be read: {item.why}",
                    hint='option("failOnDataLoss", "false") reads the other records',
                    code=RECORDS_GONE,
                )
        elif len(item):
            batch = arrow.record_batch(item)
            yield batch if bookkeeping is None else bookkeeping.of(batch, part)
    if bookkeeping is not None:
        yield bookkeeping.progress_row(part, part.end)


class _Bookkeeping:
    """Adds the columns of ``BOOKKEEPING_DDL``."""

    def __init__(self) -> None:
        import pyarrow as pa

        lost = pa.struct([pa.field("start", pa.int64()), pa.field("end", pa.int64()), pa.field("why", pa.string())])
        self._lost_type = pa.list_(lost)
        fields = [
            pa.field("_chunk", pa.int32()),
            pa.field(NOT_A_RECORD, pa.bool_()),
            pa.field("_lost", self._lost_type),
            pa.field("_error", pa.binary()),
        ]
        self._schema = pa.schema([*arrow.schema(), *fields])

    def of(self, batch: pyarrow.RecordBatch, part: SourceRange) -> pyarrow.RecordBatch:
        """The batch with the columns added."""
        import pyarrow as pa

        number = batch.num_rows
        more = [
            pa.repeat(pa.scalar(part.chunk, pa.int32()), number),
            pa.repeat(pa.scalar(False), number),
            pa.nulls(number, self._lost_type),
            pa.nulls(number, pa.binary()),
        ]
        return pa.RecordBatch.from_arrays([*batch.columns, *more], schema=self._schema)

    def progress_row(
        self, part: SourceRange, position: int, lost: LostOffsets | None = None, error: bytes | None = None
    ) -> pyarrow.RecordBatch:
        """A row without a record."""
        import pyarrow as pa

        row = dict.fromkeys(self._schema.names)
        row |= {"topic": part.topic, "partition": part.partition, "offset": position}
        row |= {"_chunk": part.chunk, NOT_A_RECORD: True, "_error": error}
        row["_lost"] = [] if lost is None else [asdict(lost)]
        return pa.RecordBatch.from_pylist([row], schema=self._schema)


def error_row(part: SourceRange, failure: Failure) -> pyarrow.RecordBatch:
    """The last row of a batch with bookkeeping: the error that ended reading."""
    return _Bookkeeping().progress_row(part, part.start, error=pickle.dumps(failure))


def reader_error(batch: pyarrow.RecordBatch) -> Failure | None:
    """The reader's error in a batch, or None. Raised in the reader, Spark would retry and show a Java stack.

    ``failures.error_of`` converts it.
    """
    column = batch.column("_error")
    if column.null_count == len(column):
        return None
    failure: Failure = pickle.loads(next(item for item in column.to_pylist() if item is not None))
    return failure
