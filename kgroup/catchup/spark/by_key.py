"""Spark's job for the newest record of each key: readers keep what is newest, and send it to the task of its bucket.

A row on its way is a blob of many records with the number of its bucket: Spark does not look into them.
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
from kgroup.catchup.spark.source import MARK, SourcePlan, SourceRange, error_told, frame, lost_told
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
    """One of the job's tasks, as the board of its progress sees it."""

    number: int
    chunks: tuple[Chunk, ...]


def on_board(by_key: ByKey) -> list[ReaderTask]:
    """The job's tasks, as its progress shows them: readers first, then those that deliver buckets."""
    readers = [ReaderTask(number, chunks) for number, chunks in enumerate(by_key.reading)]
    left = by_key.left
    return [
        *readers,
        *(
            ReaderTask(len(readers) + spec.number, tuple(chunk for chunk in spec.chunks if chunk.number in left))
            for spec in by_key.tasks
        ),
    ]


def through(by_key: ByKey, where: str | None) -> Through:
    """Delivers the newest record of each key of what ``where`` lets through (None: of all)."""

    def collect(session: DriverSession, ear: ProgressEndpoint) -> Iterable[TaskAnswer]:
        sent = _read(session, by_key, ear) if where is None else _sifted(session, by_key, where, ear)
        rows = _dealt(sent, by_key).mapInArrow(_delivering(by_key, ear), _ANSWERS).collect()
        return _told_once(pickle.loads(row[0]) for row in rows)

    return collect


def _told_once(answers: Iterable[TaskAnswer]) -> Iterator[TaskAnswer]:
    """Each task's answer; what all of them say of the same reader, is said by one."""
    said: list[Failure] = []
    for answer in answers:
        if answer.failure is not None and answer.failure in said:
            yield TaskAnswer(answer.task)
            continue
        if answer.failure is not None:
            said.append(answer.failure)
        yield answer


def _read(session: DriverSession, by_key: ByKey, ear: ProgressEndpoint) -> DataFrame:
    """What the readers send, read by kgroup's own reader: records do not pass through the JVM until they are sifted."""
    number = len(by_key.reading)

    def reading(ids: Batches) -> Iterator[pyarrow.RecordBatch]:
        for batch in ids:
            for place in batch.column(0).to_pylist():
                with ProgressSender(ear, place, _attempt()) as mouth:
                    yield from _as_rows(read(by_key, place, mouth.tell, mouth.asked_to_stop))

    spark: Any = session.sql()
    found: DataFrame = spark.range(0, number, 1, number).mapInArrow(reading, _SENT)
    return found


def _sifted(session: DriverSession, by_key: ByKey, where: str, ear: ProgressEndpoint) -> DataFrame:
    """What the readers send of what the condition lets through."""
    spec = by_key.tasks[0]
    parts = tuple(
        tuple(SourceRange(chunk.topic, chunk.partition, chunk.start, chunk.end, chunk.number) for chunk in chunks)
        for chunks in by_key.reading
    )
    records = frame(session.sql(), SourcePlan(parts, spec.config, spec.timeout_s, books=True), ear=ear)

    def sifting(batches: Batches) -> Iterator[pyarrow.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        place = context.partitionId() if context else 0
        with ProgressSender(ear, place, _attempt()) as mouth:
            yield from _as_rows(sift(by_key, place, batches, mouth.tell))

    return records.where(condition(where)).mapInArrow(sifting, _SENT)


def sift(
    by_key: ByKey, number: int, batches: Batches, tell: Callable[[TaskProgress], None] = lambda told: None
) -> Iterator[tuple[int, bytes]]:
    """What a reader sends of batches with books: the newest of what came through, and what was left out."""
    sifting, visible, lost = by_key.sift(), Counter[int](), dict[int, tuple[LostOffsets, ...]]()
    ends = {chunk.number: chunk.end for chunk in by_key.reading[number]}
    seen = Counter[int]()
    open_ends, broken = set(ends), cast(Any, None)
    for batch in batches:
        if broken is not None:
            continue
        broken = error_told(batch)
        for chunk, one in lost_told(batch):
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
    """How far it is, by the last row of a batch."""
    for row in batch.slice(max(0, batch.num_rows - 1)).select(["_chunk", "offset", "_seen", MARK]).to_pylist():
        seen[row["_chunk"]] = row["_seen"]
        tell(TaskProgress(row["_chunk"], row["offset"] + (not row[MARK]), seen.total(), 0, 0, 0))


def _records(sifting: NewestPerKey, batch: pyarrow.RecordBatch) -> Iterator[tuple[int, bytes]]:
    marks, numbers = batch.column(MARK).to_pylist(), batch.column("_chunk").to_pylist()
    for both, first, behind in runs([2 * number + mark for number, mark in zip(numbers, marks, strict=True)]):
        if both % 2 == 0:
            rows = batch.slice(first, behind - first)
            place = rows.column("topic")[0].as_py(), rows.column("partition")[0].as_py()
            yield from sifting.add(both // 2, SiftedBatch(*place, rows, 0))


def _dealt(sent: DataFrame, by_key: ByKey) -> DataFrame:
    """Each bucket's rows in the partition of its task; where that has several, one bucket after the other."""
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
    """What became of a task; what is left of its rows is passed over."""
    number = spec.number
    with ExitStack() as stack:
        mouth = stack.enter_context(ProgressSender(ear, len(by_key.reading) + number, _attempt()))
        try:
            return TaskAnswer(number, deliver(by_key, spec, sent, mouth.tell, mouth.asked_to_stop))
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
