"""Spark's job for the newest record of each key: readers find the newest records and send them to the bucket's task.

Each row sent is a blob of many records with its bucket's number. Spark does not look inside.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from kgroup.catchup.model import Chunk, LostOffsets
from kgroup.catchup.sinks.run_buckets import ReaderFailed, by_task, deliver
from kgroup.catchup.spark.in_worker import ProgressSender, TaskAnswer
from kgroup.catchup.spark.progress_listener import ProgressEndpoint
from kgroup.catchup.spark.sifted import SiftedBatch, runs
from kgroup.catchup.spark.source import MARK, SourcePlan, SourceRange, frame, read_lost_offsets, reader_error
from kgroup.catchup.spark.where import condition
from kgroup.catchup.worker.bucket_run import STOPPED, ByKey, read
from kgroup.catchup.worker.failure import Failure, failure_of
from kgroup.catchup.worker.newest_per_key import NewestPerKey
from kgroup.catchup.worker.task_progress import TaskProgress

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

    from kgroup.catchup.spark.job import Through
    from kgroup.catchup.spark.session import DriverSession

_SENT = "bucket int, rows binary"
_ANSWERS = "answer binary"

Batches = Iterable["pyarrow.RecordBatch"]


@dataclass(frozen=True, slots=True)
class ReaderTask:
    """One of the job's tasks, as the progress board sees it."""

    number: int
    chunks: tuple[Chunk, ...]


def progress_tasks(by_key: ByKey) -> list[ReaderTask]:
    """The job's tasks for the progress board: first the readers, then the tasks that deliver buckets."""
    readers = [ReaderTask(number, chunks) for number, chunks in enumerate(by_key.reading)]
    left = by_key.left
    return [
        *readers,
        *(
            ReaderTask(len(readers) + spec.number, tuple(chunk for chunk in spec.chunks if chunk.number in left))
            for spec in by_key.tasks
        ),
    ]


def by_key_job(by_key: ByKey, where: str | None) -> Through:
    """A job that delivers the newest record of each key, of the records that match ``where`` (None: of all)."""

    def collect(session: DriverSession, ear: ProgressEndpoint) -> Iterable[TaskAnswer]:
        sent = _read(session, by_key, ear) if where is None else _sifted(session, by_key, where, ear)
        rows = _dealt(sent, by_key).mapInArrow(_delivering(by_key, ear), _ANSWERS).collect()
        return _told_once(pickle.loads(row[0]) for row in rows)

    return collect


def _told_once(answers: Iterable[TaskAnswer]) -> Iterator[TaskAnswer]:
    """Yield each task's answer; a failure that several tasks report is yielded once."""
    said: list[Failure] = []
    for answer in answers:
        if answer.failure is not None and answer.failure in said:
            yield TaskAnswer(answer.task)
            continue
        if answer.failure is not None:
            said.append(answer.failure)
        yield answer


def _read(session: DriverSession, by_key: ByKey, ear: ProgressEndpoint) -> DataFrame:
    """What the readers send, with kgroup's own reader. Records do not pass through the JVM until they are reduced."""
    number = len(by_key.reading)

    def reading(ids: Batches) -> Iterator[pyarrow.RecordBatch]:
        for batch in ids:
            for partition_id in batch.column(0).to_pylist():
                with ProgressSender(ear, partition_id, _attempt()) as mouth:
                    yield from _as_rows(read(by_key, partition_id, mouth.send, mouth.must_stop))

    spark: Any = session.sql()
    found: DataFrame = spark.range(0, number, 1, number).mapInArrow(reading, _SENT)
    return found


def _sifted(session: DriverSession, by_key: ByKey, where: str, ear: ProgressEndpoint) -> DataFrame:
    """What the readers send of the records that match the condition."""
    spec = by_key.tasks[0]
    parts = tuple(
        tuple(SourceRange(chunk.topic, chunk.partition, chunk.start, chunk.end, chunk.number) for chunk in chunks)
        for chunks in by_key.reading
    )
    records = frame(session.sql(), SourcePlan(parts, spec.config, spec.timeout_s, books=True), ear=ear)

    def sifting(batches: Batches) -> Iterator[pyarrow.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition_id = context.partitionId() if context else 0
        with ProgressSender(ear, partition_id, _attempt()) as mouth:
            yield from _as_rows(sift(by_key, partition_id, batches, mouth.send))

    return records.where(condition(where)).mapInArrow(sifting, _SENT)


def sift(
    by_key: ByKey, number: int, batches: Batches, tell: Callable[[TaskProgress], None] = lambda told: None
) -> Iterator[tuple[int, bytes]]:
    """Yield what a reader sends for batches with the columns of ``BOOKS_DDL``: newest records, then the counts."""
    sifting, visible, lost = by_key.sift(), Counter[int](), dict[int, tuple[LostOffsets, ...]]()
    ends = {chunk.number: chunk.end for chunk in by_key.reading[number]}
    seen = Counter[int]()
    open_ends, broken = set(ends), cast(Any, None)
    for batch in batches:
        if broken is not None:
            continue
        broken = reader_error(batch)
        for chunk, one in read_lost_offsets(batch):
            lost[chunk] = (*lost.get(chunk, ()), one)
        for row in batch.filter(batch.column(MARK)).select(["_chunk", "offset", "_seen"]).to_pylist():
            if broken is None and row["offset"] >= ends[row["_chunk"]]:
                visible[row["_chunk"]] = row["_seen"]
                open_ends.discard(row["_chunk"])
        yield from _records(sifting, batch)
        _tell(batch, seen, tell)
    if broken is None and open_ends:
        broken = STOPPED
    left_out = sifting.left_out(visible)
    yield from by_key.ending(sifting, number, lost, left_out, broken)


def _tell(batch: pyarrow.RecordBatch, seen: Counter[int], tell: Callable[[TaskProgress], None]) -> None:
    """Report the progress by the last row of a batch."""
    for row in batch.slice(max(0, batch.num_rows - 1)).select(["_chunk", "offset", "_seen", MARK]).to_pylist():
        seen[row["_chunk"]] = row["_seen"]
        tell(TaskProgress(row["_chunk"], row["offset"] + (not row[MARK]), seen.total(), 0, 0, 0))


def _records(sifting: NewestPerKey, batch: pyarrow.RecordBatch) -> Iterator[tuple[int, bytes]]:
    marks, numbers = batch.column(MARK).to_pylist(), batch.column("_chunk").to_pylist()
    for both, first, behind in runs([2 * number + mark for number, mark in zip(numbers, marks, strict=True)]):
        if both % 2 == 0:
            rows = batch.slice(first, behind - first)
            tp = rows.column("topic")[0].as_py(), rows.column("partition")[0].as_py()
            yield from sifting.add(both // 2, SiftedBatch(*tp, rows, 0))


def _dealt(sent: DataFrame, by_key: ByKey) -> DataFrame:
    """Move each bucket's rows to the Spark partition of its task; sort by bucket if tasks have several."""
    from pyspark.sql import functions

    number = functions.col("bucket")
    task = number % by_key.dealt
    if not hasattr(sent, "repartitionById"):  # before Spark 4.1
        return sent.repartition(by_key.dealt, task).sortWithinPartitions(task, number)
    dealt = sent.repartitionById(by_key.dealt, task)
    return dealt if by_key.buckets == by_key.dealt else dealt.sortWithinPartitions(number)


def _delivering(by_key: ByKey, ear: ProgressEndpoint) -> Callable[[Batches], Iterator[pyarrow.RecordBatch]]:
    def delivering(batches: Batches) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa

        rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
        for spec, sent in by_task(by_key, rows):
            answer = pickle.dumps(_answered(by_key, spec, sent, ear))
            yield pa.RecordBatch.from_arrays([pa.array([answer], pa.binary())], names=["answer"])

    return delivering


def _answered(by_key: ByKey, spec: Any, sent: Iterator[tuple[int, bytes]], ear: ProgressEndpoint) -> TaskAnswer:
    """Deliver a task and return its answer. Rows that are left over are read and ignored."""
    number = spec.number
    with ExitStack() as stack:
        mouth = stack.enter_context(ProgressSender(ear, len(by_key.reading) + number, _attempt()))
        try:
            return TaskAnswer(number, deliver(by_key, spec, sent, mouth.send, mouth.must_stop))
        except ReaderFailed as error:
            return TaskAnswer(number, failure=None if error.why == STOPPED else error.why)
        except Exception as error:
            return TaskAnswer(number, failure=failure_of(error))
        finally:
            for _ in sent:
                pass


def _attempt() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.taskAttemptId() if context else 0


def _as_rows(sent: Iterable[tuple[int, bytes]]) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow as pa

    for bucket, blob in sent:
        columns = [pa.array([bucket], pa.int32()), pa.array([blob], pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, names=["bucket", "rows"])
