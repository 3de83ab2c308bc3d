"""Tasks whose records pass through Spark SQL before the sink: ``--where``.

Spark reads the rest of a task's chunks in order and filters it without a shuffle. The same code delivers it that
delivers records without Spark SQL. pyspark is imported only inside functions.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kgroup.catchup.delivered import delivered_to
from kgroup.catchup.model import ChunkProgress
from kgroup.catchup.spark.in_worker import Stop, TaskAnswer, TaskParcel, Tell, work_partition
from kgroup.catchup.spark.progress_listener import ProgressEndpoint
from kgroup.catchup.spark.source import SourcePlan, SourceRange, frame
from kgroup.catchup.spark.where import condition
from kgroup.catchup.worker.task_spec import TaskSpec

if TYPE_CHECKING:
    import pyarrow

    from kgroup.catchup.spark.job import Through
    from kgroup.catchup.spark.session import DriverSession
    from kgroup.catchup.spark.sifting import Feed

_AGAIN = ("topic",)
"""Sinks that go back to the committed position and read the records after it again."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A task as it is sent: without the connection settings, which are the same for all."""

    spec: TaskSpec
    begun: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Delivering:
    """The ``Work`` of a task whose records come from ``feed``; ``config`` is put back into its spec."""

    feed: Feed
    config: Mapping[str, Any] = field(repr=False)

    def __call__(self, sent: Sent, tell: Tell, stop: Stop) -> Any:
        from kgroup.catchup.sinks.run_task import run_task
        from kgroup.catchup.spark.sifting import Sifted

        spec = replace(sent.spec, config=self.config)
        again = spec.sink in _AGAIN
        reader = Sifted(self.feed, spec.chunks, sent.begun, self.config, timeout_s=spec.timeout_s, again=again)
        return run_task(spec, tell, stop, reader)


def reading_of(tasks: Sequence[TaskSpec], progress: Mapping[int, ChunkProgress]) -> SourcePlan:
    """What these tasks still have to read: one of Spark's partitions for each task, with books."""
    parts = tuple(
        tuple(
            SourceRange(chunk.topic, chunk.partition, start, chunk.end, chunk.number)
            for chunk in task.chunks
            if (start := delivered_to(chunk, progress)) < chunk.end
        )
        for task in tasks
    )
    return SourcePlan(parts, tasks[0].config, tasks[0].timeout_s, books=True)


def sifted(tasks: Sequence[TaskSpec], where: str, progress: Mapping[int, ChunkProgress]) -> Through:
    """A job that delivers the records matching ``where``; ``progress`` is the ledger's at its start."""

    def run(session: DriverSession, ear: ProgressEndpoint) -> Iterable[TaskAnswer]:
        wanted = frame(session.sql(), reading_of(tasks, progress), ear=ear).where(condition(where))
        parcel = pack_tasks(tasks, progress, ear)
        answers = wanted.mapInArrow(_deliverer(parcel, tasks[0].config), "answers binary")
        return [answer for row in answers.collect() for answer in pickle.loads(row[0])]

    return run


def pack_tasks(tasks: Sequence[TaskSpec], progress: Mapping[int, ChunkProgress], ear: ProgressEndpoint) -> TaskParcel:
    """The tasks as they are sent to workers; ``progress`` is the ledger's when Spark begins to read."""

    def packed(task: TaskSpec) -> bytes:
        begun = {chunk.number: progress[chunk.number].records for chunk in task.chunks if chunk.number in progress}
        return zlib.compress(pickle.dumps(Sent(replace(task, config={}), begun)), level=1)

    return TaskParcel(_nowhere, tuple(map(packed, tasks)), tuple(task.number for task in tasks), ear)


def _nowhere(spec: Any, tell: Tell, stop: Stop) -> Any:
    raise AssertionError("a task without a feed")


def _deliverer(
    parcel: TaskParcel, config: Mapping[str, Any]
) -> Callable[[Iterable[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    def deliver(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        answers = deliver_rows(parcel, config, context.partitionId(), batches)
        yield pa.RecordBatch.from_pydict({"answers": [pickle.dumps(answers)]})

    return deliver


def deliver_rows(
    parcel: TaskParcel, config: Mapping[str, Any], index: int, batches: Iterable[pyarrow.RecordBatch]
) -> list[TaskAnswer]:
    """Deliver the rows of the parcel's task number ``index``, in a worker."""
    from pyspark import TaskContext

    from kgroup.catchup.spark.sifting import delivered

    context = TaskContext.get()
    assert context is not None
    attempt = context.taskAttemptId()

    def work(feed: Feed) -> list[TaskAnswer]:
        return work_partition(replace(parcel, work=Delivering(feed, config)), index, attempt)

    answers: list[TaskAnswer] = delivered(batches, work)
    return answers
