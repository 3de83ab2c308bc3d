"""Counts by chunk of the records that Spark hands to a writer. pyspark is imported only inside functions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kgroup.catchup.spark.failures import task_error
from kgroup.catchup.spark.in_worker import ProgressSender
from kgroup.catchup.spark.progress_listener import ProgressEndpoint
from kgroup.catchup.spark.source import NOT_A_RECORD, WANTED, SourcePlan, reader_error
from kgroup.catchup.worker.rate_limit import Throttle
from kgroup.catchup.worker.task_progress import TaskProgress
from kgroup.catchup.worker.task_spec import TaskSpec
from kgroup.model.records import LostOffsets

if TYPE_CHECKING:
    import pyarrow


@dataclass(slots=True)
class ChunkTally:
    """Counts of a chunk: ``visible`` to the reader, ``passed`` to the writer, ``size`` in bytes of the latter."""

    visible: int = 0
    passed: int = 0
    size: int = 0
    position: int = 0
    lost: list[LostOffsets] = field(default_factory=list)


def stripper(
    reading: SourcePlan, tasks: Sequence[TaskSpec], endpoint: ProgressEndpoint, tallies: Any
) -> Callable[[Iterable[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    rate, numbers = tasks[0].rate, tuple(task.number for task in tasks)
    ends = tuple(parts[-1] for parts in reading.parts)

    def strip(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        partition_id, throttle, counting = context.partitionId(), Throttle(rate), _Counting()
        with ProgressSender(endpoint, numbers[partition_id], context.taskAttemptId()) as sender:
            for batch in batches:
                failure = reader_error(batch)
                if failure is not None:
                    raise task_error(failure, "reading")
                rows = batch.filter(batch.column(WANTED))
                size = counting.add(batch, rows)
                sender.send(counting.progress())
                if rows.num_rows:
                    time.sleep(throttle.wait_s(time.monotonic()))
                    throttle.took(rows.num_rows, size, time.monotonic())
                    yield rows.select(rows.schema.names[:_KAFKAS])
        end = ends[partition_id]
        if counting.found.get(end.chunk or 0, ChunkTally()).position < end.end:
            raise RuntimeError(f"the rows of {end.tp} ended before {end.end}")
        tallies.add(counting.found)

    return strip


_KAFKAS = 8


class _Counting:
    """Counts by chunk of what passed through one of Spark's partitions."""

    def __init__(self) -> None:
        self.found: dict[int, ChunkTally] = {}
        self._newest = 0

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
        self._newest = number
        return self.found.setdefault(number, ChunkTally())

    def progress(self) -> TaskProgress:
        """The progress, for display."""
        tallies, newest = self.found.values(), self._newest
        return TaskProgress(
            newest,
            self.found[newest].position if newest in self.found else 0,
            sum(one.visible for one in tallies),
            sum(one.visible - one.passed for one in tallies),
            0,
            sum(one.size for one in tallies),
        )
