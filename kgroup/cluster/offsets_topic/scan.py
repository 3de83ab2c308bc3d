"""Scan partitions of ``__consumer_offsets`` backwards from their ends, in growing windows, within limits.

Another topic whose keys begin with a type and a group can be scanned too.
All partitions are read in parallel, with one scan for all groups. Each group has a ``Visitor``, which decides what to
keep of its records. The first window has 64 offsets. Each next one is four times as long while windows hold few
records, because compaction leaves few of billions of offsets. The topic is read *uncommitted*: group records are never
part of a transaction, and a hanging one would hide them. Commits may be part of one, so each record comes with the
marker that ended its transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Final

import msgspec

from kgroup.cluster.broker_errors import NONE, topic_error
from kgroup.cluster.byte_reader import MalformedRecord
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_partition import OFFSETS_TOPIC, partition_of
from kgroup.cluster.offsets_topic.commit_runs import CommitRun
from kgroup.cluster.offsets_topic.decode import decode, key_prefix
from kgroup.cluster.offsets_topic.record_batches import (
    BatchMatches,
    KeyFilter,
    LogEntry,
    Marker,
    RawRecord,
    batches,
    fetch_request,
    key_head,
    records_in_range,
)
from kgroup.cluster.offsets_topic.records import GroupMetadata, RecordType
from kgroup.cluster.topics import TopicLayout, log_ranges
from kgroup.model.group_log import CommitWritten, Event, ScannedRange
from kgroup.model.groups import LogRange
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, Unreachable
from kgroup.support.units import human_bytes, plural

_FIRST_WINDOW = 64
_WINDOW_GROWTH = 4
_FULL_WINDOW = 16_384
"""Windows grow to this many records and no further: when the time budget ends, the unfinished window is discarded."""

_FULL_WINDOWS = 65_536
"""The most records in the windows of all partitions that are read in parallel: each window is in memory until it is
complete."""

_SMALLEST_FULL_WINDOW = 512

_FETCH_BYTES = 1024 * 1024

OUT_OF_TIME: Final = "out of time"
"""``PartitionScan.stopped`` if the time budget ended first."""

OUT_OF_BYTES: Final = "out of bytes"
"""``PartitionScan.stopped`` if the limit on bytes was reached."""

TOO_MUCH: Final = f"too much of {OFFSETS_TOPIC} to read in the time for it"
NEWER_RECORDS: Final = f"{OFFSETS_TOPIC} holds records of a newer kind"

Entry = tuple[RawRecord, Marker | None]
"""A record, and the marker that ended its transaction: None outside of one, and while it is open."""

Handlers = Mapping[bytes, Callable[[Entry], object]]
"""What to call for a record, by its key head as made by ``key_prefix``: type and group."""

RunHandlers = Mapping[bytes, Callable[[list[CommitWritten]], object]]
"""What to call for the commits of a run, in log order, by their key head."""

ScanProgress = Callable[[int, int], None]
"""Called with (offsets read, offsets expected)."""


class Visitor:
    """What a scan keeps of one group. It is given the group's records of ``types``, newest first.

    ``complete`` is whether older records cannot add anything. The scan of a partition ends when all its visitors are.
    """

    types: ClassVar[Collection[RecordType]]
    complete = False
    add_run: Callable[[list[CommitWritten]], object] | None = None
    """What to call for a run of plain commits, in log order, instead of ``add`` for each; None: no runs."""

    def add(self, entry: Entry) -> None:
        """Add the next older record."""
        raise NotImplementedError

    def handlers(self) -> Mapping[RecordType, Callable[[Entry], None]]:
        """What to call for the records of each type."""
        return dict.fromkeys(self.types, self.add)

    def floor(self, log: LogRange) -> int:
        """The offset down to which to read. Called before the scan begins."""
        return log.start

    def reached(self, scan: PartitionScan) -> None:
        """Note that the partition has been read down to ``scan.start``."""


def decode_or_none(raw: RawRecord) -> Event | GroupMetadata | None:
    """As ``decode``; None also if the record is malformed."""
    try:
        return decode(raw.key, raw.value, raw.offset, raw.timestamp_ms)
    except MalformedRecord:
        return None


@dataclass(slots=True)
class ByteBudget:
    """The limit on fetched bytes (None: no limit) and the bytes fetched; shared by all partitions of one scan."""

    limit: int | None = None
    fetched: int = 0

    @property
    def spent(self) -> bool:
        return self.limit is not None and self.fetched >= self.limit


class ScanTotals:
    """Sums the offsets read in all partitions, for progress reports."""

    def __init__(self, progress: ScanProgress | None = None, total: int = 0) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def expect(self, offsets: int) -> None:
        self._total = self._done + offsets

    def add(self, offsets: int) -> None:
        """Add offsets that were read, and report progress."""
        self._done += offsets
        if self._progress is not None:
            self._progress(self._done, max(self._done, self._total))


@dataclass(slots=True)
class _Window:
    """The wanted records in a range of offsets, and the ends of transactions there, in log order.

    ``oldest_ms`` is the time of the first batch; None if compaction removed all batches. ``records`` counts all
    records, wanted or not, and markers; compaction makes it less than the number of offsets. No record is missing from
    offset ``whole_from`` on. ``following`` is the offset after the last record that was read.
    """

    offsets: LogRange
    entries: list[LogEntry] = field(default_factory=list)
    oldest_ms: int | None = None
    records: int = 0
    whole_from: int = 0
    following: int = 0

    def __post_init__(self) -> None:
        self.whole_from = self.following = self.offsets.start

    def add(self, matches: BatchMatches) -> None:
        """Add the matches of the next batch."""
        self.entries += matches.entries
        self.records += matches.records
        self.following = matches.following
        if matches.gap_until is not None:
            self.whole_from = matches.gap_until


class PartitionScan:
    """A scan of one partition of the topic: how far it has come, and why it ended early.

    ``log`` are the bounds of its log, or why it cannot be read. All from ``start`` on has been read; no record is
    missing from ``whole_from`` on. ``oldest_ms`` is the time of the oldest batch, None if there is none. ``stopped`` is
    None if the scan ended as it should, else OUT_OF_TIME, OUT_OF_BYTES, or ``error`` in words.
    """

    def __init__(
        self,
        number: int,
        leader: int | None,
        log: LogRange | KgroupError,
        groups: tuple[str, ...] = (),
        name: str | None = None,
        topic: str = OFFSETS_TOPIC,
    ) -> None:
        self.number = number
        self.tp = TopicPartition(topic, number)
        self.name = str(self.tp) if name is None else name
        self.groups = groups
        self.log = log
        self.start = self.whole_from = log.end if isinstance(log, LogRange) else 0
        self.oldest_ms: int | None = None
        self.error = log if isinstance(log, KgroupError) else None
        self.stopped = None if self.error is None else f"{self.name} {self.error.message}"
        self._leader = leader
        self._markers: dict[int, Marker] = {}

    @property
    def read_nothing(self) -> bool:
        return isinstance(self.log, KgroupError) or self.start == self.log.end

    @property
    def compacted(self) -> bool:
        """Whether compaction has removed records between ``start`` and the end."""
        return self.whole_from > self.start

    def scanned_range(self, stopped: str | None, open_since_ms: int | None = None) -> ScannedRange:
        """How much was read; ``stopped`` is why no more, in words."""
        assert isinstance(self.log, LogRange)
        to_log_start = self.start <= self.log.start
        return ScannedRange(
            self.start, self.log.end, self.oldest_ms, self.whole_from, to_log_start, stopped, open_since_ms
        )

    async def run(
        self,
        client: CoordinatorClient,
        handlers: Handlers,
        budget: Deadline,
        visit: Callable[[], bool],
        *,
        runs: RunHandlers = MappingProxyType({}),
        floor: int | None = None,
        byte_budget: ByteBudget | None = None,
        totals: ScanTotals | None = None,
        full_window: int = _FULL_WINDOW,
    ) -> None:
        """Read down to ``floor`` (None: the log start), or until ``visit``, called after each window, returns False.

        A window that could not be read completely is left out. Windows with ``full_window`` records do not grow.
        """
        if not isinstance(self.log, LogRange):
            return
        fetcher = _Fetcher(
            client, self.tp, self._leader, KeyFilter(handlers, runs), budget, byte_budget or ByteBudget()
        )
        size, floor = _FIRST_WINDOW, self.log.start if floor is None else floor
        try:
            while self.start > floor:
                window = _Window(LogRange(max(floor, self.start - size), self.start))
                self.stopped = await fetcher.read(window)
                if self.stopped is not None:
                    return
                self._take(window, handlers, runs)
                if totals is not None:
                    totals.add(window.offsets.end - window.offsets.start)
                if not visit():
                    return
                if window.records < full_window:
                    size *= _WINDOW_GROWTH
        except KgroupError as error:
            self.error = error
            self.stopped = OUT_OF_TIME if budget.passed else f"{self.name} {error.message}"

    def _take(self, window: _Window, handlers: Handlers, runs: RunHandlers) -> None:
        head, add, markers = b"", None, self._markers
        for entry in reversed(window.entries):
            if isinstance(entry, Marker):
                markers[entry.producer_id] = entry
                continue
            if isinstance(entry, CommitRun):
                runs[entry.key_head](entry.commits)
                continue
            if add is None or not entry.key.startswith(head):  # usually the previous record is of the same group
                head = key_head(entry.key)
                add = handlers[head]
            add((entry, None if entry.producer_id is None else markers.get(entry.producer_id)))
        if not self.compacted:
            self.whole_from = window.whole_from
        self.start = window.offsets.start
        if window.oldest_ms is not None:
            self.oldest_ms = window.oldest_ms


class _Fetcher(msgspec.Struct, frozen=True):
    """Fetches windows of one partition from its leader (None: it has none now)."""

    client: CoordinatorClient
    tp: TopicPartition
    leader: int | None
    key_filter: KeyFilter
    budget: Deadline
    byte_budget: ByteBudget

    async def read(self, window: _Window) -> str | None:
        """Read the window. Returns the limit that ended it early, None: it is complete. Raises KgroupError."""
        position, end = window.offsets.start, window.offsets.end
        while position < end:
            if self.budget.passed:
                return OUT_OF_TIME
            if self.byte_budget.spent:
                return OUT_OF_BYTES
            following = await self._fetch(window, position)
            if following <= position:
                if self.budget.passed:
                    return OUT_OF_TIME
                raise Unreachable("ended before its log end", code="no-leader")
            position = following
        if window.following < end:
            window.whole_from = end
        return None

    async def _fetch(self, window: _Window, position: int) -> int:
        """Add one response's records to the window; returns the offset after the last record."""
        if self.leader is None:
            raise Unreachable("has no leader now")
        request = fetch_request({self.tp: position}, _FETCH_BYTES)
        answer = await self.client.send(request, self.leader, self.budget.left_ms)
        if isinstance(answer, BaseException):
            raise self.client.failure(answer, self.leader)
        row = answer.responses[0].partitions[0]
        if row.error_code != NONE:
            raise topic_error(row.error_code, self.tp.topic, operation="Read")
        raw = row.records or b""
        self.byte_budget.fetched += len(raw)
        offsets = LogRange(position, window.offsets.end)
        for batch in batches(raw):
            if position >= offsets.end or self.budget.passed:
                break
            position = batch.end
            if window.oldest_ms is None and batch.base < offsets.end:
                window.oldest_ms = batch.newest_ms
            window.add(records_in_range(batch, offsets, self.key_filter, window.following))
        return position


async def partition_scans(
    client: CoordinatorClient, layout: TopicLayout | KgroupError, groups: Iterable[str], budget: Deadline
) -> list[PartitionScan]:
    """A scan for each partition that holds some of the groups, with its present leader and log bounds."""
    if isinstance(layout, KgroupError):
        return [PartitionScan(0, None, layout, tuple(groups), OFFSETS_TOPIC)]  # which partitions is not known
    by_partition: dict[int, list[str]] = {}
    for group in groups:
        by_partition.setdefault(partition_of(group, len(layout.leaders)), []).append(group)
    partitions = [TopicPartition(OFFSETS_TOPIC, number) for number in by_partition]
    logs = await log_ranges(client, {OFFSETS_TOPIC: layout}, partitions, budget)
    return [
        PartitionScan(number, layout.leaders[number], logs[TopicPartition(OFFSETS_TOPIC, number)], tuple(names))
        for number, names in by_partition.items()
    ]


def full_window_of(partitions: int) -> int:
    """The number of records to which windows grow when so many partitions are read in parallel: for 50 it is 1,310."""
    return max(_SMALLEST_FULL_WINDOW, min(_FULL_WINDOW, _FULL_WINDOWS // max(1, partitions)))


async def run_scans(
    client: CoordinatorClient,
    scans: Iterable[PartitionScan],
    visitors: Mapping[str, Visitor],
    budget: Deadline,
    *,
    byte_budget: ByteBudget | None = None,
    totals: ScanTotals | None = None,
) -> None:
    """Run the scans in parallel, each until the visitors of its groups are complete, or a limit is reached."""

    async def run(scan: PartitionScan, log: LogRange) -> None:
        own = [visitors[name] for name in scan.groups]
        handlers = {
            key_prefix(kind, name): add for name in scan.groups for kind, add in visitors[name].handlers().items()
        }

        def visit() -> bool:
            for visitor in own:
                visitor.reached(scan)
            return not all(visitor.complete for visitor in own)

        runs = {
            key_prefix(RecordType.OFFSET_COMMIT, name): add_run
            for name in scan.groups
            if (add_run := visitors[name].add_run) is not None
        }
        floor = min(visitor.floor(log) for visitor in own)
        await scan.run(
            client,
            handlers,
            budget,
            visit,
            runs=runs,
            floor=floor,
            byte_budget=byte_budget,
            totals=totals,
            full_window=full_window,
        )

    readable = [(scan, scan.log) for scan in scans if isinstance(scan.log, LogRange)]
    full_window = full_window_of(len(readable))
    await client.gather(run(scan, log) for scan, log in readable)


async def scan_groups(
    client: CoordinatorClient, layout: TopicLayout | KgroupError, visitors: Mapping[str, Visitor], budget: Deadline
) -> list[PartitionScan]:
    """Scan the partitions of these groups until their visitors are complete, or ``budget`` ends."""
    scans = await partition_scans(client, layout, visitors, budget)
    await run_scans(client, scans, visitors, budget)
    return scans


def why_stopped(stopped: str | None, budget_s: float, byte_budget: ByteBudget) -> str | None:
    """Why a scan ended, in words: the limit that it reached, or the broker's error; None: it was complete."""
    if stopped is OUT_OF_TIME:
        return f"the {budget_s:.3g} s limit was reached"
    if stopped is OUT_OF_BYTES:
        return f"the {human_bytes(byte_budget.fetched)} limit was reached"
    return stopped


def why_incomplete(scans: Iterable[PartitionScan], incomplete: Collection[str], more: str) -> str:
    """Why these groups are not known completely: the first reason, and how many more, counted as ``more``."""
    reasons: dict[str, None] = {}
    for scan in scans:
        if scan.stopped is not None:
            reasons[TOO_MUCH if scan.stopped is OUT_OF_TIME else scan.stopped] = None
        elif any(name in incomplete for name in scan.groups):
            reasons[NEWER_RECORDS] = None
    first, *others = reasons
    return f"{first}; and {plural(len(others), more)}" if others else first
