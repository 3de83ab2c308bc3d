"""Buckets of keys in a worker: read a part of the gap into buckets, deliver the buckets of a task.

Importable with confluent-kafka alone.
"""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kgroup.catchup.buckets import DONE, progress_of
from kgroup.catchup.chunks import TRANSACTION_S
from kgroup.catchup.model import BucketShare, Chunk, ChunkProgress, LostOffsets
from kgroup.catchup.verification import ChunkResult
from kgroup.catchup.worker.failure import failure_of
from kgroup.catchup.worker.newest_per_key import Bucket, NewestPerKey, RowBatch
from kgroup.catchup.worker.rate_limit import Throttle
from kgroup.catchup.worker.task_ledger import TaskLedger
from kgroup.catchup.worker.task_progress import TaskProgress
from kgroup.catchup.worker.task_spec import Stopped, TaskResult, TaskSpec
from kgroup.cluster.reader.batches import BatchReader, LostBatchRange
from kgroup.support.errors import KgroupError

STOPPED = "stopped"
"""The ``broken`` of a reader that was asked to stop before it had read everything. Otherwise it is a Failure."""

_TICK_S = 0.1
_TELL_EACH = 20_000


@dataclass(frozen=True, slots=True)
class ByKey:
    """What readers and tasks of one run need to know.

    ``reading`` has each reader's chunks, by offset within a partition. ``buckets`` is the frozen number of buckets;
    ``first`` is the ledger number of the first one. ``left`` are the ledger numbers of the buckets still to deliver.
    The plan has ``dealt`` tasks; ``tasks`` are those that still have something to do.
    """

    reading: tuple[tuple[Chunk, ...], ...]
    tasks: tuple[TaskSpec, ...]
    buckets: int
    first: int
    left: frozenset[int]
    dealt: int

    def sift(self) -> NewestPerKey:
        """A new NewestPerKey for one reader."""
        return NewestPerKey(self.buckets, frozenset(number - self.first for number in self.left))

    def ending(
        self,
        sift: NewestPerKey,
        reader: int,
        lost: Mapping[int, tuple[LostOffsets, ...]],
        left_out: Mapping[int, int],
        broken: Any,
    ) -> Iterator[tuple[int, bytes]]:
        """Yield what a reader sends last to each bucket: the records it still keeps, then its tally.

        Bucket 0 counts the records that ``--where`` filtered out: their keys are not known.
        """
        if broken is None:
            yield from sift.flush()
        for number in sorted(self.left):
            bucket = number - self.first
            tally = sift.tally(reader, bucket, lost, left_out if bucket == 0 else {})
            yield bucket, pickle.dumps(replace(tally, broken=broken), protocol=5)


def read(
    by_key: ByKey, number: int, tell: Callable[[TaskProgress], None], stop: Callable[[], bool]
) -> Iterator[tuple[int, bytes]]:
    """Read a reader's chunks; yield (bucket, blob). Read errors are not raised: the tally reports them."""
    spec, sift = by_key.tasks[0], by_key.sift()
    broken: Any = None
    visible, lost = Counter[int](), dict[int, tuple[LostOffsets, ...]]()
    try:
        with BatchReader(spec.config, timeout_s=spec.timeout_s) as reader:
            for chunk in by_key.reading[number]:
                yield from _read_chunk(reader, chunk, sift, lost, visible, tell, stop)
                if stop():
                    broken = STOPPED
                    break
        if sift.left_out(visible):
            raise KgroupError(f"{visible.total()} records were read, and not all of them counted", code="not-counted")
    except Exception as error:
        broken = failure_of(error)
    yield from by_key.ending(sift, number, lost, {}, broken)


def _read_chunk(
    reader: BatchReader,
    chunk: Chunk,
    sift: NewestPerKey,
    lost: dict[int, tuple[LostOffsets, ...]],
    visible: Counter[int],
    tell: Callable[[TaskProgress], None],
    stop: Callable[[], bool],
) -> Iterator[tuple[int, bytes]]:
    told = 0
    for item in reader.batches(chunk.topic, chunk.partition, chunk.start, chunk.end):
        if isinstance(item, LostBatchRange):
            lost[chunk.number] = (*lost.get(chunk.number, ()), LostOffsets(item.start, item.end, item.why))
            continue
        yield from sift.add(chunk.number, item)
        visible[chunk.number] += len(item)
        told += len(item)
        if told >= _TELL_EACH or item.position >= chunk.end:
            told = 0
            tell(TaskProgress(chunk.number, item.position, visible.total(), 0, 0, 0))
        if stop():
            return


class BucketRun:
    """Delivers the buckets of a task one after the other, and counts their records."""

    def __init__(self, spec: TaskSpec, first: int, ledger: TaskLedger, stop: Callable[[], bool]) -> None:
        self.spec = spec
        self.first = first
        """The ledger number of the plan's first bucket."""
        self.ledger = ledger
        self.asked_to_stop = stop
        self.stopped: list[Stopped] = []
        self.counted: list[ChunkResult] = []
        self._throttle = Throttle(spec.rate)
        self._repeated: dict[int, int] = {}
        """For the current bucket: records that earlier attempts may have handed over, by chunk."""

    def is_done(self, number: int) -> bool:
        """Whether the ledger records the bucket as delivered."""
        known = self.ledger.progress.get(number)
        return known is not None and known.delivered_to >= DONE

    def pieces(self, batches: Iterable[RowBatch], *, within_s: float | None = TRANSACTION_S) -> Iterator[RowBatch]:
        """Yield the batches in pieces at the allowed rate, but all of them within ``within_s``.

        A transaction may not last longer; ``rest`` waits for the time saved. Ends early if the task is asked to stop.
        """
        until_s = None if within_s is None else time.monotonic() + within_s
        for batch in batches:
            first, size = 0, batch.size() if self.spec.rate is not None else 0
            while first < len(batch):
                if self.asked_to_stop():
                    return
                wait_s = self._throttle.wait_s(time.monotonic())
                if wait_s > 0 and (until_s is None or time.monotonic() < until_s):
                    time.sleep(min(wait_s, _TICK_S))
                    continue
                piece = batch.part(first, first + self._throttle.piece(len(batch), size))
                first += len(piece)
                yield piece
                if self.spec.rate is not None:
                    # A piece sent early is charged to the rate as usual: ``rest`` waits for it later.
                    self._throttle.took(len(piece), piece.size(), time.monotonic())

    def rest(self) -> None:
        """Wait until the rate allows more records, or the task is asked to stop."""
        while not self.asked_to_stop() and (wait_s := self._throttle.wait_s(time.monotonic())) > 0:
            time.sleep(min(wait_s, _TICK_S))

    def begin(self, bucket: Bucket) -> None:
        """Load from the ledger how many records earlier attempts may have handed over."""
        known = self.ledger.progress.get(bucket.number)
        self._repeated = {} if known is None else {one.chunk: one.may_repeat for one in known.shares if one.may_repeat}

    def note(self, bucket: Bucket, handed_over: Mapping[int, int]) -> None:
        """Record how many records of each chunk may be handed over, or were; the bucket stays undelivered."""
        before = self._repeated
        chunks = sorted({*before, *handed_over})
        shares = [BucketShare(one, 0, 0, 0, 0, before.get(one, 0) + handed_over.get(one, 0)) for one in chunks]
        self.ledger.commit(self._progress(bucket.number, 0, shares))

    def finish(
        self,
        bucket: Bucket,
        delivered: int,
        dead: Mapping[int, int] | None = None,
        again: Mapping[int, int] | None = None,
    ) -> None:
        """Commit what was sent, and mark the bucket as delivered.

        Both by chunk: ``dead`` counts dead letters, ``again`` counts records handed over more than once in this run.
        """
        dead, before, again = dead or {}, self._repeated, again or {}
        shares = [
            replace(
                share,
                dead=dead.get(share.chunk, 0),
                may_repeat=before.get(share.chunk, 0) + again.get(share.chunk, 0),
            )
            for share in bucket.shares
        ]
        self.ledger.commit(self._progress(bucket.number, DONE, shares))
        self.count(bucket, delivered, sum(dead.values()))

    def count(self, bucket: Bucket, delivered: int, dead: int) -> None:
        """Add a ChunkResult for verification: what was read and what the sink took, counted independently."""
        visible = sum(share.records for share in bucket.shares)
        filtered = sum(share.filtered for share in bucket.shares)
        self.counted.append(ChunkResult(bucket.number, 0, DONE, visible, delivered, filtered, dead))

    def _progress(self, number: int, delivered_to: int, shares: list[BucketShare]) -> ChunkProgress:
        return progress_of(number, delivered_to, shares, time.time_ns() // 1_000_000, self.spec.work.epoch)

    def result(self) -> TaskResult:
        """The task's result so far."""
        finished = all(self.is_done(number) for number in self.spec.work.task.chunks)
        return TaskResult(
            self.spec.number,
            tuple(self.ledger.progress[number] for number in sorted(self.ledger.progress)),
            tuple(self.counted),
            tuple(self.stopped),
            finished,
            not finished and self.asked_to_stop(),
        )
