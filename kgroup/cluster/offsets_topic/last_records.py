"""The last record of each key in ``__consumer_offsets``, as of a moment: from these a coordinator loads its groups.

Only the leaders of the topic's partitions are asked, no coordinator. So it works while a group's coordinator has
failed or is loading. Each partition is read back to its start, because the newest commit of a quiet partition may be
as old as the log. One record per key is kept (two with a moment), however many there are.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kgroup.cluster.coordinator.client import RETRY_PAUSE_S, CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_partition import OFFSETS_TOPIC, partition_of
from kgroup.cluster.offsets_topic.events import TYPES, event_of, topic_ids
from kgroup.cluster.offsets_topic.group_log import GroupLog, Progress, ScanTotals, why_stopped
from kgroup.cluster.offsets_topic.record_batches import Marker, RawRecord, key_head
from kgroup.cluster.offsets_topic.records import RecordType, key_prefix
from kgroup.cluster.offsets_topic.scan import OUT_OF_TIME, ByteBudget, LogPartition, Window, read_backwards
from kgroup.cluster.topics import TopicLayout, log_ranges, names_of_topics, topic_layouts
from kgroup.model.group_log import Event, ScannedRange, TransactionEnd
from kgroup.model.groups import LogRange
from kgroup.support.errors import KgroupError, Unreachable

_COMMITS = frozenset({RecordType.LEGACY_OFFSET_COMMIT.value, RecordType.OFFSET_COMMIT.value})
_ANY = 1 << 30
_LENGTHS = 4
"""The bytes of a key's type and of the length of its group id."""


@dataclass(frozen=True, slots=True)
class LastRecords:
    """The last records of groups; ``unread`` is why partitions of the topic could not be read at all, by number.

    A group requested by name is in ``found``, without events if it has no records, unless its partition is in
    ``unread``. ``stopped`` are the partitions that were not read to their start, and why; groups not requested by name
    may be missing.
    """

    found: Mapping[str, GroupLog]
    unread: Mapping[int, KgroupError]
    stopped: Mapping[int, str]
    partitions: int


async def read_last_records(
    client: CoordinatorClient,
    groups: Collection[str] | None,
    numbers: Collection[int] | None,
    at_ms: int | None,
    budget: Deadline,
    most: ByteBudget,
    progress: Progress | None = None,
) -> LastRecords:
    """The last records of the groups; of all groups (None) in the partitions ``numbers`` (None: in all).

    ``at_ms`` (None: now) adds the records that were the last ones at that time. Leaders are searched for until the
    connection's deadline. The scan ends with ``budget``, or when ``most`` is fetched. Raises NotAuthorized, and
    KgroupError if the topic can't be read at all.
    """
    budget_s = budget.left_s
    layout = (await topic_layouts(client, {OFFSETS_TOPIC}))[OFFSETS_TOPIC]
    if isinstance(layout, KgroupError):
        raise layout.with_context(prefix=f"{OFFSETS_TOPIC} ")
    scans = {
        number: _Scan(number, names, at_ms) for number, names in _chosen(len(layout.leaders), groups, numbers).items()
    }
    patience, told = client.deadline, ScanTotals(progress)
    pending, unread = list(scans.values()), dict[int, KgroupError]()
    client.deadline = max(budget, patience, key=lambda deadline: deadline.at)
    while pending:
        places = {scan.number: (OFFSETS_TOPIC, scan.number) for scan in pending}
        logs = await log_ranges(client, {OFFSETS_TOPIC: layout}, places.values(), patience)
        told.expect(sum(log.end - log.start for log in logs.values() if isinstance(log, LogRange)))
        failed = await client.gather(
            scan.run(client, layout, logs[places[scan.number]], budget, most, told) for scan in pending
        )
        unread |= {scan.number: error for scan, error in zip(pending, failed, strict=True) if error is not None}
        # A leader that has just moved is searched for again; a missing right does not appear by itself.
        pending = [scans[number] for number, error in unread.items() if isinstance(error, Unreachable)]
        if not pending or patience.passed or budget.passed:
            break
        await client.sleep(RETRY_PAUSE_S)
        fresh = (await topic_layouts(client, {OFFSETS_TOPIC}))[OFFSETS_TOPIC]
        layout = fresh if isinstance(fresh, TopicLayout) else layout
        for scan in pending:
            del unread[scan.number]
    topics = await names_of_topics(client, {each for scan in scans.values() for each in scan.topic_ids()})
    found: dict[str, GroupLog] = {}
    stopped: dict[int, str] = {}
    for scan in scans.values():
        if scan.number not in unread:
            found |= scan.logs(topics, budget_s, most)
            if (why := scan.stopped(budget_s, most)) is not None:
                stopped[scan.number] = why
    return LastRecords(found, unread, stopped, len(layout.leaders))


def _chosen(
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


class _AnyGroup(Collection[bytes]):
    """A set of the key heads of all groups, which cannot be listed."""

    _types: Container[bytes] = frozenset(kind.to_bytes(2) for kind in TYPES)

    def __contains__(self, head: object) -> bool:
        return isinstance(head, bytes) and head[:2] in self._types

    def __iter__(self) -> Iterator[bytes]:
        return iter(())

    def __len__(self) -> int:
        return _ANY


@dataclass(slots=True)
class _Kept:
    """A record, how its transaction ended, and when (ms)."""

    raw: RawRecord
    ending: TransactionEnd
    ended_ms: int | None


@dataclass(slots=True)
class _Scan:
    """Scans one partition of the topic, from its end backwards."""

    number: int
    names: tuple[str, ...] | None
    at_ms: int | None
    _last: dict[bytes, _Kept] = field(default_factory=dict)
    _then: dict[bytes, _Kept] = field(default_factory=dict)
    _undecided: dict[bytes, _Kept] = field(default_factory=dict)
    _ended: dict[int, Marker] = field(default_factory=dict)
    _log: LogRange = field(default_factory=lambda: LogRange(0, 0))
    _start: int = 0
    _whole_from: int | None = None
    _oldest_ms: int | None = None
    _stopped: str | None = None

    async def run(
        self,
        client: CoordinatorClient,
        layout: TopicLayout,
        log: LogRange | KgroupError,
        budget: Deadline,
        most: ByteBudget,
        told: ScanTotals,
    ) -> KgroupError | None:
        """Read the partition. Returns why nothing could be read; None if something was, see ``stopped``."""
        if isinstance(log, KgroupError):
            return log
        for kept in (self._last, self._then, self._undecided, self._ended):
            kept.clear()
        self._log, self._start, self._whole_from, self._oldest_ms = log, log.end, None, None
        place = LogPartition(self.number, layout.leaders.get(self.number), log, self.names or ())
        wanted: Collection[bytes] = _AnyGroup()
        if self.names is not None:
            wanted = frozenset(key_prefix(kind, name) for name in self.names for kind in TYPES)

        def visit(window: Window) -> bool:
            self._take(window)
            told.add(window.offsets.end - window.offsets.start)
            return True

        try:
            self._stopped = await read_backwards(client, place, wanted, budget, visit, most)
        except KgroupError as error:
            if self._start == log.end or not budget.passed:
                return error
            self._stopped = OUT_OF_TIME
        return None

    def _take(self, window: Window) -> None:
        for entry in reversed(window.entries):
            if isinstance(entry, Marker):
                self._ended[entry.producer_id] = entry
            else:
                self._keep(entry)
        start = window.offsets.start
        if self._whole_from is None and window.whole_from > start:
            self._whole_from = window.whole_from
        self._start = start
        if window.oldest_ms is not None:
            self._oldest_ms = window.oldest_ms

    def _keep(self, raw: RawRecord) -> None:
        kind, at_ms = int.from_bytes(raw.key[:2]), self.at_ms
        kept = _Kept(raw, TransactionEnd.PLAIN, None)
        if raw.producer_id is not None and kind in _COMMITS:
            marker = self._ended.get(raw.producer_id)
            if marker is None:
                self._undecided.setdefault(raw.key, _Kept(raw, TransactionEnd.OPEN, None))
                return
            if marker.aborted:
                return
            kept = _Kept(raw, TransactionEnd.COMMITTED, marker.at_ms)
        self._last.setdefault(raw.key, kept)
        if at_ms is None or raw.timestamp_ms > at_ms:
            return
        if kept.ended_ms is not None and kept.ended_ms > at_ms:
            self._undecided.setdefault(raw.key, kept)
        else:
            self._then.setdefault(raw.key, kept)

    def stopped(self, budget_s: float, most: ByteBudget) -> str | None:
        """Why the partition was not read to its start; None: it was."""
        return why_stopped(self._stopped, budget_s, most)

    def topic_ids(self) -> set[str]:
        """The ids of topics in assignments."""
        return topic_ids(kept.raw for kept in _each((self._last, self._then, self._undecided)))

    def logs(self, topics: Mapping[str, str], budget_s: float, most: ByteBudget) -> dict[str, GroupLog]:
        """The events of each group, from which ``groups.state_from_log`` makes its state."""
        reach = ScannedRange(
            self._start,
            self._log.end,
            self._oldest_ms,
            self._start if self._whole_from is None else self._whole_from,
            self._start <= self._log.start,
            self.stopped(budget_s, most),
        )
        by_group: dict[str, dict[int, _Kept]] = {name: {} for name in self.names or ()}
        for kept in _each((self._last, self._then, self._undecided)):
            name = _group_of(kept.raw.key)
            if name is not None:
                by_group.setdefault(name, {})[kept.raw.offset] = kept
        return {name: GroupLog(_events(kept, topics), reach) for name, kept in by_group.items()}


def _group_of(key: bytes) -> str | None:
    """The group id in a key, even if the rest of the key is broken; None if the id can't be read."""
    name = key_head(key)[_LENGTHS:]
    if len(key) < _LENGTHS or len(name) != int.from_bytes(key[2:_LENGTHS]):
        return None
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None


def _each(many: Iterable[Mapping[bytes, _Kept]]) -> Iterator[_Kept]:
    for one in many:
        yield from one.values()


def _events(kept: Mapping[int, _Kept], topics: Mapping[str, str]) -> tuple[Event, ...]:
    made = (event_of(each.raw, each.ending, topics, each.ended_ms) for _, each in sorted(kept.items()))
    return tuple(event for event in made if event is not None)
