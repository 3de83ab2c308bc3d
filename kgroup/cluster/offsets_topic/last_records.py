"""The last record of each key in ``__consumer_offsets``, as of a moment: from these a coordinator loads its groups.

Only the leaders of the topic's partitions are asked, no coordinator. So it works while a group's coordinator has
failed or is loading. Each partition is read back to its start, because the newest commit of a quiet partition may be
as old as the log. One record per key is kept (two with a moment), however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import msgspec

from kgroup.cluster.coordinator.client import RETRY_PAUSE_S, CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_partition import OFFSETS_TOPIC, partition_of
from kgroup.cluster.offsets_topic.decode import key_prefix
from kgroup.cluster.offsets_topic.events import TYPES, event_of, topic_ids
from kgroup.cluster.offsets_topic.group_log import GroupLog
from kgroup.cluster.offsets_topic.record_batches import RawRecord, key_head
from kgroup.cluster.offsets_topic.records import RecordType
from kgroup.cluster.offsets_topic.scan import (
    ByteBudget,
    Entry,
    Handlers,
    PartitionScan,
    ScanProgress,
    ScanTotals,
    why_stopped,
)
from kgroup.cluster.topics import TopicLayout, log_ranges, names_of_topics, offsets_topic_layout
from kgroup.model.group_log import Event, ScannedRange, TransactionEnd
from kgroup.model.groups import LogRange
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, Unreachable

_COMMITS = frozenset({RecordType.LEGACY_OFFSET_COMMIT.value, RecordType.OFFSET_COMMIT.value})
_ANY = 1 << 30
_LENGTHS = 4
"""The bytes of a key's type and of the length of its group id."""


class LastRecords(msgspec.Struct, frozen=True):
    """The last records of groups; ``unread`` is why partitions of the topic could not be read at all, by number.

    A group requested by name is in ``by_group``, without events if it has no records, unless its partition is in
    ``unread``. ``stopped`` are the partitions that were not read to their start, and why; groups not requested by name
    may be missing.
    """

    by_group: Mapping[str, GroupLog]
    unread: Mapping[int, KgroupError]
    stopped: Mapping[int, str]
    partitions: int


async def read_last_records(
    client: CoordinatorClient,
    groups: Collection[str] | None,
    numbers: Collection[int] | None,
    at_ms: int | None,
    budget: Deadline,
    byte_budget: ByteBudget,
    progress: ScanProgress | None = None,
) -> LastRecords:
    """The last records of the groups; of all groups (None) in the partitions ``numbers`` (None: in all).

    ``at_ms`` (None: now) adds the records that were the last ones at that time. Leaders are searched for until the
    connection's deadline. The scan ends with ``budget``, or when ``byte_budget`` is fetched. Raises NotAuthorized, and
    KgroupError if the topic cannot be read at all.
    """
    budget_s = budget.left_s
    layout = await offsets_topic_layout(client)
    if isinstance(layout, KgroupError):
        raise layout.with_context(prefix=f"{OFFSETS_TOPIC} ")
    groups_of = _groups_by_partition(len(layout.leaders), groups, numbers)
    patience, totals = client.deadline, ScanTotals(progress)
    pending, unread = list(groups_of), dict[int, KgroupError]()
    read: dict[int, _LastOfEach] = {}
    client = client.within(max(budget, patience, key=lambda deadline: deadline.at))
    while pending:
        partitions = {number: TopicPartition(OFFSETS_TOPIC, number) for number in pending}
        logs = await log_ranges(client, {OFFSETS_TOPIC: layout}, partitions.values(), patience)
        totals.expect(sum(log.end - log.start for log in logs.values() if isinstance(log, LogRange)))
        for number, tp in partitions.items():
            scan = PartitionScan(number, layout.leaders.get(number), logs[tp], groups_of[number] or ())
            read[number] = _LastOfEach(scan, at_ms, named=groups_of[number] is not None)
        await client.gather(read[number].run(client, budget, byte_budget, totals) for number in pending)
        unread |= {number: error for number in pending if (error := read[number].error(budget)) is not None}
        # A leader that has just moved is searched for again; a missing right does not appear by itself.
        pending = [number for number, error in unread.items() if isinstance(error, Unreachable)]
        if not pending or patience.passed or budget.passed:
            break
        await client.sleep(RETRY_PAUSE_S)
        fresh = await offsets_topic_layout(client)
        layout = fresh if isinstance(fresh, TopicLayout) else layout
        for number in pending:
            del unread[number]
    topics = await names_of_topics(client, {each for last in read.values() for each in last.topic_ids()})
    group_logs: dict[str, GroupLog] = {}
    stopped: dict[int, str] = {}
    for number, last in read.items():
        if number not in unread:
            reason = why_stopped(last.scan.stopped, budget_s, byte_budget)
            group_logs |= last.logs(topics, last.scan.scanned_range(reason))
            if reason is not None:
                stopped[number] = reason
    return LastRecords(group_logs, unread, stopped, len(layout.leaders))


def _groups_by_partition(
    count: int, groups: Collection[str] | None, numbers: Collection[int] | None
) -> dict[int, tuple[str, ...] | None]:
    """The groups of each partition to read; None: all groups."""
    if groups is None:
        return dict.fromkeys(sorted(range(count) if numbers is None else numbers))
    by_number: dict[int, tuple[str, ...]] = {}
    for group in groups:
        number = partition_of(group, count)
        by_number[number] = (*by_number.get(number, ()), group)
    return dict(by_number)


class _OfAnyGroup(Mapping[bytes, Callable[[Entry], object]]):
    """One handler for the records of all groups, which cannot be listed."""

    _types: Container[bytes] = frozenset(kind.to_bytes(2) for kind in TYPES)

    def __init__(self, add: Callable[[Entry], object]) -> None:
        self._add = add

    def __contains__(self, head: object) -> bool:
        return isinstance(head, bytes) and head[:2] in self._types

    def __getitem__(self, head: bytes) -> Callable[[Entry], object]:
        return self._add

    def __iter__(self) -> Iterator[bytes]:
        return iter(())

    def __len__(self) -> int:
        return _ANY


@dataclass(slots=True)
class _KeptRecord:
    """A record, how its transaction ended, and when (ms)."""

    raw: RawRecord
    ending: TransactionEnd
    ended_ms: int | None


class _LastOfEach:
    """Keeps the last records of a partition, by their keys: of the groups of the scan (``named``), or of all."""

    def __init__(self, scan: PartitionScan, at_ms: int | None, *, named: bool) -> None:
        self.scan = scan
        self._at_ms = at_ms
        self._handlers: Handlers = _OfAnyGroup(self._add)
        if named:
            self._handlers = {key_prefix(kind, name): self._add for name in scan.groups for kind in TYPES}
        self._last: dict[bytes, _KeptRecord] = {}
        self._then: dict[bytes, _KeptRecord] = {}
        self._undecided: dict[bytes, _KeptRecord] = {}

    async def run(
        self, client: CoordinatorClient, budget: Deadline, byte_budget: ByteBudget, totals: ScanTotals
    ) -> None:
        """Read the partition to its start."""
        await self.scan.run(client, self._handlers, budget, lambda: True, byte_budget=byte_budget, totals=totals)

    def error(self, budget: Deadline) -> KgroupError | None:
        """Why the partition is not known; None if it is, or if it was read until ``budget`` ended."""
        return self.scan.error if self.scan.read_nothing or not budget.passed else None

    def _add(self, entry: Entry) -> None:
        raw, marker = entry
        at_ms = self._at_ms
        record = _KeptRecord(raw, TransactionEnd.PLAIN, None)
        if raw.producer_id is not None and int.from_bytes(raw.key[:2]) in _COMMITS:
            if marker is None:
                self._undecided.setdefault(raw.key, _KeptRecord(raw, TransactionEnd.OPEN, None))
                return
            if marker.aborted:
                return
            record = _KeptRecord(raw, TransactionEnd.COMMITTED, marker.at_ms)
        self._last.setdefault(raw.key, record)
        if at_ms is None or raw.timestamp_ms > at_ms:
            return
        if record.ended_ms is not None and record.ended_ms > at_ms:
            self._undecided.setdefault(raw.key, record)
        else:
            self._then.setdefault(raw.key, record)

    def _all(self) -> Iterator[_KeptRecord]:
        return chain(self._last.values(), self._then.values(), self._undecided.values())

    def topic_ids(self) -> set[str]:
        return topic_ids(record.raw for record in self._all())

    def logs(self, topics: Mapping[str, str], reach: ScannedRange) -> dict[str, GroupLog]:
        """The events of each group, from which ``groups.state_from_log`` makes its state."""
        by_group: dict[str, dict[int, _KeptRecord]] = {name: {} for name in self.scan.groups}
        for record in self._all():
            name = _group_of(record.raw.key)
            if name is not None:
                by_group.setdefault(name, {})[record.raw.offset] = record
        return {name: GroupLog(_events(record, topics), reach) for name, record in by_group.items()}


def _group_of(key: bytes) -> str | None:
    """The group id in a key, even if the rest of the key is broken; None if the id cannot be read."""
    name = key_head(key)[_LENGTHS:]
    if len(key) < _LENGTHS or len(name) != int.from_bytes(key[2:_LENGTHS]):
        return None
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None


def _events(records: Mapping[int, _KeptRecord], topics: Mapping[str, str]) -> tuple[Event, ...]:
    decoded = (event_of(each.raw, each.ending, topics, each.ended_ms) for _, each in sorted(records.items()))
    return tuple(event for event in decoded if event is not None)
