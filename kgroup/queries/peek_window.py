"""Reads the records at and before an offset of a partition, within limits of time and size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgroup.cluster.deadline import Deadline
from kgroup.groups.peek import PeekRequest, PeekTarget, ReadableLog, ReadLimit, ReadWindow, windows_before
from kgroup.model.groups import LogRange
from kgroup.model.records import ConsumerRecord, LostOffsets
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, Refused

if TYPE_CHECKING:
    from kgroup.cluster.reader.batches import BatchReader


MOST_BYTES = 64 * 1024 * 1024
"""Of all partitions: the records are in memory."""


@dataclass(slots=True)
class PeekLimits:
    """When to end a read: at the deadline, or when so many bytes of records are read."""

    deadline: Deadline
    bytes_left: int

    @property
    def reached(self) -> ReadLimit | None:
        if self.bytes_left <= 0:
            return ReadLimit.SIZE
        return ReadLimit.TIME if self.deadline.passed else None


ReadWindowOf = Callable[["BatchReader", PeekTarget, ReadableLog, int, PeekRequest, PeekLimits], ReadWindow]
"""Reads a partition as ``read_around`` does."""


def read_around(
    reader: BatchReader, target: PeekTarget, log: ReadableLog, offset: int, request: PeekRequest, limits: PeekLimits
) -> ReadWindow:
    """The records at and before ``offset``. Raises what ``BatchReader.batches`` raises, and Refused (records-gone).

    At a limit it ends with what it has.
    """
    tp, count_before = target.tp, target.records_before(request)
    count = target.records_from(request)
    later, stop = records_of(reader, tp, LogRange(offset, log.readable_end), count, limits)
    incomplete = len(later) < count and stop < log.readable_end
    earlier, start = records_before(reader, tp, log, min(offset, log.readable_end), count_before, limits)
    incomplete |= len(earlier) < count_before and start > log.start
    stopped_reason = limits.reached if incomplete else None
    return ReadWindow(offset, min(start, offset), max(stop, offset), (*earlier, *later), stopped_reason)


def records_before(
    reader: BatchReader, tp: TopicPartition, log: ReadableLog, offset: int, count: int, limits: PeekLimits
) -> tuple[list[ConsumerRecord], int]:
    """The last ``count`` records before the offset, and the offset from which on all were read."""
    newest: list[ConsumerRecord] = []
    start = offset
    for window in windows_before(log.start, offset, count):
        records, stop = records_of(reader, tp, window, window.end - window.start, limits)
        if stop < window.end:
            break
        newest, start = [*records, *newest], window.start
        if len(newest) >= count:
            return newest[-count:], newest[-count].offset
    return newest, start


def records_of(
    reader: BatchReader, tp: TopicPartition, offsets: LogRange, count: int, limits: PeekLimits
) -> tuple[list[ConsumerRecord], int]:
    """The first ``count`` records of the range, and the offset up to which all were read."""
    from kgroup.cluster.reader.batches import RECORDS_GONE

    records: list[ConsumerRecord] = []
    position = offsets.start
    try:
        for batch in reader.batches(tp.topic, tp.partition, offsets.start, offsets.end):
            if isinstance(batch, LostOffsets):
                raise Refused(
                    f"{tp}: offsets {batch.start} to {batch.end - 1} are deleted: the log starts at "
                    f"{reader.log_start} now",
                    hint="The first record that is left: --offset earliest",
                    code=RECORDS_GONE,
                )
            part = batch.part(0, count - len(records))
            records += part.records()
            limits.bytes_left -= part.size()
            if len(records) == count:
                return records, records[-1].offset + 1
            position = batch.position
            if limits.reached is not None:
                break
    except KgroupError as error:
        if error.code != "broker-error":
            raise
        # A batch that cannot be decoded, for example: its offset is what the user needs to know.
        raise error.with_context(details=(f"It was read from offset {position} on.",)) from error
    return records, position
