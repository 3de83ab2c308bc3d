"""The chunks of a group as one DataFrame, counted while Spark reads it.

pyspark is imported only inside functions.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from kgroup.catchup.spark import kafka_source
from kgroup.catchup.spark.failures import task_error
from kgroup.catchup.spark.source import NOT_A_RECORD, WANTED, SourcePlan, SourceRange, ddl, frame, reader_error
from kgroup.catchup.spark.where import with_wanted
from kgroup.catchup.worker.rate_limit import Throttle
from kgroup.catchup.worker.record_counter import counter
from kgroup.catchup.worker.task_control import TaskControl
from kgroup.catchup.worker.task_spec import TaskSpec
from kgroup.groups.catchup.delivered import delivered_to
from kgroup.groups.catchup.model import Chunk, ChunkProgress
from kgroup.groups.catchup.verification import ChunkResult
from kgroup.model.records import LostOffsets
from kgroup.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession


@dataclass(slots=True)
class ChunkTally:
    """Counts of a chunk: ``visible`` to the reader, ``passed`` to the writer, ``size`` in bytes of the latter."""

    visible: int = 0
    passed: int = 0
    size: int = 0
    position: int = 0
    lost: list[LostOffsets] = field(default_factory=list)

    @property
    def filtered(self) -> int:
        return self.visible - self.passed


@dataclass(frozen=True, slots=True)
class GroupReading:
    """How chunks are read: ``config`` is from ``librdkafka_config``, with secrets.

    ``task`` is the one of which they are: its rate is kept. None: there is no rate.
    """

    config: Mapping[str, Any] = field(repr=False)
    timeout_s: float
    where: str | None = None
    task: TaskSpec | None = None


def may_repeat(
    chunks: Iterable[Chunk], progress: Mapping[int, ChunkProgress], epoch: int, now_ms: int
) -> list[ChunkProgress]:
    """Progress for the ledger before the write: from now on all these records are possible duplicates.

    They are counted once, however often they are written: of a chunk [0, 20), 20 after one attempt and after three.
    """
    repeated = []
    for chunk in chunks:
        known, start = progress.get(chunk.number), delivered_to(chunk, progress)
        before = 0 if known is None else known.may_repeat
        repeated.append(
            ChunkProgress(chunk.number, start, 0, 0, 0, 0, now_ms, epoch, (), max(before, chunk.end - start))
        )
    return repeated


class CountedGroup(ABC):
    """``frame`` has the records of those chunks that the ledger's ``progress`` does not show as delivered.

    Its columns are those of Spark's Kafka source. Nothing is read before an action. A second action reads it again, and
    the counts remain those of one reading.
    """

    frame: DataFrame

    def __init__(self, chunks: Sequence[Chunk], progress: Mapping[int, ChunkProgress]) -> None:
        self.chunks = tuple(chunk for chunk in chunks if delivered_to(chunk, progress) < chunk.end)
        self._progress = progress

    @property
    @abstractmethod
    def is_read(self) -> bool:
        """Whether Spark has read each chunk to its end."""

    @property
    @abstractmethod
    def tallies(self) -> Mapping[int, ChunkTally]:
        """What was counted, by chunk."""

    @property
    def parts(self) -> tuple[SourceRange, ...]:
        """What is left to read of each chunk."""
        return tuple(
            SourceRange(chunk.topic, chunk.partition, delivered_to(chunk, self._progress), chunk.end, chunk.number)
            for chunk in self.chunks
        )

    @property
    def was_begun(self) -> bool:
        """Whether the ledger shows an earlier write of these records, which may have been completed."""
        return any(self._progress[chunk.number].may_repeat for chunk in self.chunks if chunk.number in self._progress)

    def read(self) -> None:
        """Read all of it, only to count it."""
        self.frame.write.format("noop").mode("append").save()

    def progress(self, epoch: int, now_ms: int, *, once: bool = False) -> tuple[ChunkProgress, ...]:
        """Progress for the ledger after the write, of chunks that are read.

        ``once``: the writer has not repeated what an earlier write may have completed.
        """
        rows, tallies = [], self.tallies
        for chunk in self.chunks:
            tally, before = tallies[chunk.number], self._progress.get(chunk.number)
            rows.append(
                ChunkProgress(
                    chunk.number,
                    chunk.end,
                    tally.visible,
                    tally.filtered,
                    0,
                    tally.size,
                    now_ms,
                    epoch,
                    tuple(tally.lost),
                    0 if before is None or once else before.may_repeat,
                )
            )
        return tuple(rows)

    def results(self) -> tuple[ChunkResult, ...]:
        """The counts for the verification, of chunks that are read."""
        rows, tallies = [], self.tallies
        for chunk in self.chunks:
            tally, start = tallies[chunk.number], delivered_to(chunk, self._progress)
            rows.append(ChunkResult(chunk.number, start, chunk.end, tally.visible, tally.passed, tally.filtered, 0))
        return tuple(rows)


class OwnReaderGroup(CountedGroup):
    """Read by kgroup's reader; each chunk is a partition of Spark."""

    def __init__(
        self, spark: SparkSession, chunks: Sequence[Chunk], progress: Mapping[int, ChunkProgress], how: GroupReading
    ) -> None:
        super().__init__(chunks, progress)
        reading = SourcePlan(tuple((part,) for part in self.parts), how.config, how.timeout_s, bookkeeping=True)
        self._counted = _counts(spark)
        rows = with_wanted(frame(spark, reading), how.where)
        self.frame = rows.mapInArrow(_stripper(reading, how, self._counted), ddl())

    @property
    def tallies(self) -> Mapping[int, ChunkTally]:
        return cast("Mapping[int, ChunkTally]", self._counted.value)

    @property
    def is_read(self) -> bool:
        return all(self.tallies.get(chunk.number, ChunkTally()).position >= chunk.end for chunk in self.chunks)


class KafkaSourceGroup(CountedGroup):
    """Read by Spark's Kafka source with these ``options``; what is below ``log_starts`` is lost.

    The source reads each range to its end. So all is read if there are as many records as offsets, or, where compaction
    and transactions leave fewer, as many as a second reading counts.
    """

    def __init__(
        self,
        spark: SparkSession,
        chunks: Sequence[Chunk],
        progress: Mapping[int, ChunkProgress],
        options: Mapping[str, str],
        log_starts: Mapping[TopicPartition, int],
    ) -> None:
        super().__init__(chunks, progress)
        self._log_starts = {part.chunk: max(part.start, log_starts.get(part.tp, 0)) for part in self.parts}
        left = [replace(part, start=self._log_starts[part.chunk]) for part in self.parts]
        left = [part for part in left if part.start < part.end]
        self._offsets = sum(part.offsets for part in left)
        self._counted = counted = _counts(spark)
        self._rows = kafka_source.frame(spark, left, options)
        spans = [(part.chunk or 0, *part.tp, part.start, part.end) for part in left]
        count = counter(spans, lambda first, counts: counted.add({first: counts}))
        self.frame = self._rows.mapInArrow(count, ddl())

    @property
    def tallies(self) -> Mapping[int, ChunkTally]:
        tallies = {chunk.number: ChunkTally(position=chunk.end) for chunk in self.chunks}
        for part in self.parts:
            if part.start < (low := min(self._log_starts[part.chunk], part.end)):
                why = f"the log start had passed them: it was {self._log_starts[part.chunk]}"
                tallies[part.chunk or 0].lost.append(LostOffsets(part.start, low, why))
        for counts in self._counted.value.values():
            for number, (records, size) in counts.items():
                tally = tallies[number]
                tally.visible += records
                tally.passed += records
                tally.size += size
        return tallies

    @property
    def is_read(self) -> bool:
        records = sum(tally.visible for tally in self.tallies.values())
        return records == self._offsets or records == self._second_count

    @cached_property
    def _second_count(self) -> int:
        """A job of Spark that reads everything again, so it runs once."""
        return self._rows.count()


def _counts(spark: SparkSession) -> Any:
    """An accumulator of dictionaries. What is counted twice under a key keeps one count: of a task tried again, ..."""
    from pyspark import AccumulatorParam

    class ByKey(AccumulatorParam[dict[Any, Any]]):
        def zero(self, value: dict[Any, Any]) -> dict[Any, Any]:
            return {}

        def addInPlace(self, value1: dict[Any, Any], value2: dict[Any, Any]) -> dict[Any, Any]:  # noqa: N802
            return value1 | value2

    return spark.sparkContext.accumulator({}, ByKey())


def _stripper(
    reading: SourcePlan, how: GroupReading, tallies: Any
) -> Callable[[Iterable[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    task = how.task
    ends = {part.chunk or 0: part.end for parts in reading.parts for part in parts}

    def strip(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        # Which chunk this is, only its rows tell: after a coalesce() one task has several of these partitions.
        throttle, counting = Throttle(None), _Counting()
        with nullcontext() if task is None else TaskControl(task) as control:
            for batch in batches:
                failure = reader_error(batch)
                if failure is not None:
                    raise task_error(failure, "reading")
                rows = batch.filter(batch.column(WANTED))
                size = counting.add(batch, rows)
                if rows.num_rows:
                    if control is not None:
                        _wait(throttle, control)
                    throttle.took(rows.num_rows, size, time.monotonic())
                    yield rows.select(rows.schema.names[:_KAFKAS])
        unread = [number for number, tally in counting.tallies.items() if tally.position < ends[number]]
        if unread or not counting.tallies:
            raise RuntimeError(f"the rows of {'a chunk' if not unread else f'chunk {unread[0]}'} ended before its end")
        tallies.add(counting.tallies)

    return strip


_KAFKAS = 8
_TICK_S = 0.1


def _wait(throttle: Throttle, control: TaskControl) -> None:
    """Wait until the next rows are due at the rate in force, which may change meanwhile."""
    while True:
        throttle.change(control.rate, time.monotonic())
        wait_s = throttle.wait_s(time.monotonic())
        if wait_s <= 0:
            return
        time.sleep(min(wait_s, _TICK_S))


class _Counting:
    """Counts by chunk of what passed through one of Spark's partitions."""

    def __init__(self) -> None:
        self.tallies: dict[int, ChunkTally] = {}

    def add(self, batch: pyarrow.RecordBatch, rows: pyarrow.RecordBatch) -> int:
        """Count a batch, of which ``rows`` are the wanted records; returns their size in bytes."""
        import pyarrow.compute as compute

        marks = batch.column(NOT_A_RECORD)
        for row in batch.filter(marks).select(["_chunk", "offset", "_lost"]).to_pylist():
            tally = self._of(row["_chunk"])
            tally.position = row["offset"]
            tally.lost.extend(LostOffsets(**one) for one in row["_lost"] or ())
        for one in compute.value_counts(batch.filter(compute.invert(marks)).column("_chunk")).to_pylist():
            self._of(one["values"]).visible += one["counts"]
        whole = 0
        for number in compute.unique(rows.column("_chunk")).to_pylist():
            own = rows.filter(compute.equal(rows.column("_chunk"), number))
            tally = self._of(number)
            size = sum(compute.sum(compute.binary_length(own.column(name))).as_py() or 0 for name in ("key", "value"))
            tally.passed, tally.size, whole = tally.passed + own.num_rows, tally.size + size, whole + size
            tally.position = max(tally.position, own.column("offset")[-1].as_py() + 1)
        return whole

    def _of(self, number: int) -> ChunkTally:
        return self.tallies.setdefault(number, ChunkTally())
