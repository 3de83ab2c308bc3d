"""All records of groups in ``__consumer_offsets`` back to a moment, as events: the source of histories and rates.

One scan per partition, shared by its groups, limited by time and bytes. It reads *uncommitted*, so that a hanging
transaction hides nothing. Each commit gets its transaction's outcome from the markers after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.offsets_topic.events import TYPES, WITH_TOPIC_IDS, ending_of, event_of, topic_ids
from kgroup.cluster.offsets_topic.record_batches import Marker, RawRecord, key_head
from kgroup.cluster.offsets_topic.records import FOREIGN, RecordType, key_prefix
from kgroup.cluster.offsets_topic.scan import (
    OUT_OF_BYTES,
    OUT_OF_TIME,
    ByteBudget,
    LogPartition,
    Window,
    places_of,
    read_backwards,
)
from kgroup.cluster.topics import LogView, TopicLayout, log_views, names_of_topics
from kgroup.model.group_log import CommitWritten, Event, ScannedRange, TransactionEnd
from kgroup.model.groups import LogRange
from kgroup.support.errors import KgroupError, NotAuthorized
from kgroup.support.units import human_bytes

Progress = Callable[[int, int], None]
"""Called with (offsets read, offsets expected)."""

_STATES = frozenset({RecordType.GROUP_METADATA, RecordType.CONSUMER_GROUP_METADATA, *FOREIGN})
_OF_MEMBERS = (
    RecordType.CONSUMER_GROUP_MEMBER,
    RecordType.TARGET_ASSIGNMENT_MEMBER,
    RecordType.CURRENT_MEMBER_ASSIGNMENT,
)


@dataclass(frozen=True, slots=True)
class GroupLog:
    """The log of one group: its events of all kinds, oldest first, and how far back it was read."""

    events: tuple[Event, ...]
    reach: ScannedRange


@dataclass(frozen=True, slots=True)
class GroupLogs:
    """The logs by group, and why others could not be read; ``forbidden``: for lack of a right on the topic."""

    found: Mapping[str, GroupLog]
    unread: Mapping[str, str]
    forbidden: bool = False


@dataclass(frozen=True, slots=True)
class ReadDepth:
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
    most: ByteBudget,
    progress: Progress | None = None,
    *,
    named: bool = True,
) -> GroupLogs:
    """The logs of the groups, as far as they are read before ``budget`` ends or ``most`` is fetched.

    Without ``named`` topics in assignments are identified by id: for callers that only need commits and epochs.
    """
    if not depths:
        return GroupLogs({}, {})
    if isinstance(layout, KgroupError):
        return _unread(depths, layout, f"{OFFSETS_TOPIC} {layout.message}")
    budget_s = budget.left_s
    places = await places_of(client, layout, depths, budget)
    told = ScanTotals(progress, await _likely(client, layout, places, depths) if progress is not None else 0)
    scans = [_Scan(place, depths, told) for place in places]
    results = await client.gather(scan.run(client, budget, budget_s, most) for scan in scans)
    # Without time left, topics keep their ids: a request after the deadline would cost the connection.
    ids = topic_ids(raw for scan in scans for raw in scan.assignments) if named and not client.deadline.passed else ()
    topics = await names_of_topics(client, ids)
    found: dict[str, GroupLog] = {}
    unread: dict[str, str] = {}
    forbidden = False
    for scan, stopped in zip(scans, results, strict=True):
        if isinstance(stopped, KgroupError):
            what = why_stopped(OUT_OF_TIME, budget_s, most) if budget.passed else stopped.message
            missed = _unread(scan.place.groups, stopped, f"{OFFSETS_TOPIC}:{scan.place.number} {what}")
            unread |= missed.unread
            forbidden |= missed.forbidden
        else:
            found |= scan.logs(topics, stopped)
    return GroupLogs(found, unread, forbidden)


def why_stopped(stopped: str | None, budget_s: float, most: ByteBudget) -> str | None:
    """Why a scan ended, in words: the limit that it reached, or the broker's error; None: it was complete."""
    if stopped is OUT_OF_TIME:
        return f"the {budget_s:.3g} s for it were over"
    if stopped is OUT_OF_BYTES:
        return f"the {human_bytes(most.fetched)} for it were read"
    return stopped


def _unread(groups: Iterable[str], error: KgroupError, why: str) -> GroupLogs:
    return GroupLogs({}, dict.fromkeys(groups, why), isinstance(error, NotAuthorized))


async def _likely(
    client: CoordinatorClient, layout: TopicLayout, places: Iterable[LogPartition], depths: Mapping[str, ReadDepth]
) -> int:
    """Estimate how many offsets will be read."""
    logs = {place: place.log for place in places if isinstance(place.log, LogRange)}
    moments = [depth.since_ms for depth in depths.values()]
    since_ms = None if None in moments else min(moment for moment in moments if moment is not None)
    views: Mapping[tuple[str, int], LogView | KgroupError] = {}
    if since_ms is not None:
        asked = [(OFFSETS_TOPIC, place.number) for place in logs]
        views = await log_views(client, {OFFSETS_TOPIC: layout}, asked, [since_ms])
    likely = 0
    for place, log in logs.items():
        view = views.get((OFFSETS_TOPIC, place.number))
        first = log.start
        if isinstance(view, LogView):
            first = log.end if view.at_times[0] is None else view.at_times[0]
        likely += max(0, log.end - max(first, min(depths[group].floor for group in place.groups)))
    return likely


class ScanTotals:
    """Sums the offsets read by all scans, for progress reports."""

    def __init__(self, progress: Progress | None, total: int = 0) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def expect(self, offsets: int) -> None:
        """Set how many offsets are still to be read."""
        self._total = self._done + offsets

    def add(self, offsets: int) -> None:
        """Add offsets that were read, and report progress."""
        self._done += offsets
        if self._progress is not None:
            self._progress(self._done, max(self._done, self._total))


class _Scan:
    """Scans one partition of the topic, from its end backwards."""

    def __init__(self, place: LogPartition, depths: Mapping[str, ReadDepth], told: ScanTotals) -> None:
        self.place = place
        self.assignments: list[RawRecord] = []
        self._traces = {name: _Trace(depths[name]) for name in place.groups}
        self._by_head = {
            key_prefix(kind, name): (kind, trace) for name, trace in self._traces.items() for kind in TYPES
        }
        self._told = told
        self._ends: dict[int, Marker] = {}
        self._start: int | None = None
        self._whole_from: int | None = None
        self._missing = False
        self._oldest_ms: int | None = None

    async def run(
        self, client: CoordinatorClient, budget: Deadline, budget_s: float, most: ByteBudget
    ) -> str | KgroupError | None:
        """Read the partition. Returns why it ended early; a KgroupError is why nothing was read; None: complete."""
        if isinstance(self.place.log, KgroupError):
            return self.place.log
        floor = max(self.place.log.start, min(trace.depth.floor for trace in self._traces.values()))
        log = LogRange(min(floor, self.place.log.end), self.place.log.end)
        place = LogPartition(self.place.number, self.place.leader, log, self.place.groups)
        try:
            stopped = await read_backwards(client, place, self._by_head, budget, self._visit, most)
        except KgroupError as error:
            if not budget.passed:
                return error if self._start is None else f"{OFFSETS_TOPIC}:{place.number} {error.message}"
            stopped = OUT_OF_TIME
        return why_stopped(stopped, budget_s, most)

    def logs(self, topics: Mapping[str, str], stopped: str | None) -> dict[str, GroupLog]:
        """The log of each group."""
        assert isinstance(self.place.log, LogRange)
        start = self.place.log.end if self._start is None else self._start
        whole_from = start if self._whole_from is None else self._whole_from
        found = {}
        for name, trace in self._traces.items():
            events = trace.events(topics)
            opened = (e.at_ms for e in events if isinstance(e, CommitWritten) and e.ending is TransactionEnd.OPEN)
            reach = ScannedRange(
                start,
                self.place.log.end,
                self._oldest_ms,
                whole_from,
                start <= self.place.log.start,
                None if trace.complete else stopped,
                min(opened, default=None),
            )
            found[name] = GroupLog(events, reach)
        return found

    def _visit(self, window: Window) -> bool:
        head = b""
        for entry in reversed(window.entries):
            if isinstance(entry, Marker):
                self._ends[entry.producer_id] = entry
            else:
                if not head or not entry.key.startswith(head):  # usually the previous record is of the same group
                    head = key_head(entry.key)
                    kind, trace = self._by_head[head]
                trace.records.append((entry, None if entry.producer_id is None else self._ends.get(entry.producer_id)))
                if kind is not RecordType.OFFSET_COMMIT:  # nearly all records are commits: they must cost little
                    if kind in WITH_TOPIC_IDS:
                        self.assignments.append(entry)
                    trace.noted(kind, entry)
        self._start = window.offsets.start
        if window.oldest_ms is not None:
            self._oldest_ms = window.oldest_ms
        if not self._missing:
            self._whole_from = window.whole_from
            self._missing = window.whole_from > window.offsets.start
        for trace in self._traces.values():
            trace.reached(window, self._oldest_ms, compacted=self._missing)
        self._told.add(window.offsets.end - window.offsets.start)
        return not all(trace.complete for trace in self._traces.values())


@dataclass(slots=True)
class _Trace:
    """The records found for one group, newest first; each with the marker that ended its transaction."""

    depth: ReadDepth
    complete: bool = False
    records: list[tuple[RawRecord, Marker | None]] = field(default_factory=list)
    _seen: set[bytes] = field(default_factory=set)
    _unexplained: set[bytes] = field(default_factory=set)
    _has_state: bool = False
    _had_state: bool = False

    def noted(self, kind: RecordType, raw: RawRecord) -> None:
        """Note the next older record of the group that is not a commit."""
        if not self.depth.to_last_state:
            return
        if kind in _STATES:
            self._has_state = True
            self._had_state |= self.depth.since_ms is not None and raw.timestamp_ms < self.depth.since_ms
        elif kind in _OF_MEMBERS and raw.key not in self._seen:
            self._of_member(kind, raw)

    def _of_member(self, kind: RecordType, raw: RawRecord) -> None:
        """Track member records: a present member has one of each of these types, and the log keeps the newest."""
        self._seen.add(raw.key)
        self._unexplained.discard(raw.key)
        if raw.value is not None:
            others = (other.to_bytes(2) + raw.key[2:] for other in _OF_MEMBERS if other is not kind)
            self._unexplained.update(key for key in others if key not in self._seen)

    def reached(self, window: Window, oldest_ms: int | None, *, compacted: bool) -> None:
        """Note that the log has been read back to this window's start."""
        since_ms = self.depth.since_ms
        in_time = since_ms is not None and oldest_ms is not None and oldest_ms < since_ms
        if self.depth.to_last_state:
            # After compaction, the log need not hold a state older than the newest one.
            known = self._had_state or (self._has_state and (compacted or self.depth.newest))
            in_time = in_time and known and not self._unexplained
        self.complete = self.complete or in_time or window.offsets.start <= self.depth.floor

    def events(self, topics: Mapping[str, str]) -> tuple[Event, ...]:
        """The events, oldest first."""
        made = (
            event_of(raw, ending_of(raw, end), topics, None if end is None else end.at_ms)
            for raw, end in reversed(self.records)
        )
        return tuple(event for event in made if event is not None)
