"""Tasks whose records pass through Spark SQL before the sink: ``--where``.

Spark reads the rest of a task's chunks in order and marks the wanted records, without a shuffle. The same code delivers
these that delivers records without Spark SQL. pyspark is imported only inside functions.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kgroup.catchup.spark.in_worker import TaskAnswer, TaskParcel, replay, work_partition
from kgroup.catchup.spark.running_job import running_job
from kgroup.catchup.spark.source import SourcePlan, SourceRange, frame
from kgroup.catchup.spark.where import with_wanted
from kgroup.catchup.worker.task_spec import TaskResult, TaskSpec
from kgroup.groups.catchup.delivered import delivered_to
from kgroup.groups.catchup.model import ChunkProgress

if TYPE_CHECKING:
    import pyarrow

    from kgroup.catchup.spark.driver import Driver
    from kgroup.catchup.spark.job import JobNote, TaskRunner
    from kgroup.catchup.spark.session import DriverSession

_AGAIN = ("topic",)
"""Sinks that go back to the committed position and read the records after it again."""


def reading_of(tasks: Sequence[TaskSpec], progress: Mapping[int, ChunkProgress]) -> SourcePlan:
    """What these tasks still have to read: one of Spark's partitions for each task, with bookkeeping."""
    parts = tuple(
        tuple(
            SourceRange(chunk.topic, chunk.partition, start, chunk.end, chunk.number)
            for chunk in task.chunks
            if (start := delivered_to(chunk, progress)) < chunk.end
        )
        for task in tasks
    )
    return SourcePlan(parts, tasks[0].config, tasks[0].timeout_s, bookkeeping=True)


def filtered(tasks: Sequence[TaskSpec], where: str, progress: Mapping[int, ChunkProgress]) -> TaskRunner:
    """A job that delivers the records matching ``where``; ``progress`` is the ledger's at its start."""

    def collect(session: DriverSession, asked: JobNote) -> Iterable[TaskAnswer]:
        answers: list[TaskAnswer] = session.call(_collected, tuple(tasks), where, dict(progress), asked=asked)
        return answers

    return collect


def _collected(
    driver: Driver, tasks: Sequence[TaskSpec], where: str, progress: Mapping[int, ChunkProgress]
) -> list[TaskAnswer]:
    """Run the tasks, in the driver."""
    with running_job(driver):
        rows = with_wanted(frame(driver.sql(), reading_of(tasks, progress)), where)
        answers = rows.mapInArrow(_deliverer(_packed(tasks), tasks[0].config), "answers binary").collect()
        return [answer for row in answers for answer in pickle.loads(row[0])]


def _packed(tasks: Sequence[TaskSpec]) -> TaskParcel:
    """The tasks without the connection settings, which are the same for all."""
    packed = (zlib.compress(pickle.dumps((replay, replace(task, config={}))), level=1) for task in tasks)
    return TaskParcel(tuple(packed), tuple(task.number for task in tasks))


def _deliverer(
    parcel: TaskParcel, config: Mapping[str, Any]
) -> Callable[[Iterable[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    def deliver(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        def work(spec: TaskSpec) -> TaskResult:
            from kgroup.catchup.sinks.run_task import run_task
            from kgroup.catchup.spark.filtered_reader import FilteredReader

            again = spec.sink in _AGAIN
            reader = FilteredReader(batches, spec.chunks, config, timeout_s=spec.timeout_s, again=again)
            return run_task(replace(spec, config=config), reader)

        context = TaskContext.get()
        assert context is not None
        answers = work_partition(parcel, context.partitionId(), work)
        yield pa.RecordBatch.from_pydict({"answers": [pickle.dumps(answers)]})

    return deliver
