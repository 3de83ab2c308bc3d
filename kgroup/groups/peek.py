"""Which records ``kgroup peek`` reads, and what it found: records, and offsets that hold none. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated

import msgspec

from kgroup.groups.lag.evidence import Isolation
from kgroup.groups.lag.status import LagStatus
from kgroup.groups.peek_deliveries import DeliveryDocument, PeekedDeliveries
from kgroup.groups.reset_targets import NO_COMMIT, TopicChoice, parse_topics
from kgroup.groups.stuck_record import StuckRecord
from kgroup.model.groups import LogRange, Partition, RowError
from kgroup.model.json_lines import RecordDocument, ValueFormat, json_line, record_document, writable_format
from kgroup.model.records import ConsumerRecord
from kgroup.model.topic_partition import PartitionValue, TopicPartition
from kgroup.support.errors import ExitCode, UsageError
from kgroup.support.json_types import Count, ExplainedEnum, Offset

MOST_PARTITIONS = 20
"""Without ``--topic`` so many partitions of a group are read at most."""

_MOST_AROUND = 20
_PARTITION = r"[\w.-]+:\d+(,\d+)*"
_FIRST_WINDOW, _WINDOW_GROWTH, _LARGEST_WINDOW = 16, 8, 65_536


class LogEdge(StrEnum):
    """An end of the log, for ``--offset``."""

    EARLIEST = "earliest"
    LATEST = "latest"


PeekOffset = int | LogEdge | None
"""Where to read; None is the committed offset."""


def parse_peek_offset(text: str | None) -> PeekOffset:
    """Parse ``--offset``: ``4711``, ``earliest``, ``latest``. Raises UsageError."""
    if text is None:
        return None
    if text in tuple(LogEdge):
        return LogEdge(text)
    if re.fullmatch(r"(?a)\d{1,19}", text) and int(text) < 2**63:
        return int(text)
    if re.fullmatch(r"(?a)-\d+", text):
        raise UsageError(
            f"--offset {text} is not an offset", hint=f"The last records: --offset latest --before {text[1:]}"
        )
    raise UsageError(f"--offset {text} is not an offset", hint="Choose one of: N, earliest, latest.")


def parse_partitions(word: str) -> tuple[TopicPartition, ...] | None:
    """The partitions that ``orders:3`` or ``orders:3,4`` names; None for a word that is a group."""
    if not re.fullmatch(f"(?a){_PARTITION}", word):
        return None
    return tuple(TopicPartition(each.topic, n) for each in parse_topics([word]) for n in each.partitions or ())


class PeekRequest(msgspec.Struct, frozen=True):
    """What to read: a partition's records from ``offset`` on, ``count`` of them, and ``before`` records before it.

    Of ``latest`` alone the last ``count`` records are meant: after it there are none.
    """

    offset: PeekOffset = None
    before: int = 0
    count: int = 1
    isolation: Isolation = Isolation.READ_COMMITTED

    @property
    def records_before(self) -> int:
        """The number of records before the offset."""
        return self.count if self.offset is LogEdge.LATEST and not self.before else self.before


class PeekTarget(PartitionValue, msgspec.Struct, frozen=True):
    topic: str
    partition: int
    group: str | None = None
    committed: int | None = None
    """None: no group was named."""
    status: str | None = None
    """``STALL 5m``; None if not judged."""
    record: StuckRecord | None = None
    """The record that the group does not get past; None: it is not known to be stuck at one."""
    crash_loop: str | None = None
    """Why, in words, if members die."""
    deliveries: PeekedDeliveries | None = None
    """Which records of a share group to show; None for all other reads."""

    def records_before(self, request: PeekRequest) -> int:
        """The number of records before the offset: from the first one that the group may be stuck at, as far as 20."""
        if self.record is None or self.committed is None or request.offset is not None:
            return request.records_before
        maybe = max(0, self.committed - self.record.offset) + self.record.before
        return max(request.records_before, min(maybe, _MOST_AROUND))

    def records_from(self, request: PeekRequest) -> int:
        """The number of records from the offset on: up to the last one that the group may be stuck at, as far as 20."""
        latest = None if self.record is None else self.record.latest
        if latest is None or self.committed is None or request.offset is not None:
            return request.count
        return max(request.count, min(latest - self.committed + 1, _MOST_AROUND))


class ReadableLog(msgspec.Struct, frozen=True):
    """The bounds of a log, [start, end), its last stable offset, and the isolation level of the consumer."""

    start: int
    end: int
    last_stable: int
    isolation: Isolation = Isolation.READ_COMMITTED

    @property
    def readable_end(self) -> int:
        """The end of what a consumer of this isolation level gets."""
        return self.last_stable if self.isolation is Isolation.READ_COMMITTED else self.end


class ReadLimit(ExplainedEnum):
    """Why a read ended before it had the requested records."""

    TIME = "time", "the time was up"
    SIZE = "size", "enough was read"


class ReadWindow(msgspec.Struct, frozen=True):
    """The records found at and around ``offset``; all offsets of [``start``, ``stop``) were read.

    ``stopped_reason`` is the limit at which the read ended, with fewer records than requested; otherwise None.
    """

    offset: int
    start: int
    stop: int
    records: tuple[ConsumerRecord, ...]
    stopped_reason: ReadLimit | None = None


class PeekedPartitionDocument(msgspec.Struct, frozen=True):
    """A partition's records in JSON."""

    group: Annotated[str | None, "The group; null with --topic alone."]
    topic: Annotated[str, "The topic."]
    partition: Annotated[Count, "The partition."]
    committed: Annotated[Offset | None, "The committed offset."]
    offset: Annotated[Offset, "The offset that is read from."]
    log_start: Annotated[Offset, "The log start offset."]
    log_end: Annotated[Offset, "The log end offset."]
    last_stable_offset: Annotated[Offset | None, "The last stable offset; null if not read."]
    lag_status: Annotated[str | None, LagStatus, "Burrow's status of the partition."]
    records: Annotated[tuple[RecordDocument, ...], "The records."]
    deliveries: Annotated[
        tuple[DeliveryDocument, ...] | None, "How often each record was delivered; null if not of a share group."
    ]
    empty_offsets: Annotated[tuple[LogRange, ...], "Offsets without a record (compacted, aborted, markers)."]
    stopped_reason: Annotated[ReadLimit | None, "Why the read ended early."]


class PeekedPartition(msgspec.Struct, frozen=True):
    """A partition's records at and around an offset."""

    target: PeekTarget
    log: ReadableLog
    window: ReadWindow
    form: ValueFormat = ValueFormat.TEXT

    @property
    def records(self) -> tuple[ConsumerRecord, ...]:
        """In the order of their offsets."""
        return self.window.records

    @property
    def next_record(self) -> ConsumerRecord | None:
        """The record that a consumer at the offset gets first; None if none was found."""
        return next((record for record in self.records if record.offset >= self.window.offset), None)

    @property
    def empty_offsets(self) -> tuple[LogRange, ...]:
        """The offsets around the records that hold none: see ``empty_ranges``. Of a share group they are not known."""
        return tuple(empty_ranges(self.window)) if self.target.deliveries is None else ()

    @property
    def deliveries(self) -> tuple[DeliveryDocument, ...] | None:
        """One for each record of a share group; else None."""
        return None if self.target.deliveries is None else tuple(self.target.deliveries.of(self.records))

    @property
    def hidden(self) -> LogRange | None:
        """The unread offsets that an open transaction hides from a read_committed consumer; None if there are none."""
        if self.log.readable_end >= self.log.end or self.window.stop < self.log.readable_end:
            return None
        return LogRange(self.log.readable_end, self.log.end)

    @property
    def not_json(self) -> tuple[int, ...]:
        """The offsets of values that are shown as text although JSON was requested."""
        return tuple(r.offset for r in self.records if writable_format(r, self.form) is not self.form)

    def document(self) -> PeekedPartitionDocument:
        target, log, window = self.target, self.log, self.window
        return PeekedPartitionDocument(
            group=target.group,
            topic=target.topic,
            partition=target.partition,
            committed=target.committed,
            offset=window.offset,
            log_start=log.start,
            log_end=log.end,
            last_stable_offset=log.last_stable,
            lag_status=target.status.partition(" ")[0].lower() if target.status else None,
            records=tuple(record_document(r, writable_format(r, self.form)) for r in self.records),
            deliveries=self.deliveries,
            empty_offsets=self.empty_offsets,
            stopped_reason=window.stopped_reason,
        )


def select_partitions(
    partitions: Sequence[Partition], topics: Sequence[TopicChoice] | None, stuck: Sequence[TopicPartition]
) -> list[Partition]:
    """The partitions of a group to read, in the order in which they are shown.

    Those that ``--topic`` selects; else the ``stuck`` ones in their order; else those with unread records, the largest
    lag first.
    """
    if topics is not None:
        wanted = {choice.topic: choice.partitions for choice in topics}
        return [
            p
            for p in sorted(partitions, key=lambda p: p.tp)
            if p.topic in wanted and ((numbers := wanted[p.topic]) is None or p.partition in numbers)
        ]
    by_tp = {p.tp: p for p in partitions}
    if stuck:
        return [by_tp[tp] for tp in stuck if tp in by_tp]
    # A partition that is out of range has unread records, or none that can be read: its error says which.
    unread = [p for p in partitions if p.commit and (p.lag or p.out_of_range or p.log is None)]
    return sorted(unread, key=lambda p: (-(p.lag or 0), p.tp))


def resolve_offset(target: PeekTarget, log: ReadableLog, request: PeekRequest) -> int | RowError:
    """The offset to read from, or why there is none: no commit, or one outside the log."""
    if request.offset is LogEdge.EARLIEST:
        return log.start
    if request.offset is LogEdge.LATEST:
        return log.readable_end
    offset = target.committed if request.offset is None else request.offset
    if offset is None:
        return _error(
            target,
            NO_COMMIT,
            f"{target.tp}: {target.group} has no committed offset",
            "--offset earliest, --offset latest or --offset N reads it all the same.",
        )
    what = "the committed offset" if request.offset is None else "offset"
    if offset < log.start:
        return _error(
            target,
            "below-log-start",
            f"{target.tp}: {what} {offset} is below the log start {log.start}: its record is deleted",
            "The first record that is left: --offset earliest",
        )
    if offset > log.end:
        return _error(
            target,
            "above-log-end",
            f"{target.tp}: {what} {offset} is above the log end {log.end}",
            "The last records: --offset latest",
        )
    return offset


def empty_ranges(window: ReadWindow) -> Iterator[LogRange]:
    """Ranges without a record: before, between and after the records of a window.

    Compaction, aborted transactions and transaction markers leave such offsets. With records at 4 and 7, read from 3 to
    8, these are [3, 4) and [5, 7).
    """
    expected = window.start
    for offset in (*(record.offset for record in window.records), window.stop):
        if offset > expected:
            yield LogRange(expected, offset)
        expected = offset + 1


def windows_before(log_start: int, offset: int, count: int) -> Iterator[LogRange]:
    """Ranges to read backwards from ``offset`` until ``count`` records are found; each ends where the last one began.

    The first one is small. The total is limited: before an offset there may be millions that hold no record.
    """
    size, end = max(count, _FIRST_WINDOW), offset
    while count and end > log_start and size <= max(count, _LARGEST_WINDOW):
        start = max(log_start, end - size)
        yield LogRange(start, end)
        size, end = size * _WINDOW_GROWTH, start


def lines_of(partitions: Iterable[PeekedPartition]) -> Iterator[bytes]:
    """Each record as a line of JSON; a value that is not JSON as text, whatever the format."""
    for each in partitions:
        for record in each.records:
            yield json_line(record, writable_format(record, each.form))


def _error(target: PeekTarget, code: str, message: str, hint: str) -> RowError:
    return RowError(code, message, target.group, target.topic, target.partition, hint, ExitCode.NOT_FOUND)
