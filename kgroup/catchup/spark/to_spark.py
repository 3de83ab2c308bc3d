"""``--to-spark FORMAT``: the rest of a plan as one write of Spark, at least once; records are counted on the way.

pyspark is imported only inside functions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kgroup.catchup.sinks.spark import FORMAT, SINK, resolved, secrets_of
from kgroup.catchup.spark.failures import explain, java_message, task_error
from kgroup.catchup.spark.in_worker import ProgressSender, TaskAnswer
from kgroup.catchup.spark.progress_listener import ProgressEndpoint
from kgroup.catchup.spark.source import NOT_A_RECORD, WANTED, SourcePlan, ddl, frame, reader_error
from kgroup.catchup.spark.sql_job import reading_of
from kgroup.catchup.spark.where import message_lines, with_wanted
from kgroup.catchup.worker.rate_limit import Throttle
from kgroup.catchup.worker.task_progress import TaskProgress
from kgroup.catchup.worker.task_spec import TaskResult, TaskSpec
from kgroup.groups.catchup.delivered import delivered_to
from kgroup.groups.catchup.model import Chunk, ChunkProgress
from kgroup.groups.catchup.verification import ChunkResult
from kgroup.model.records import LostOffsets
from kgroup.support.errors import KgroupError, Refused
from kgroup.support.redact import redact

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    from kgroup.catchup.spark.job import TaskRunner
    from kgroup.catchup.spark.session import DriverSession

_MOST_LINES = 4
_JOB = "Job aborted due to stage failure"


@dataclass(slots=True)
class ChunkTally:
    """Counts of a chunk: ``visible`` to the reader, ``passed`` to the writer, ``size`` in bytes of the latter."""

    visible: int = 0
    passed: int = 0
    size: int = 0
    position: int = 0
    lost: list[LostOffsets] = field(default_factory=list)


def rehearse(spark: SparkSession, options: Mapping[str, str]) -> None:
    """Write an empty frame before any offset moves, to check format, target and columns. Raises Refused [sink]."""
    with _refusing(options):
        _write(spark.createDataFrame([], ddl()), options)


def may_repeat(
    chunks: Iterable[Chunk], progress: Mapping[int, ChunkProgress], epoch: int, now_ms: int
) -> list[ChunkProgress]:
    """Progress for the ledger before the write: from now on all these records are possible duplicates."""
    repeated = []
    for chunk in chunks:
        known, start = progress.get(chunk.number), delivered_to(chunk, progress)
        before = 0 if known is None else known.may_repeat
        repeated.append(ChunkProgress(chunk.number, start, 0, 0, 0, 0, now_ms, epoch, (), before + chunk.end - start))
    return repeated


def written(
    tasks: Sequence[TaskSpec], where: str | None, progress: Mapping[int, ChunkProgress], now_ms: Callable[[], int]
) -> TaskRunner:
    """A job that writes all these tasks at once. Its answers have the progress, which the runner commits to the ledger.

    ``progress`` is the ledger's before ``may_repeat``.
    """

    def run(session: DriverSession, endpoint: ProgressEndpoint) -> Iterable[TaskAnswer]:
        from pyspark import AccumulatorParam

        class ByChunk(AccumulatorParam[dict[int, ChunkTally]]):
            """Merges counts by chunk. A chunk counted twice, by a retried task, keeps one count."""

            def zero(self, value: dict[int, ChunkTally]) -> dict[int, ChunkTally]:
                return {}

            def addInPlace(  # noqa: N802
                self, value1: dict[int, ChunkTally], value2: dict[int, ChunkTally]
            ) -> dict[int, ChunkTally]:
                return value1 | value2

        reading, options = reading_of(tasks, progress), tasks[0].options
        rows = with_wanted(frame(session.sql(), reading), where)
        tallies = session.context().accumulator({}, ByChunk())
        plain = rows.mapInArrow(_stripper(reading, tasks, endpoint, tallies), ddl())
        with _refusing(options, tuple(task.number for task in tasks)):
            _write(plain, options)
        return [_answer(task, tallies.value, progress, now_ms()) for task in tasks]

    return run


def _write(frame: DataFrame, options: Mapping[str, str]) -> None:
    frame.write.format(options[FORMAT]).options(**resolved(options)).mode("append").save()


@contextmanager
def _refusing(options: Mapping[str, str], tasks: tuple[int, ...] | None = None) -> Iterator[None]:
    """Turn Spark's errors into Refused with code ``sink``, without the writer's secrets.

    With ``tasks``, an error of the job itself is raised as in ``job.run``; with None it is Refused too.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    secrets = secrets_of(options)  # before the write: a secret file may change meanwhile
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        said = java_message(error)
        text = redact(said, secrets)
        if _JOB in text and tasks is not None:
            if text == said:
                raise
            raise explain(text, tasks=tasks) from None
        if _JOB in text:
            text = text.partition("): ")[2] or text
        lines = message_lines(text)
        raise Refused(
            f"--to-spark {options[FORMAT]}: {lines[0]}", details=tuple(lines[1:_MOST_LINES]), code=SINK
        ) from None


def _answer(
    task: TaskSpec, tallies: Mapping[int, ChunkTally], progress: Mapping[int, ChunkProgress], now_ms: int
) -> TaskAnswer:
    """The task's answer. Raises KgroupError if a chunk was not read to its end although Spark reports success."""
    counted, known = [], []
    for chunk in task.chunks:
        start = delivered_to(chunk, progress)
        if start >= chunk.end:
            continue
        tally, before = tallies.get(chunk.number, ChunkTally()), progress.get(chunk.number)
        if tally.position < chunk.end:
            raise KgroupError(f"Spark reported success, but did not count chunk {chunk.number}", code="spark-job")
        filtered = tally.visible - tally.passed
        counted.append(ChunkResult(chunk.number, start, chunk.end, tally.visible, tally.passed, filtered, 0))
        known.append(
            ChunkProgress(
                chunk.number,
                chunk.end,
                tally.visible,
                filtered,
                0,
                tally.size,
                now_ms,
                task.work.epoch,
                tuple(tally.lost),
                0 if before is None else before.may_repeat,
            )
        )
    return TaskAnswer(task.number, TaskResult(task.number, tuple(known), tuple(counted), (), True, False))


def _stripper(
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
