"""``--to-spark FORMAT``: the rest of a plan as one write of Spark, at least once; records are counted on the way.

pyspark is imported only inside functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kgroup.catchup.sinks.spark import FORMAT, SINK, resolved, secrets_of
from kgroup.catchup.spark.chunk_groups import ChunkTally, stripper
from kgroup.catchup.spark.failures import explain, java_message
from kgroup.catchup.spark.in_worker import TaskAnswer
from kgroup.catchup.spark.progress_listener import ProgressEndpoint
from kgroup.catchup.spark.source import ddl, frame
from kgroup.catchup.spark.sql_job import reading_of
from kgroup.catchup.spark.where import message_lines, with_wanted
from kgroup.catchup.worker.task_spec import TaskResult, TaskSpec
from kgroup.groups.catchup.delivered import delivered_to
from kgroup.groups.catchup.model import Chunk, ChunkProgress
from kgroup.groups.catchup.verification import ChunkResult
from kgroup.support.errors import KgroupError, Refused
from kgroup.support.redact import redact

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kgroup.catchup.spark.job import TaskRunner
    from kgroup.catchup.spark.session import DriverSession

_MOST_LINES = 4
_JOB = "Job aborted due to stage failure"


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
        plain = rows.mapInArrow(stripper(reading, tasks, endpoint, tallies), ddl())
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
