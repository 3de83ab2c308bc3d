"""What all sinks share: the records of a task's chunks at the allowed rate, and the counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from kgroup.catchup.worker.chunk_counts import ChunkCount, FilteredOut, RecordTally
from kgroup.catchup.worker.rate_limit import Throttle
from kgroup.catchup.worker.task_control import TaskControl
from kgroup.catchup.worker.task_ledger import TaskLedger
from kgroup.catchup.worker.task_spec import Stopped, TaskResult, TaskSpec
from kgroup.cluster.reader.batches import Batch
from kgroup.groups.catchup.model import Chunk
from kgroup.model.records import LostOffsets, OffsetRange
from kgroup.model.topic_partition import TopicPartition

_TICK_S = 0.1  # the longest delay of a stop

SMALL_OFFSETS = 2_000
"""Chunks of at most so many offsets are fetched several at a time."""

FETCHED_AT_ONCE = 100


class TaskReader(Protocol):
    """The reader of a task: ``BatchReader``, or one with a filter."""

    def fetch_ahead(self, ranges: Sequence[OffsetRange]) -> None:
        """Fetch ranges of different partitions at the same time, to be read next in this order."""

    def partitions(self, topic: str, *, again: bool = False) -> frozenset[int]:
        """The partitions of a topic, read once or ``again``."""

    def batches(self, topic: str, partition: int, start: int, end: int) -> Iterator[Batch | FilteredOut | LostOffsets]:
        """Yield all records of [start, end), in order; what is filtered out comes before the records around it."""


class TaskRun:
    """One run of a task. ``counts`` are its chunks' counts by number, ``committed`` those that the ledger has.

    The sink updates ``counts``, and calls ``commit`` when they may be written to the ledger. This class counts what was
    read and filtered out, and the sink counts what was delivered: the verification compares them.
    """

    def __init__(
        self,
        spec: TaskSpec,
        ledger: TaskLedger,
        reader: TaskReader,
        control: TaskControl,
        stop: Callable[[], bool],
    ) -> None:
        self.spec = spec
        self.ledger = ledger
        self.reader = reader
        self.stopped: list[Stopped] = []
        self.counts: dict[int, ChunkCount] = {}
        self.committed: dict[int, ChunkCount] = {}
        self._control, self._stop = control, stop
        self._read: dict[int, RecordTally] = {}
        self._filtered: dict[int, RecordTally] = {}
        self._throttle = Throttle(spec.rate)
        self.committed = {
            chunk.number: ChunkCount.of(chunk, ledger.progress.get(chunk.number)) for chunk in spec.chunks
        }
        self.counts = dict(self.committed)

    def asked_to_stop(self) -> bool:
        """Whether the task must end at its next commit. Calling it often is cheap."""
        return self._control.must_stop or self._stop()

    def chunks(self) -> Iterator[Chunk]:
        """Yield the unfinished chunks in order, without those of a stopped partition."""
        unfinished = [chunk for chunk in self.spec.chunks if not self.counts[chunk.number].finished]
        fetched = 0
        for index, chunk in enumerate(unfinished):
            if self.asked_to_stop():
                return
            if self.is_stopped(chunk.tp):
                continue
            if index >= fetched:
                fetched = index + self._fetch_ahead(unfinished[index : index + FETCHED_AT_ONCE])
            yield chunk

    def _fetch_ahead(self, chunks: Sequence[Chunk]) -> int:
        """Fetch the first of these chunks at once, as far as they are small, each of another partition; how many."""
        ranges: dict[TopicPartition, OffsetRange] = {}
        for chunk in chunks:
            start = self.counts[chunk.number].position
            if chunk.end - start > SMALL_OFFSETS or chunk.tp in ranges:
                break
            ranges[chunk.tp] = OffsetRange(chunk.topic, chunk.partition, start, chunk.end)
        if len(ranges) < 2:
            return 1
        self.reader.fetch_ahead(tuple(ranges.values()))
        return len(ranges)

    def is_stopped(self, tp: TopicPartition) -> bool:
        """Whether a record of this partition was refused for good."""
        return any(one.tp == tp for one in self.stopped)

    def batches(self, chunk: Chunk, most: Callable[[], int] | None = None) -> Iterator[Batch]:
        """Yield the rest of a chunk in pieces; a piece is empty if the rate allows no record yet, or none was read.

        ``most`` is called for each piece and returns how many records it may have. Lost offsets are counted here. The
        sink moves the count to a piece's position when all below is delivered. Ends early if the task is asked to stop.
        """
        number = chunk.number
        self._read[number] = read = RecordTally(self.counts[number].run.visible)
        self._filtered[number] = filtered = RecordTally(self.counts[number].run.filtered)
        for item in self.reader.batches(chunk.topic, chunk.partition, self.counts[number].position, chunk.end):
            if isinstance(item, LostOffsets):
                self.counts[number] = self.counts[number].with_lost(item)
                yield Batch(chunk.topic, chunk.partition, [], item.end)
            elif isinstance(item, FilteredOut):
                read.add(item, self.counts[number].position)
                filtered.add(item, self.counts[number].position)
            elif len(item):
                read.add(item, self.counts[number].position)
                yield from self._pieces(item, most)
            else:
                yield item
            if self.asked_to_stop():
                return

    @property
    def is_limited(self) -> bool:
        """Whether there is a rate limit now; it may change at any time."""
        rate = self._control.rate
        self._throttle.change(rate, time.monotonic())
        return rate is not None

    def _pieces(self, batch: Batch, most: Callable[[], int] | None) -> Iterator[Batch]:
        first, size = 0, -1
        while first < len(batch) and not self.asked_to_stop():
            if self.is_limited and size < 0:
                size = batch.size()
            wait_s = self._throttle.wait_s(time.monotonic())
            if wait_s > 0:
                time.sleep(min(wait_s, _TICK_S))
                yield batch.part(first, first)
                continue
            number = self._throttle.piece(len(batch), size)
            piece = batch.part(first, first + (number if most is None else min(number, max(1, most()))))
            first += len(piece)
            yield piece
            if self._throttle.rate is not None:
                self._throttle.took(len(piece), piece.size(), time.monotonic())

    def counted(self, number: int) -> ChunkCount:
        """Update a chunk's count with what was read and filtered out up to its position, and return it."""
        count, read = self.counts[number], self._read.get(number)
        if read is not None:
            count = count.read(read.at(count.position), self._filtered[number].at(count.position))
        self.counts[number] = count
        return count

    def drop(self, number: int) -> None:
        """Discard the uncommitted counts of a chunk."""
        self.counts[number] = self.committed[number]
        self._read.pop(number, None)

    def note(self, chunk: Chunk, may_repeat: int) -> None:
        """Record in advance that ``may_repeat`` records from the committed position on may be handed over."""
        self.ledger.commit(self.committed[chunk.number].progress(self.spec.work.epoch, _now_ms(), may_repeat))

    def commit(self, may_repeat: Mapping[int, int] | None = None) -> None:
        """Commit all changes since the last commit, if any.

        ``may_repeat`` has, by chunk, how many records beyond its position may be received again; it is always written.
        """
        beyond, now_ms = may_repeat or {}, _now_ms()
        changed = [
            number for number, count in self.counts.items() if number in beyond or count != self.committed[number]
        ]
        progress = tuple(
            self.counted(number).progress(self.spec.work.epoch, now_ms, beyond.get(number, 0)) for number in changed
        )
        if progress:
            self.ledger.commit(*progress)
            self.committed = dict(self.counts)

    def restart(self) -> None:
        """Restart from what the ledger has, after a failed transaction."""
        self.ledger.open()
        self.counts = dict(self.committed)
        self._read.clear()

    def result(self) -> TaskResult:
        """The task's result so far."""
        finished = all(count.finished for count in self.committed.values())
        return TaskResult(
            self.spec.number,
            tuple(self.ledger.progress[number] for number in sorted(self.ledger.progress)),
            tuple(count.run for count in self.committed.values() if count.position > count.run.start),
            tuple(self.stopped),
            finished,
            not finished and self.asked_to_stop(),
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
