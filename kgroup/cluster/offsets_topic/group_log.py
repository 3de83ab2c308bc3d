"""All records of groups in ``__consumer_offsets`` back to a moment, as events: the source of histories and rates.

One scan per partition, shared by its groups, limited by time and bytes. It reads *uncommitted*, so that a hanging
transaction hides nothing. Each commit gets its transaction's outcome from the markers after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.offsets_topic.events import TYPES, WITH_TOPIC_IDS, ending_of, event_of, topic_ids
from kgroup.cluster.offsets_topic.group_past import PastQuery, PastVisitor
from kgroup.cluster.offsets_topic.record_batches import RawRecord
from kgroup.cluster.offsets_topic.records import GROUP_STATES, MEMBER_RECORDS, RecordType
from kgroup.cluster.offsets_topic.scan import (
    OUT_OF_TIME,
    ByteBudget,
    Entry,
    PartitionScan,
    ScanProgress,
    ScanTotals,
    Visitor,
    partition_scans,
    run_scans,
    why_stopped,
)
from kgroup.cluster.topics import LogView, TopicLayout, log_views, names_of_topics
from kgroup.model.group_log import CommitWritten, Event, ScannedRange, TransactionEnd
from kgroup.model.groups import LogRange
from kgroup.model.migration_facts import GroupPast
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotAuthorized

_OF_MEMBERS: Mapping[int, tuple[RecordType, ...]] = {kind: kinds for kinds in MEMBER_RECORDS for kind in kinds}


class GroupLog(msgspec.Struct, frozen=True):
    """The log of one group: its events of all kinds, oldest first, and how far back it was read."""

    events: tuple[Event, ...]
    reach: ScannedRange

    @property
    def next_offset(self) -> int:
        """The offset to read on from: that of the oldest commit in an open transaction, otherwise the scan's end."""
        opened = (e.log_offset for e in self.events if isinstance(e, CommitWritten) and e.ending is TransactionEnd.OPEN)
        return min(opened, default=self.reach.end)


class GroupLogs(msgspec.Struct, frozen=True):
    """The logs by group, and why others could not be read; ``forbidden``: for lack of a right on the topic.

    ``pasts`` are those that were asked for and are complete in what was read.
    """

    logs: Mapping[str, GroupLog]
    unread: Mapping[str, str]
    forbidden: bool = False
    pasts: Mapping[str, GroupPast] = msgspec.field(default_factory=dict)


class ReadDepth(msgspec.Struct, frozen=True):
    """How far back to read a group: to a moment (ms; None: to the log start), but not below offset ``floor``.

    ``to_last_state`` reads on beyond the moment until the group's state at that time is known. With ``newest``, only
    until its present state is known.
    """

    since_ms: int | None
    floor: int = 0
    to_last_state: bool = False
    newest: bool = False


async def read_group_logs(
    client: CoordinatorClient,
    layout: TopicLayout | KgroupError,
    depths: Mapping[str, ReadDepth],
    budget: Deadline,
    byte_budget: ByteBudget,
    progress: ScanProgress | None = None,
    *,
    named: bool = True,
    limit_s: float | None = None,
    pasts: Iterable[PastQuery] = (),
) -> GroupLogs:
    """The logs of the groups, as far as they are read before ``budget`` ends or ``byte_budget`` is fetched.

    Without ``named`` topics in assignments are identified by id: for callers that only need commits and epochs.
    ``pasts`` are those to be found in the same records; for them nothing more is read.
    ``limit_s`` is the limit in messages, if ``budget`` is only these groups' share of it.
    """
    if isinstance(layout, KgroupError):
        reason = f"{OFFSETS_TOPIC} {layout.message}"
        return GroupLogs({}, dict.fromkeys(depths, reason), bool(depths) and isinstance(layout, NotAuthorized))
    budget_s = budget.left_s if limit_s is None else limit_s
    wanted = {query.name: PastVisitor(query) for query in pasts}
    visitors = {name: _Records(depth, wanted.get(name)) for name, depth in depths.items()}
    scans = await partition_scans(client, layout, depths, budget)
    totals = ScanTotals(progress, await _expected_offsets(client, layout, scans, depths) if progress is not None else 0)
    await run_scans(client, scans, visitors, budget, byte_budget=byte_budget, totals=totals)
    # Without time left, topics keep their ids: a request after the deadline would cost the connection.
    assignments = (raw for visitor in visitors.values() for raw in visitor.assignments)
    topics = await names_of_topics(client, topic_ids(assignments) if named and not client.deadline.passed else ())
    logs: dict[str, GroupLog] = {}
    unread: dict[str, str] = {}
    forbidden = False
    for scan in scans:
        if scan.error is not None and (scan.error is scan.log or (scan.read_nothing and not budget.passed)):
            late = why_stopped(OUT_OF_TIME, budget_s, byte_budget) if budget.passed else scan.error.message
            unread |= dict.fromkeys(scan.groups, f"{scan.name} {late}")
            forbidden |= isinstance(scan.error, NotAuthorized)
        else:
            stopped = why_stopped(scan.stopped, budget_s, byte_budget)
            logs |= {name: visitors[name].log(scan, stopped, topics) for name in scan.groups}
    past_of = {name: wanted[name].past(at_start=logs[name].reach.to_log_start) for name in wanted.keys() & logs.keys()}
    return GroupLogs(logs, unread, forbidden, {name: past for name, past in past_of.items() if past.complete})


async def _expected_offsets(
    client: CoordinatorClient,
    layout: TopicLayout,
    scans: Iterable[PartitionScan],
    depths: Mapping[str, ReadDepth],
) -> int:
    logs = [(scan, scan.log) for scan in scans if isinstance(scan.log, LogRange)]
    moments = [depth.since_ms for depth in depths.values()]
    since_ms = None if None in moments else min(moment for moment in moments if moment is not None)
    views: Mapping[TopicPartition, LogView | KgroupError] = {}
    if since_ms is not None:
        partitions = [TopicPartition(OFFSETS_TOPIC, scan.number) for scan, _ in logs]
        views = await log_views(client, {OFFSETS_TOPIC: layout}, partitions, [since_ms])
    expected = 0
    for scan, log in logs:
        view = views.get(TopicPartition(OFFSETS_TOPIC, scan.number))
        first = log.start
        if isinstance(view, LogView):
            first = log.end if view.at_times[0] is None else view.at_times[0]
        expected += max(0, log.end - max(first, min(depths[group].floor for group in scan.groups)))
    return expected


class _Records(Visitor):
    """Keeps all records of one group, newest first; each with the marker that ended its transaction."""

    types = TYPES

    def __init__(self, depth: ReadDepth, past: PastVisitor | None = None) -> None:
        self._past = past
        self.assignments: list[RawRecord] = []
        self._depth = depth
        self._records: list[Entry | list[CommitWritten]] = []
        self.add_run = self._records.append
        self._seen: set[bytes] = set()
        self._unexplained: set[bytes] = set()
        self._has_state = False
        self._had_state = False

    def handlers(self) -> Mapping[RecordType, Callable[[Entry], None]]:
        # Nearly all records are commits: they must cost little.
        return {**super().handlers(), RecordType.OFFSET_COMMIT: self._records.append}

    def floor(self, log: LogRange) -> int:
        return max(log.start, self._depth.floor)

    def add(self, entry: Entry) -> None:
        self._records.append(entry)
        raw = entry[0]
        kind = int.from_bytes(raw.key[:2])
        if kind in WITH_TOPIC_IDS:
            self.assignments.append(raw)
        if self._past is not None and kind in PastVisitor.types:
            self._past.add(entry)
        if not self._depth.to_last_state:
            return
        if kind in GROUP_STATES:
            self._has_state = True
            self._had_state |= self._depth.since_ms is not None and raw.timestamp_ms < self._depth.since_ms
        elif kind in _OF_MEMBERS and raw.key not in self._seen:
            self._of_member(kind, raw)

    def _of_member(self, kind: int, raw: RawRecord) -> None:
        """Track member records: a present member has one of each type of its protocol, and the log keeps the newest."""
        self._seen.add(raw.key)
        self._unexplained.discard(raw.key)
        if raw.value is not None:
            others = (other.to_bytes(2) + raw.key[2:] for other in _OF_MEMBERS[kind] if other != kind)
            self._unexplained.update(key for key in others if key not in self._seen)

    def reached(self, scan: PartitionScan) -> None:
        since_ms = self._depth.since_ms
        in_time = since_ms is not None and scan.oldest_ms is not None and scan.oldest_ms < since_ms
        if self._depth.to_last_state:
            # After compaction, the log need not hold a state older than the newest one.
            state_known = self._had_state or (self._has_state and (scan.compacted or self._depth.newest))
            in_time = in_time and state_known and not self._unexplained
        self.complete = self.complete or in_time or scan.start <= self._depth.floor

    def log(self, scan: PartitionScan, stopped: str | None, topics: Mapping[str, str]) -> GroupLog:
        """The events, oldest first, and how far back the scan has read; ``stopped`` is why no further."""
        events: list[Event] = []
        opened: list[int] = []
        for record in reversed(self._records):
            if isinstance(record, list):
                events += record
                continue
            raw, end = record
            ending = ending_of(raw, end)
            event = event_of(raw, ending, topics, None if end is None else end.at_ms)
            if event is None:
                continue
            events.append(event)
            if ending is TransactionEnd.OPEN and isinstance(event, CommitWritten):
                opened.append(event.at_ms)
        if self._past is not None:
            self._past.add_commits(events)
        reach = scan.scanned_range(None if self.complete else stopped, min(opened, default=None))
        return GroupLog(tuple(events), reach)
