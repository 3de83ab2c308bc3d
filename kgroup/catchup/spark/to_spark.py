"""``--to-spark FORMAT``: the undelivered groups of chunks, each as one write of Spark, with the ledger after each.

pyspark is imported only inside functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from kgroup.catchup.sinks.spark import FORMAT, REMEMBERING, SELECT, SINK, resolved, secrets_of, table_format
from kgroup.catchup.spark.chunk_groups import GroupReading, OwnReaderGroup, may_repeat
from kgroup.catchup.spark.failures import explain, java_message
from kgroup.catchup.spark.in_worker import TaskAnswer
from kgroup.catchup.spark.running_job import Note, running_job
from kgroup.catchup.spark.source import ddl
from kgroup.catchup.spark.where import as_usage_error, message_lines
from kgroup.catchup.worker.task_spec import TaskResult, TaskSpec
from kgroup.groups.catchup.delivered import delivered_to, is_exactly_once
from kgroup.groups.catchup.model import ChunkProgress, Task
from kgroup.support.clock import utc_ms
from kgroup.support.errors import KgroupError, Refused, UsageError
from kgroup.support.redact import redact

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kgroup.catchup.spark.driver import Driver
    from kgroup.catchup.spark.job import JobNote, TaskRunner
    from kgroup.catchup.spark.session import DriverSession

_MOST_LINES = 4
_JOB = "Job aborted due to stage failure"
_VIEW = "kgroup_gap"


def rehearse(spark: SparkSession, options: Mapping[str, str]) -> None:
    """Write an empty frame before any offset moves, to check format, target and columns.

    Raises UsageError for a ``--select`` that Spark rejects, or that does not make one row of each record; Refused
    [sink].
    """
    empty, select = spark.createDataFrame([], ddl()), options.get(SELECT)
    if select is not None:
        with as_usage_error("--select", select):
            empty = selected(empty, select)
            plan = empty._jdf.queryExecution().analyzed()
        source = plan.children().head() if plan.nodeName() == "Project" else None
        if source is None or source.nodeName() != "SubqueryAlias" or source.alias() != _VIEW:
            raise UsageError(
                f"--select {select}: must make one row of each record, without aggregates or other tables",
                hint='for example --select "cast(value as string) as body, partition, offset"',
            )
    with _refusing(options):
        _write(empty, options, {})


def selected(rows: DataFrame, select: str | None) -> DataFrame:
    """The rows with the columns of ``--select``; None: all columns of Spark's Kafka source."""
    if select is None:
        return rows
    rows.createOrReplaceTempView(_VIEW)
    return rows.sparkSession.sql(f"SELECT {select} FROM {_VIEW}")


def by_chunk(groups: Sequence[TaskSpec], progress: Mapping[int, ChunkProgress]) -> tuple[TaskSpec, ...]:
    """Each undelivered chunk as a task, for the display of progress: Spark reads it in a partition of its own."""
    return tuple(
        replace(group, work=replace(group.work, task=Task(chunk.number, (chunk.number,))), chunks=(chunk,))
        for group in groups
        for chunk in group.chunks
        if delivered_to(chunk, progress) < chunk.end
    )


def written(
    groups: Sequence[TaskSpec],
    where: str | None,
    progress: Mapping[int, ChunkProgress],
    record: Callable[[Iterable[ChunkProgress]], None],
) -> TaskRunner:
    """A job that writes these groups of chunks one after the other; ``record`` writes their progress to the ledger.

    ``progress`` is the ledger's at the start. Before a write its records become possible duplicates, after it they are
    delivered. A table that remembers its groups gets each once: Delta skips a group that it has, Iceberg is asked.
    """

    def run(session: DriverSession, noted: JobNote) -> Iterable[TaskAnswer]:
        def answer(value: Note | list[ChunkProgress]) -> None:
            noted(value) if isinstance(value, Note) else record(value)

        answers: list[TaskAnswer] = session.call(_written, tuple(groups), where, dict(progress), asked=answer)
        return answers

    return run


def _written(
    driver: Driver, groups: Sequence[TaskSpec], where: str | None, progress: Mapping[int, ChunkProgress]
) -> list[TaskAnswer]:
    """Write the groups, in the driver; kgroup is asked to record the progress."""
    with running_job(driver):
        return list(_writing(driver.sql(), groups, where, progress, driver.ask))


def _writing(
    spark: SparkSession,
    groups: Sequence[TaskSpec],
    where: str | None,
    progress: Mapping[int, ChunkProgress],
    record: Callable[[Sequence[ChunkProgress]], object],
) -> Iterator[TaskAnswer]:
    for group in groups:
        how = GroupReading(group.config, group.timeout_s, where, group)
        counted, once = OwnReaderGroup(spark, group.chunks, progress, how), is_exactly_once(group.sink, group.options)
        record(may_repeat(counted.chunks, progress, group.work.epoch, utc_ms()))
        with _refusing(group.options, tuple(chunk.number for chunk in counted.chunks)):
            if not (counted.was_begun and _times_in_iceberg(spark, group)):
                rows = selected(counted.frame, group.options.get(SELECT))
                _write(rows, group.options, remembered(group))
            if counted.was_begun and _times_in_iceberg(spark, group) > 1:
                once = False  # an earlier run was still writing when this one asked
            if once and counted.was_begun and not counted.is_read:
                counted.read()  # the table has the group
        if not counted.is_read:
            raise KgroupError(
                f"Spark reported success, but did not read group {group.number} of the chunks", code="spark-job"
            )
        known = counted.progress(group.work.epoch, utc_ms(), once=once)
        record(known)
        yield TaskAnswer(group.number, TaskResult(group.number, known, counted.results(), (), True, False))


def remembered(group: TaskSpec) -> dict[str, str]:
    """The writer's options with which a table remembers a group of chunks; none for other formats."""
    names = REMEMBERING.get(table_format(group.options), ())
    return dict(zip(names, (group.plan_id, str(group.number)), strict=False))


def _times_in_iceberg(spark: SparkSession, group: TaskSpec) -> int:
    """How many snapshots of the Iceberg table have this group; 0 for other formats."""
    from pyspark.sql.functions import col

    if table_format(group.options) != "iceberg":
        return 0
    path = {name.lower(): text for name, text in resolved(group.options).items()}["path"]  # as Spark compares them
    snapshots = spark.read.format("iceberg").load(f"{path}{'#' if '/' in path else '.'}snapshots")
    of_plan, of_group = (col("summary")[name.removeprefix("snapshot-property.")] for name in REMEMBERING["iceberg"])
    return snapshots.where((of_plan == group.plan_id) & (of_group == str(group.number))).count()


def _write(frame: DataFrame, options: Mapping[str, str], remembering: Mapping[str, str]) -> None:
    frame.write.format(options[FORMAT]).options(**{**resolved(options), **remembering}).mode("append").save()


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
