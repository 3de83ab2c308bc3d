"""A worker's task with buckets of keys: delivers the newest record of each key from what the readers send."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from kgroup.catchup.sinks.whole import ways
from kgroup.catchup.worker.bucket_run import BucketRun, ByKey
from kgroup.catchup.worker.newest_per_key import NewestMerge
from kgroup.catchup.worker.task_ledger import TaskLedger
from kgroup.catchup.worker.task_progress import TaskProgress
from kgroup.catchup.worker.task_spec import TaskResult, TaskSpec


class ReaderFailed(Exception):
    """A reader did not read all of its part. ``why`` is the reason, ``bucket_run.STOPPED`` if it was asked to stop."""

    def __init__(self, why: Any) -> None:
        super().__init__(str(why))
        self.why = why


def deliver(
    by_key: ByKey,
    spec: TaskSpec,
    sent: Iterable[tuple[int, bytes]],
    tell: Callable[[TaskProgress], None],
    stop: Callable[[], bool],
) -> TaskResult:
    """Deliver a task's buckets. ``sent`` yields (bucket, blob of rows or tally); those of a bucket are adjacent.

    A bucket that the ledger has as delivered is skipped. Raises ReaderFailed if a reader did not read everything,
    KgroupError with code ``not-counted`` if not everything arrived, and what ``run_task`` raises.
    """
    with TaskLedger(spec.config, spec.work, timeout_s=spec.timeout_s) as ledger:
        run = BucketRun(spec, by_key.first, ledger, stop)
        way = ways(run)
        for bucket, blobs in groupby(sent, itemgetter(0)):
            number, gather = by_key.first + bucket, NewestMerge(by_key.first + bucket, len(by_key.reading))
            done = run.is_done(number)
            for _, blob in blobs:
                if not done:
                    gather.add(blob)
            if done:
                continue
            if gather.broken is not None:
                raise ReaderFailed(gather.broken)
            if stop() or run.stopped:
                break
            run.rest()
            found = gather.bucket()
            run.begin(found)
            way(found)
            tell(TaskProgress(number, int(run.is_done(number)), 0, 0, 0, 0))
        return run.result()


def by_task(by_key: ByKey, rows: Iterable[tuple[int, bytes]]) -> Iterator[tuple[TaskSpec, Iterator[tuple[int, bytes]]]]:
    """Group the rows of one of Spark's partitions by task. The rows are in order of tasks and buckets."""
    of_bucket = {number: spec.number for spec in by_key.tasks for number in spec.work.task.chunks}
    specs = {spec.number: spec for spec in by_key.tasks}
    for task, some in groupby(rows, lambda row: of_bucket[by_key.first + row[0]]):
        yield specs[task], some
