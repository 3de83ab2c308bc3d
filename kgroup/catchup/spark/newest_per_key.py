"""``--latest-per-key``: Spark finds the newest record of each key, and the tasks deliver these as with ``--where``.

The newest record of a key is known only when the whole gap is read. So every run reads all of it, also what is
delivered already: no older record of a key may follow a newer one. Spark finds the newest records, moves all to their
tasks, the older ones without their contents, and sorts them by offset. Within a partition, newest means the highest
offset; if a key is in several partitions of a topic, the newest of each are compared by timestamp. pyspark and pyarrow
are imported only inside functions.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from kgroup.catchup.spark.filtered_reader import runs
from kgroup.catchup.spark.in_worker import TaskAnswer, TaskParcel
from kgroup.catchup.spark.progress_listener import ProgressEndpoint
from kgroup.catchup.spark.source import (
    NOT_A_RECORD,
    WANTED,
    SourcePlan,
    SourceRange,
    ddl,
    error_row,
    frame,
    reader_error,
)
from kgroup.catchup.spark.sql_job import deliver_rows, pack_tasks
from kgroup.catchup.spark.where import with_wanted, without_contents
from kgroup.catchup.worker.failure import Failure, failure_of
from kgroup.catchup.worker.task_spec import TaskSpec
from kgroup.groups.catchup.delivered import delivered_to
from kgroup.groups.catchup.model import CatchupPlan, Chunk, ChunkProgress, Delivery, PlanSnapshot
from kgroup.support.errors import KgroupError

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

    from kgroup.catchup.spark.job import TaskRunner
    from kgroup.catchup.spark.session import DriverSession

TASK = "_task"
"""The column with the index of the task that delivers a row; null: it is delivered already."""

_STOPPED = failure_of(KgroupError("the replay was stopped before all records were read", code="stopped"))

Batches = Iterable["pyarrow.RecordBatch"]


def newest_per_key(
    snapshot: PlanSnapshot, delivery: Delivery, tasks: Sequence[TaskSpec], where: str | None
) -> TaskRunner:
    """A job that delivers the newest record of each key, of the records that match ``where`` (None: of all).

    ``tasks`` are those that are not finished. If a part of the gap was not read, nothing is delivered.
    """
    # Spark sorts the rows of a task by chunk.
    tasks = [replace(task, chunks=tuple(sorted(task.chunks, key=attrgetter("number")))) for task in tasks]
    config = tasks[0].config
    reading = SourcePlan(
        parts_of(snapshot.plan, delivery, snapshot.progress), config, tasks[0].timeout_s, bookkeeping=True
    )

    def collect(session: DriverSession, endpoint: ProgressEndpoint) -> Iterable[TaskAnswer]:
        rows = frame(session.sql(), reading, endpoint=endpoint)
        addressed = rows.mapInArrow(_addresser(reading, tasks), f"{ddl(bookkeeping=True)}, {TASK} int")
        rows = select_newest(with_wanted(addressed, where))
        parcel = pack_tasks(tasks, endpoint)
        answers = _by_task(rows, len(tasks)).mapInArrow(_deliverer(parcel, config), "answers binary").collect()
        return _each_failure_once(answer for row in answers for answer in pickle.loads(row[0]))

    return collect


def parts_of(
    plan: CatchupPlan, delivery: Delivery, progress: Mapping[int, ChunkProgress]
) -> tuple[tuple[SourceRange, ...], ...]:
    """The whole gap, one of Spark's partitions for each task of the plan; what is delivered has no chunk number."""
    by_number = {chunk.number: chunk for chunk in plan.chunks}

    def parts(chunk: Chunk) -> Iterator[SourceRange]:
        start = delivered_to(chunk, progress)
        if chunk.start < start:
            yield SourceRange(chunk.topic, chunk.partition, chunk.start, start)
        if start < chunk.end:
            yield SourceRange(chunk.topic, chunk.partition, start, chunk.end, chunk.number)

    return tuple(tuple(part for number in task.chunks for part in parts(by_number[number])) for task in delivery.tasks)


def select_newest(rows: DataFrame) -> DataFrame:
    """The rows with only these still ``WANTED``: of each key the newest wanted record, and those without a key."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    # What is not compared would all be in one group: the offset spreads it.
    apart = sql.when(~sql.col(WANTED) | sql.col("key").isNull(), sql.col("offset"))
    rows = rows.withColumn("_apart", apart).repartition("topic", "key", "_apart")
    of_partition = Window.partitionBy("topic", "key", "_apart", "partition").orderBy(sql.desc("offset"))
    rows = rows.withColumn("_rank", sql.row_number().over(of_partition))
    newest_first = (sql.asc("_rank"), sql.desc("timestamp"), sql.desc("partition"))
    of_topic = Window.partitionBy("topic", "key", "_apart").orderBy(*newest_first)
    is_newest = sql.col("key").isNull() | (sql.row_number().over(of_topic) == 1)
    return without_contents(rows.withColumn(WANTED, sql.col(WANTED) & is_newest).drop("_rank", "_apart"))


def _by_task(rows: DataFrame, tasks: int) -> DataFrame:
    """The undelivered rows by task, each task's in the order in which it reads; a task with an error begins with it."""
    from pyspark.sql import functions as sql

    rows = rows.where(sql.col(TASK).isNotNull())
    if hasattr(rows, "repartitionById"):  # since Spark 4.1
        rows = rows.repartitionById(tasks, sql.col(TASK))
    else:
        rows = rows.repartition(tasks, TASK)
    # A mark covers what is below its offset. Of two at the same offset, only one may have lost offsets: the first.
    marks = (sql.desc(NOT_A_RECORD), sql.desc(sql.size("_lost")))
    return rows.sortWithinPartitions(TASK, sql.col("_error").isNull(), "_chunk", "offset", *marks)


def _addresser(reading: SourcePlan, tasks: Sequence[TaskSpec]) -> Callable[[Batches], Iterator[pyarrow.RecordBatch]]:
    """Adds the column ``TASK``; if the rows end early, every task gets an error."""
    of_chunk = {chunk.number: index for index, task in enumerate(tasks) for chunk in task.chunks}
    first_chunks = [task.chunks[0].number for task in tasks]
    parts = reading.parts

    def address(batches: Batches) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        def with_task(batch: pyarrow.RecordBatch, indexes: list[int | None]) -> pyarrow.RecordBatch:
            columns = [*batch.columns, pa.array(indexes, pa.int32())]
            return pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, TASK])

        context = TaskContext.get()
        assert context is not None
        last, failure, reached = parts[context.partitionId()][-1], _STOPPED, False
        for batch in batches:
            if (error := reader_error(batch)) is not None:
                failure = error
                break
            yield with_task(batch, [of_chunk.get(number) for number in batch.column("_chunk").to_pylist()])
            reached = reached or _reaches(batch, last)
        if not reached:
            for index, number in enumerate(first_chunks):
                yield with_task(
                    error_row(SourceRange(last.topic, last.partition, last.start, last.end, number), failure), [index]
                )

    return address


def _reaches(batch: pyarrow.RecordBatch, last: SourceRange) -> bool:
    """Whether the batch has the mark at the end of the last part."""
    marks = batch.filter(batch.column(NOT_A_RECORD)).select(["topic", "partition", "offset"]).to_pylist()
    return {"topic": last.topic, "partition": last.partition, "offset": last.end} in marks


def _deliverer(parcel: TaskParcel, config: Mapping[str, Any]) -> Callable[[Batches], Iterator[pyarrow.RecordBatch]]:
    """Delivers the rows of each task; before Spark 4.1, one of Spark's partitions may have several tasks."""

    def deliver(batches: Batches) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa

        for index, pieces in groupby(_pieces(batches), itemgetter(0)):
            rows = (piece for _, piece in pieces)
            first = next(rows)
            if (failure := reader_error(first)) is not None:
                answers = [TaskAnswer(parcel.numbers[index], failure=None if failure == _STOPPED else failure)]
            else:
                answers = deliver_rows(parcel, config, index, chain((first,), rows))
            yield pa.RecordBatch.from_pydict({"answers": [pickle.dumps(answers)]})

    return deliver


def _pieces(batches: Batches) -> Iterator[tuple[int, pyarrow.RecordBatch]]:
    for batch in batches:
        for index, first, behind in runs(batch.column(TASK).to_pylist()):
            yield index, batch.slice(first, behind - first)


def _each_failure_once(answers: Iterable[TaskAnswer]) -> Iterator[TaskAnswer]:
    """The answers; a failure that stopped several tasks is reported by the first."""
    seen: list[Failure] = []
    for answer in answers:
        known = answer.failure in seen
        if answer.failure is not None and not known:
            seen.append(answer.failure)
        yield TaskAnswer(answer.task) if known else answer
