"""Reads the histories of groups: once, and then the new records for ``--follow``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.offsets_topic.group_log import GroupLog
from kgroup.cluster.offsets_topic.scan import ScanProgress
from kgroup.cluster.session_timeouts import consumer_sessions
from kgroup.cluster.snapshot import Cluster, SnapshotRequest
from kgroup.cluster.topics import LogView
from kgroup.groups.history.own_changes import OwnChanges
from kgroup.groups.history.summary import GroupHistory, HistoryQuery, group_history
from kgroup.groups.lag.from_log import commits_by_tool
from kgroup.groups.passed_over import PassedOver, leaps, logged_commits, passed_over
from kgroup.groups.selection import Selection, check_expected, names_of, names_only
from kgroup.groups.timeline.steps import CrashLoop
from kgroup.model.group_log import (
    CommitWritten,
    EpochWritten,
    Event,
    GenerationWritten,
    GroupDeleted,
    RebalanceProtocol,
    ScannedRange,
)
from kgroup.model.groups import ListedGroup, RowError
from kgroup.model.kafka_tools import acl_hint
from kgroup.model.reporter import Reporter
from kgroup.model.topic_partition import TopicPartition
from kgroup.queries.snapshots import STATE_ONLY, ListedGroups, batches, choose_groups, exclude_foreign, refuse_foreign
from kgroup.support.errors import KgroupError, NotAuthorized, NotFound, Unreachable

_POSITIONS = SnapshotRequest(generation_budget_s=0, hidden_budget_s=0)
MOST_BYTES = 1024**3
"""How much of ``__consumer_offsets`` is fetched for one history at most, whatever the time limit is."""

_KEPT_MS = 600_000
"""How long before the period ``--follow`` keeps commits, in ms: they show how the members commit."""


class HistoryRequest(msgspec.Struct, frozen=True):
    """The requested part of the histories; ``commits`` and the rest are as in ``HistoryQuery``."""

    since_ms: int
    until_ms: int | None
    """None: now."""
    budget_s: float
    moves_on_ms: int | None = None
    """The length of a period that ends now; None if it begins at a fixed time."""
    commits: bool = False
    includes: Callable[[str, int], bool] = lambda topic, partition: True
    own: OwnChanges = OwnChanges()
    closed: frozenset[str] = frozenset()


_WITHOUT_DESCRIPTION = (RebalanceProtocol.SHARE, RebalanceProtocol.STREAMS)
"""The types of groups that have a history, and a state only in the listing of groups."""

_DAY_MS = 86_400_000
_JUMPS_BUDGET_S = 10.0
_LOG_STARTS_BUDGET_S = 1.0


def read_states(
    reporter: Reporter, cluster: Cluster, selection: Selection
) -> tuple[dict[str, str | None], tuple[RowError, ...]]:
    """The state of each chosen group; None if the coordinator does not know the name, but the log may."""
    if names_only(selection) and not selection.topic:
        names = names_of(selection)
        states, errors = _states_of(cluster, names)
        check_expected(selection, len(names))
        return states, errors
    listed = choose_groups(reporter, cluster, selection)
    foreign = _foreign(listed.groups)
    if selection.topic:  # which topics they use is not known: one that is named is meant
        foreign = [group for group in _foreign(cluster.list_groups().groups) if group.name in names_of(selection)]
    others = [group for group in listed.groups if group.type not in _WITHOUT_DESCRIPTION]
    left_out = exclude_foreign(reporter, selection, others, verb="history")
    described = ListedGroups(tuple(group for group in others if group.name not in left_out), listed.errors)
    all_states: dict[str, str | None] = {group.name: group.state for group in foreign}
    errors = ()
    for snapshot in batches(cluster, described, STATE_ONLY):
        all_states |= {group.name: group.state for group in snapshot.groups}
        errors += snapshot.errors
        for note in snapshot.notes:
            reporter.note(note)
    return dict(sorted(all_states.items())), errors


def _states_of(cluster: Cluster, names: Sequence[str]) -> tuple[dict[str, str | None], tuple[RowError, ...]]:
    """The state of each group, None if no coordinator knows it; without those that are in the errors."""
    snapshot = cluster.describe(names, STATE_ONLY)
    missing = [error.group for error in snapshot.errors if error.group and error.code == NotFound.code]
    states: dict[str, str | None] = dict.fromkeys(missing)
    if missing:
        foreign = _foreign(cluster.list_groups().groups)
        states |= {group.name: group.state for group in foreign if group.name in states}
    states |= {group.name: group.state for group in snapshot.groups}
    errors = tuple(error for error in snapshot.errors if error.code != NotFound.code)
    return {name: states[name] for name in names if name in states}, errors


def _foreign(listed: Sequence[ListedGroup]) -> list[ListedGroup]:
    return [group for group in listed if group.type in _WITHOUT_DESCRIPTION]


class Histories:
    """The logs of groups and their histories. ``states`` are from the coordinators; None: there is no such group."""

    def __init__(self, cluster: Cluster, request: HistoryRequest, states: Mapping[str, str | None]) -> None:
        self._cluster = cluster
        self._request = request
        self._states = dict(states)
        self._events: dict[str, tuple[Event, ...]] = {}
        self._reach: dict[str, ScannedRange] = {}
        self._log_starts: dict[tuple[str, int], int] = {}
        """By group and log offset of a leap."""
        self._sessions_ms: dict[str, int] = {}

    def read(self, progress: ScanProgress | None = None) -> tuple[RowError, ...]:
        """Read the logs; returns the groups that could not be read."""
        request = self._request
        logs = self._cluster.group_logs(
            dict.fromkeys(self._states, request.since_ms),
            request.budget_s,
            max_bytes=MOST_BYTES,
            to_last_state=True,
            progress=progress,
        )
        for group, log in logs.logs.items():
            self._events[group], self._reach[group] = log.events, log.reach
        self._read_sessions()
        return tuple(
            RowError.of(_unread(why, forbidden=logs.forbidden), group=group) for group, why in logs.unread.items()
        )

    def read_on(self) -> None:
        """Read the records since the last read, and the current states. Raises KgroupError if that fails."""
        request = self._request
        floors = {group: GroupLog(self._events[group], reach).next_offset for group, reach in self._reach.items()}
        logs = self._cluster.group_logs(dict.fromkeys(floors), request.budget_s, max_bytes=MOST_BYTES, floors=floors)
        for why in logs.unread.values():
            raise _unread(why, forbidden=logs.forbidden)
        for group, log in logs.logs.items():
            if log.reach.stopped is None:  # otherwise the next call reads it
                known = (event for event in self._events[group] if self._is_kept(event, floors[group]))
                self._events[group] = (*known, *log.events)
                self._reach[group] = _longer(self._reach[group], log.reach, floors[group])
        self._read_sessions()
        self._states |= _states_of(self._cluster, list(self._states))[0]

    def _read_sessions(self) -> None:
        """Read the session timeouts of the groups with epochs, as far as they are not known."""
        by_protocol: dict[RebalanceProtocol, list[str]] = {}
        for group in self._events.keys() - self._sessions_ms.keys():
            epoch = next((event for event in reversed(self._events[group]) if isinstance(event, EpochWritten)), None)
            if epoch is not None:
                by_protocol.setdefault(epoch.protocol, []).append(group)
        for protocol, groups in by_protocol.items():
            self._sessions_ms |= self._cluster.ask(consumer_sessions, groups, f"{protocol}.session.timeout.ms")

    def _is_kept(self, event: Event, floor: int) -> bool:
        """Whether the event is kept. Commits before the period are dropped; those from the floor on are read again."""
        return event.log_offset < floor and not (
            isinstance(event, CommitWritten) and event.at_ms < self._since_ms(self._cluster.now_ms()) - _KEPT_MS
        )

    def has_nothing(self, group: str) -> bool:
        """Whether the log was read and has no record of the group."""
        return self._events.get(group) == ()

    def list_if_unknown(self, verb: str) -> Sequence[ListedGroup]:
        """All groups, if the type of one here is unknown. Raises Refused for a group of an unknown type."""
        listed = self._cluster.list_groups().groups if (unnamed := self._without_type()) else ()
        refuse_foreign([group for group in listed if group.name in unnamed], verb)
        return listed

    def _without_type(self) -> frozenset[str]:
        """The groups that no coordinator knows, and whose type is not in the part of the log that was read."""
        kinds = (GenerationWritten, EpochWritten, GroupDeleted)
        return frozenset(
            group
            for group, events in self._events.items()
            if self._states[group] is None and not any(isinstance(event, kinds) for event in events)
        )

    def stopped(self, group: str) -> str | None:
        """Why the log was not read as far back as requested, None if it was; for a group that was read."""
        return self._reach[group].stopped

    def histories(self) -> tuple[GroupHistory, ...]:
        return tuple(self._history(group) for group in self._states if group in self._events)

    def _since_ms(self, now_ms: int) -> int:
        request = self._request
        return request.since_ms if request.moves_on_ms is None else now_ms - request.moves_on_ms

    def _history(self, group: str) -> GroupHistory:
        request = self._request
        now_ms = self._cluster.now_ms()
        # Records written during the read belong to it, whatever the brokers' clocks show.
        last_ms = max([now_ms, *(event.at_ms for event in self._events[group][-1:])])
        query = HistoryQuery(
            since_ms=self._since_ms(now_ms),
            until_ms=last_ms if request.until_ms is None else request.until_ms,
            now_ms=now_ms,
            session_ms=self._sessions_ms.get(group),
            state=self._states[group],
            commits=request.commits,
            includes=request.includes,
            passed=self._passed_over(group),
            own=request.own,
            closed=request.closed,
        )
        history = group_history(group, self._events[group], self._reach[group], query)
        return history.confirmed(_unread_loops(self._cluster, group, history.suspects)) if history.suspects else history

    def _passed_over(self, group: str) -> tuple[PassedOver, ...]:
        """The leaps from below the log starts; most groups have no leap, and need no request.

        The log start is read once for each: it may have moved since.
        """
        events = self._events[group]
        by_tool = commits_by_tool(events, self._reach[group], is_empty=self._states[group] == "Empty")
        far = leaps(logged_commits(events, by_tool), events)
        if unknown := [leap for leap in far if (group, leap.log_offset) not in self._log_starts]:
            starts = _log_starts(self._cluster, {leap.tp for leap in unknown})
            self._log_starts |= {(group, leap.log_offset): starts[leap.tp] for leap in unknown if leap.tp in starts}
        known = ((leap.tp, self._log_starts.get((group, leap.log_offset))) for leap in far)
        return passed_over(far, {tp: start for tp, start in known if start is not None})


def _log_starts(cluster: Cluster, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """The log starts, as far as they can be read in a second."""
    try:
        with cluster.time_limit(_LOG_STARTS_BUDGET_S):
            views = cluster.log_views(cluster.layouts({tp.topic for tp in places}), places)
    except KgroupError:
        return {}
    return {tp: view.start for tp, view in views.items() if isinstance(view, LogView)}


def _unread_loops(cluster: Cluster, group: str, suspects: Sequence[CrashLoop]) -> tuple[CrashLoop, ...]:
    """Those whose record was unread while the owners went, as far as the logs of the partitions can be read."""
    try:
        unread = [p for each in cluster.describe([group], _POSITIONS).groups for p in each.partitions if p.lag]
        moments_ms = tuple(dict.fromkeys(loop.least_since_ms for loop in suspects))
        places = [loop.tp for loop in suspects]
        views = cluster.log_views(cluster.layouts({tp.topic for tp in places}), places, moments_ms)
    except KgroupError:
        return ()
    committed = {p.tp: p.commit.offset for p in unread if p.commit is not None}
    loops = []
    for loop in suspects:
        view, offset = views.get(loop.tp), committed.get(loop.tp)
        if offset is None or not loop.is_at(offset) or not isinstance(view, LogView):
            continue
        younger = view.at_times[moments_ms.index(loop.least_since_ms)]
        if offset < (view.end if younger is None else younger):
            loops.append(replace(loop, offset=offset))
    return tuple(loops)


def read_jumps(cluster: Cluster, group: str, own: OwnChanges) -> GroupHistory | None:
    """The history of a group in the last day, with commits, read for ten seconds at most.

    None if there is no such group, or its history cannot be read.
    """
    try:
        request = HistoryRequest(cluster.now_ms() - _DAY_MS, None, _JUMPS_BUDGET_S, commits=True, own=own)
        states = {each.name: each.state for each in cluster.describe([group], STATE_ONLY).groups}
        histories = Histories(cluster, request, {group: states.get(group)})
        if histories.read() or histories.has_nothing(group):
            return None
    except KgroupError:
        return None
    return next(iter(histories.histories()), None)


def _longer(reach: ScannedRange, more: ScannedRange, floor: int) -> ScannedRange:
    """The scanned range, extended from ``floor``; compaction may have removed records in between."""
    whole = more.whole_from is not None and more.whole_from <= floor
    return replace(
        reach,
        end=more.end,
        open_since_ms=more.open_since_ms,
        whole_from=reach.whole_from if whole else more.whole_from,
    )


def _unread(why: str, *, forbidden: bool) -> KgroupError:
    if forbidden:
        return NotAuthorized(f"its history is not known: {why}", hint=acl_hint("Read", "topic", OFFSETS_TOPIC))
    return Unreachable(f"its history is not known: {why}")
