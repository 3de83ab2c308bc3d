"""Waits until groups meet conditions: polls the cluster, reports events, and knows when to stop.

``kgroup wait`` uses it, and ``--wait-empty`` of every verb that changes something.
"""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kgroup.cluster.group_descriptions import TYPES_OFF
from kgroup.cluster.snapshot import Cluster, SnapshotRequest
from kgroup.groups.member_sessions import Liveness, ObservedMembers, SessionBound, evict_text, lines_of_members
from kgroup.groups.selection import Selection, names_of, names_only, unknown_groups
from kgroup.groups.wait_conditions import (
    Condition,
    ConditionResult,
    Empty,
    LagTimeBelow,
    Observation,
)
from kgroup.groups.wait_progress import EventLine, GroupVersion, Hold, line_of, waiting_summary
from kgroup.groups.wait_result import GroupWaitResult, RemainingMember, WaitResult
from kgroup.model.groups import Group, RowError
from kgroup.model.hidden_commits import not_all_shown
from kgroup.model.reporter import Reporter
from kgroup.model.streaming_query import is_query
from kgroup.queries.deliveries import ArchivedMeanwhile
from kgroup.queries.first_unread import FirstUnreadTimes
from kgroup.queries.log_options import warn_of_clocks
from kgroup.queries.poll_loop import LINES_AT_ONCE, PollLoop, PollState
from kgroup.queries.snapshots import STATE_ONLY, batches, describable_groups, snapshots
from kgroup.support.durations import format_duration
from kgroup.support.errors import ExitCode, KgroupError, NotAuthorized, NotFound, Refused, Unreachable
from kgroup.support.units import plural

if TYPE_CHECKING:
    from kgroup.cluster.session_timeouts import Sessions

EMPTY: tuple[Condition, ...] = (Empty(),)
"""The condition of ``--wait-empty``."""
DEFAULT_WITHIN = "5m"

_SESSIONS_EVERY_S = 5.0
_SESSIONS_LOOK_S = 2.0
_GENERATION_BUDGET_S = 0.5


def groups_to_wait_for(
    reporter: Reporter, cluster: Cluster, which: Selection, *, new: bool, queries: bool
) -> tuple[str, ...]:
    """The groups to wait for, fixed from now on, with ``queries`` streaming queries too.

    Raises NotFound for a named group that does not exist.
    """
    wanted = replace(STATE_ONLY, all_types=True)
    try:
        if queries or names_only(which):
            chosen = list(snapshots(reporter, cluster, which, wanted))
        else:
            selected = describable_groups(reporter, cluster, which, all_types=True, queries=False)
            chosen = list(batches(cluster, selected, wanted))
    except NotFound:
        if new:
            return names_of(which)
        raise
    if new:
        return names_of(which)
    groups = [group for snapshot in chosen for group in snapshot.groups]
    names = {group.name: None for group in groups if queries or group.query is None}
    for error in (error for snapshot in chosen for error in snapshot.errors):
        if error.code == NotFound.code and error.group is None:
            listed = cluster.list_groups().groups
            missing = set(names_of(which)) - names.keys()
            raise unknown_groups(sorted(missing), listed, cluster.ref.label)
        if error.code in TYPES_OFF:
            raise error_of_row(error)
        if error.group in names or (not queries and is_query(error.group or "")):
            continue  # the wait reads the groups that were found again
        raise error_of_row(error)
    return tuple(names)


def wait_until(
    reporter: Reporter,
    cluster: Cluster,
    groups: Sequence[str],
    conditions: Sequence[Condition],
    within_s: float,
    hold_s: float = 0.0,
) -> WaitResult:
    """Poll until all conditions have held for every group for ``hold_s``, or ``within_s`` is over.

    Events go to the reporter, one WAIT line each. A cluster that does not answer is polled again. Raises Unreachable if
    the last poll had no answer, and NotAuthorized or AuthenticationFailed at once.
    """
    if not groups:
        return WaitResult((), reached=True, waited_s=0.0, held_s=0.0)
    if any(isinstance(condition, LagTimeBelow) for condition in conditions):
        warn_of_clocks(reporter, cluster)
    return _Wait(reporter, cluster, tuple(groups), tuple(conditions), within_s, hold_s).run()


def describe_members(group: Group, sessions: Sessions) -> tuple[str, ...]:
    """A line for each member, for refusals: label, host, session as one poll shows it; last, the evict command."""
    timeouts, observed = sessions.of(group), ObservedMembers().step(group, 0.0)
    known = {m.member_id: observed.session(m, timeouts.get(m.member_id), 0.0) for m in group.members or ()}
    evict = evict_text(group, known)
    return (*lines_of_members(group, known), *((evict,) if evict else ()))


class _Wait(PollLoop[WaitResult]):
    def __init__(
        self,
        reporter: Reporter,
        cluster: Cluster,
        names: tuple[str, ...],
        conditions: tuple[Condition, ...],
        within_s: float,
        hold_s: float,
    ) -> None:
        super().__init__(reporter, cluster, within_s, time.sleep)
        self._names = names
        self._conditions = conditions
        self._hold = Hold(hold_s)
        self._reads_lag = any(condition.reads_lag for condition in conditions)
        self._reads_ages = any(isinstance(condition, LagTimeBelow) for condition in conditions)
        self._about_members = any(condition.about_members for condition in conditions)
        self._observations: tuple[Observation, ...] = ()
        self._results: dict[str, tuple[ConditionResult, ...]] = {}
        self._observed_members: dict[str, ObservedMembers] = {}
        self._timeouts_ms: dict[str, int] = {}
        self._timeouts_read_s: float | None = None
        self._first_unread = FirstUnreadTimes()
        self._archived = ArchivedMeanwhile()
        self._noted: set[str] = set()
        self._needs_generations = hold_s > 0 and self._about_members
        self._has_generations = False

    def _all_hold(self) -> bool:
        return bool(self._results) and all(j.holds for results in self._results.values() for j in results)

    def report(self, now_s: float, failure: KgroupError | None) -> PollState:
        holding = failure is None and self._all_hold()
        versions = (
            [GroupVersion.of(observation.group) for observation in self._observations] if self._about_members else []
        )
        self._hold = self._hold.step(
            now_s, holding and (self._has_generations or not self._needs_generations), versions
        )
        self._report_changes(now_s, failure)
        hold_began = self._hold.since_s is not None
        return PollState(
            failure is None and self._hold.reached(now_s),
            holding,
            self._hold.left_s(now_s) if hold_began else math.inf,
            soon=holding and not hold_began,  # the hold begins with a poll that also reads generations
        )

    def poll(self) -> KgroupError | None:
        # During a hold the generation shows what happened between two polls; before a hold it is not needed.
        self._has_generations = self._needs_generations and self._all_hold()
        request = SnapshotRequest(
            offsets=self._reads_lag,
            logs=self._reads_lag,
            generation_budget_s=_GENERATION_BUDGET_S if self._has_generations else 0,
            all_types=True,
        )
        try:
            with self.in_time():
                snapshot = self.cluster.describe(self._names, request)
                groups = {group.name: group for group in snapshot.groups}
                ages = self._first_unread.read(self.cluster, snapshot.groups) if self._reads_ages else {}
                now_ms = self.cluster.now_ms()
        except Unreachable as error:
            return error
        now_s = time.monotonic()
        observations = tuple(Observation(name, groups.get(name), now_ms, ages.get(name, {})) for name in self._names)
        results = {
            observation.name: tuple(c.judge(observation) for c in self._conditions) for observation in observations
        }
        for observation in observations:
            if fault := _fault(observation, results[observation.name], snapshot.errors):
                if fault.exit_code is ExitCode.NOT_AUTHORIZED:
                    raise fault
                return fault
        for note in snapshot.notes:  # hidden commits, and generations that a hold cannot read
            if note not in self._noted:
                self._noted.add(note)
                self.reporter.note(note)
        if self._reads_lag:
            self._archived.read(self.cluster, snapshot.groups, now_s)
        self._observations, self._results = observations, results
        for observation in observations:
            self._observed_members[observation.name] = self._observed_members.get(
                observation.name, ObservedMembers()
            ).step(observation.group, now_s)
            self.note(observation.name, now_s, done=all(result.holds for result in results[observation.name]))
        return None

    def _sessions_of(self, observation: Observation, now_s: float) -> dict[str, SessionBound]:
        observed = self._observed_members.get(observation.name, ObservedMembers())
        members = observation.group.members if observation.group else None
        return {m.member_id: observed.session(m, self._timeouts_ms.get(m.member_id), now_s) for m in members or ()}

    def _read_timeouts(self, observations: Sequence[Observation], *, now_s: float, at_once: bool = False) -> None:
        """Read the session timeouts of members that will be named, if not known yet."""
        groups = [
            observation.group
            for observation in observations
            if observation.group and any(m.member_id not in self._timeouts_ms for m in observation.group.members or ())
        ]
        last_read_s = self._timeouts_read_s
        if not groups or (not at_once and last_read_s is not None and now_s - last_read_s < _SESSIONS_EVERY_S):
            return
        self._timeouts_read_s = now_s
        try:
            with self.cluster.time_limit(_SESSIONS_LOOK_S):
                sessions = self.cluster.session_timeouts(groups)
        except KgroupError:
            return  # the next poll shows whether the cluster is unreachable
        self._timeouts_ms |= {member_id: timeout for (_, member_id), timeout in sessions.timeouts_ms.items()}

    def _report_changes(self, now_s: float, failure: KgroupError | None) -> None:
        """Report what changed in WAIT lines; lines with only new counts are repeated every ten seconds."""
        if failure is not None:
            self.events.no_answer("WAIT", failure.message, now_s)
            return
        self.events.answered()
        waiting = [s for s in self._observations if not all(j.holds for j in self._results[s.name])]
        if len(waiting) > LINES_AT_ONCE:
            self._line(
                "many", waiting_summary([observation.name for observation in waiting], len(self._observations)), now_s
            )
            return
        self.events.reset("many")
        leaving = [s for s in waiting if s.group and any(c.waits_for_leaving(s) for c in self._conditions)]
        self._read_timeouts(leaving, now_s=now_s)
        if self._hold.broken:
            self._line("broken", EventLine(now_s, f"a member joined in between: {self._hold_text()} restarts"), now_s)
        many = len(self._observations) > LINES_AT_ONCE
        for observation in self._observations if not many else waiting:
            line = line_of(
                observation, self._results[observation.name], self._sessions_of(observation, now_s), self._hold.for_s
            )
            self._line(observation.name, line, now_s)
        if many and not waiting:
            self._line(
                "all", EventLine("so", f"all {plural(len(self._observations), 'group')} meet the conditions"), now_s
            )

    def _hold_text(self) -> str:
        return f"the hold of {format_duration(self._hold.for_s)}"

    def _line(self, subject: Hashable, line: EventLine, now_s: float) -> None:
        self.events.report("WAIT", subject, line, now_s)

    def result(self, now_s: float, *, reached: bool) -> WaitResult:
        leaving = [
            s for s in self._observations if not reached and any(c.waits_for_leaving(s) for c in self._conditions)
        ]
        self._read_timeouts(leaving, now_s=now_s, at_once=True)
        if self._reads_lag:
            self._archived.read(self.cluster, (s.group for s in self._observations if s.group), math.inf)
        groups = []
        for observation in self._observations:
            remaining: tuple[RemainingMember, ...] = ()
            if observation in leaving and observation.group:
                known = self._sessions_of(observation, now_s)
                unknown = SessionBound(Liveness.UNKNOWN)
                remaining = tuple(
                    RemainingMember(m, known.get(m.member_id, unknown)) for m in observation.group.members or ()
                )
            until_s = self.waited_s(now_s, observation.name)
            groups.append(
                GroupWaitResult(
                    observation.name,
                    observation.group,
                    self._results[observation.name],
                    until_s,
                    remaining,
                    self._archived.count(observation.name),
                )
            )
        held_s = 0.0 if self._hold.since_s is None else now_s - self._hold.since_s
        return WaitResult(tuple(groups), reached, self.waited_s(now_s), held_s)


def _fault(
    observation: Observation, results: Sequence[ConditionResult], errors: Sequence[RowError]
) -> KgroupError | None:
    """Why the poll is not enough to judge the group; None if it is, or if the group does not exist."""
    rows = [row for row in errors if row.group == observation.name]
    final = (ExitCode.NOT_AUTHORIZED, ExitCode.UNREACHABLE)
    if observation.group is None:
        rows = [row for row in rows if row.topic is None and row.code != NotFound.code]
    elif any(result.condition.reads_lag for result in results):
        # Without hidden commits or an unreadable topic the lag would be too small. A deleted topic is a valid answer.
        if hidden := not_all_shown(observation.name, observation.group.hidden_commits):
            return hidden
        rows = [row for row in rows if row.topic is None or row.exit_code in final]
    elif all(result.known for result in results):
        return None
    return error_of_row(rows[0]) if rows else None


def error_of_row(row: RowError) -> KgroupError:
    """A row's error as the error of the whole command: waiting for all groups needs every one of them."""
    message = f"{row.subject}: {row.message}" if row.subject else row.message
    if row.exit_code is ExitCode.NOT_AUTHORIZED:
        return NotAuthorized(message, code=row.code, hint=row.hint)
    if row.exit_code is ExitCode.REFUSED:
        return Refused(message, code=row.code, hint=row.hint)
    kind = Unreachable if row.exit_code is ExitCode.UNREACHABLE else KgroupError
    return kind(message, code=row.code, hint=row.hint)
