"""The history of a group: what its log shows of a span of time, its totals, and how complete it is. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from statistics import median

import msgspec
from msgspec.structs import replace

from kgroup.groups.history.crash_loops import crash_loops, with_crash_loops
from kgroup.groups.history.documents import (
    GroupHistoryDocument,
    HistoryScan,
    change_document,
    commits_document,
    signature_document,
    step_document,
)
from kgroup.groups.history.logged_changes import LoggedChange, logged_changes
from kgroup.groups.history.offset_jumps import CommitReport, OffsetJump, commits_of
from kgroup.groups.history.own_changes import OwnChanges
from kgroup.groups.history.runs import Run, runs_of
from kgroup.groups.history.signatures import find_signatures
from kgroup.groups.history.slow_polls import SlowPolls, slow_polls
from kgroup.groups.passed_over import PassedOver
from kgroup.groups.timeline.steps import (
    DEPARTURES,
    Cause,
    CauseCount,
    CrashLoop,
    HistoryStep,
    HistoryTotals,
    MemberCounts,
    Signature,
    StepKind,
)
from kgroup.groups.timeline.track import TrackedGroup, track_group
from kgroup.model.group_log import CommitWritten, Event, RebalanceProtocol, ScannedRange, Unreadable
from kgroup.model.groups import REBALANCING
from kgroup.support.instants import rfc3339


class HistoryQuery(msgspec.Struct, frozen=True):
    """The wanted part of a history, as of ``now_ms``."""

    since_ms: int
    until_ms: int
    now_ms: int
    session_ms: int | None = None
    """The session timeout that the group or the broker has set for members, None if unknown."""
    state: str | None = None
    """The group's state from its coordinator: no record shows a rebalance that is under way."""
    commits: bool = False
    """Whether the jumps of committed offsets are shown."""
    jumps: bool = True
    """Whether jumps are looked for; if neither is asked for, only crash loops examine commits."""
    includes: Callable[[str, int], bool] = lambda topic, partition: True
    """The partitions (topic, number) whose jumps are looked for."""
    passed: tuple[PassedOver, ...] = ()
    """The leaps from below the log starts, of any client."""
    own: OwnChanges = OwnChanges()
    closed: frozenset[str] = frozenset()
    """The catch-ups that are known to be finished."""


class GroupHistory(msgspec.Struct, frozen=True):
    group: str
    span: HistoryQuery
    reach: ScannedRange
    before: HistoryStep | None
    """The step that was current at the start of the span, None if it is not in the log."""
    steps: tuple[HistoryStep, ...]
    """Those of the span, oldest first."""
    totals: HistoryTotals
    over: bool | None
    """Whether the rebalances have ended, None if there were none."""
    signatures: tuple[Signature, ...]
    commits: CommitReport | None
    """The jumps and what was left out; None if not asked for."""
    unreadable: int
    """Records of the group that could not be decoded."""
    changes: tuple[LoggedChange, ...] = ()
    """Those of the span, oldest first; of share and streams groups alone."""
    jumps: tuple[OffsetJump, ...] = ()
    suspects: tuple[CrashLoop, ...] = ()
    """Crash loops if their records were unread all the time."""
    crash_loops: tuple[CrashLoop, ...] = ()
    """Those for which ``confirmed`` was called."""
    runs: tuple[Run, ...] = ()
    """Those of the whole log that was read, also from before the span."""
    slow_polls: SlowPolls | None = None

    def confirmed(self, loops: Sequence[CrashLoop]) -> GroupHistory:
        """The history with these crash loops, among its signatures too."""
        return replace(self, crash_loops=tuple(loops), signatures=with_crash_loops(self.signatures, loops, self.steps))

    @property
    def protocol(self) -> RebalanceProtocol | None:
        """That of the newest step; None if the log has none."""
        newest = self.steps[-1] if self.steps else self.before
        return None if newest is None else newest.protocol

    @property
    def rebalancing(self) -> bool:
        """Whether a rebalance is under way; the log does not have it, or not all of it."""
        return self.span.state in REBALANCING

    @property
    def covered(self) -> bool:
        """Whether the log was read back to the start of the span, or completely."""
        if self.reach.complete:
            return True
        oldest_ms = self.reach.oldest_ms
        return oldest_ms is not None and oldest_ms <= self.span.since_ms

    @property
    def observed_ms(self) -> int:
        """The length of the part of the span that the log has: shorter than the span if the log is younger."""
        oldest_ms = self.reach.oldest_ms
        since_ms = self.span.since_ms if oldest_ms is None else max(self.span.since_ms, oldest_ms)
        return max(0, self.span.until_ms - since_ms)

    @property
    def whole(self) -> bool:
        """Whether no record of the span can be missing: it was read to its start, and compaction has not reached it."""
        whole_from = self.reach.whole_from
        first = self.before.log_offset if self.before is not None else self.reach.start
        return self.covered and whole_from is not None and whole_from <= first

    def document(self) -> GroupHistoryDocument:
        query, reach = self.span, self.reach
        return GroupHistoryDocument(
            group=self.group,
            since_at=rfc3339(query.since_ms),
            until_at=rfc3339(query.until_ms),
            state=query.state,
            over=self.over,
            totals=self.totals,
            signatures=tuple(map(signature_document, self.signatures)),
            step_before=None if self.before is None else step_document(self.before),
            jump_count=len(self.jumps),
            steps=tuple(map(step_document, self.steps)),
            changes=tuple(map(change_document, self.changes)),
            commits=None if self.commits is None else commits_document(self.group, self.commits, query.closed),
            scan=HistoryScan(
                complete=self.whole,
                oldest_at=rfc3339(reach.oldest_ms),
                stopped_reason=reach.stopped,
                start_offset=reach.start,
                end_offset=reach.end,
                complete_from_offset=reach.whole_from,
                to_log_start=reach.to_log_start,
                open_transaction_began_at=rfc3339(reach.open_since_ms),
                covers_span=self.covered,
                unreadable_record_count=self.unreadable,
            ),
        )


def group_history(group: str, events: Sequence[Event], reach: ScannedRange, query: HistoryQuery) -> GroupHistory:
    """The history from these events, which are in the log's order; it never raises, whatever they contain.

    ``events`` include at least the group's last record before the span: the first step is compared with it.
    """
    tracked = track_group(events, reach, query.session_ms, commits=query.commits or query.jumps)
    inside = tuple(step for step in tracked.steps if query.since_ms <= step.at_ms <= query.until_ms)
    earlier = [step for step in tracked.steps if step.at_ms < query.since_ms]
    totals = totals_of(inside, query.until_ms - query.since_ms)
    commits = _commits(group, tracked, query, reach) if query.commits or query.jumps else None
    written = [event for event in events if isinstance(event, CommitWritten)]
    recognised = find_signatures(tracked.steps, tracked.evidence)
    return GroupHistory(
        group=group,
        span=query,
        reach=reach,
        before=earlier[-1] if earlier else None,
        steps=inside,
        totals=totals,
        over=False if query.state in REBALANCING else is_over(inside, totals.median_gap_ms, query.now_ms),
        signatures=tuple(signature for signature in recognised if query.since_ms <= signature.to_ms <= query.until_ms),
        commits=commits if query.commits else None,
        changes=tuple(one for one in logged_changes(events) if _is_shown(one, query)),
        jumps=() if commits is None else commits.jumps,
        unreadable=sum(isinstance(event, Unreadable) for event in events),
        suspects=crash_loops(tracked.steps, written, query.now_ms),
        runs=runs_of(tracked.steps),
        slow_polls=slow_polls(tracked.steps, written, query.now_ms),
    )


def _commits(group: str, tracked: TrackedGroup, query: HistoryQuery, reach: ScannedRange) -> CommitReport:
    """The commits of the span. Before its first record of members a group was Empty if the log has all its records.

    So was a group that is Empty and has no such record in what was read.
    """
    commits = [one for one in tracked.commits if query.includes(one.commit.topic, one.commit.partition)]
    records = (*(step.log_offset for step in tracked.steps), *(one.commit.log_offset for one in tracked.commits))
    begins_empty = reach.complete or (query.state == "Empty" and not tracked.steps)
    return commits_of(
        commits,
        tracked.steps,
        query.since_ms,
        query.until_ms,
        change=partial(query.own.of, group),
        begins_empty=begins_empty,
        first_offset=min(records, default=None) if reach.complete else None,
        passed=query.passed,
    )


def _is_shown(change: LoggedChange, query: HistoryQuery) -> bool:
    places = [(place.topic, number) for place in change.places for number in place.partitions]
    wanted = not places or any(query.includes(*place) for place in places)
    return wanted and query.since_ms <= change.at_ms <= query.until_ms


_HOUR_MS = 3_600_000
_PATIENCE_MS = 60_000
_LONGEST_PATIENCE_MS = 300_000


def totals_of(steps: Sequence[HistoryStep], span_ms: int) -> HistoryTotals:
    """The totals of these steps, which happened within ``span_ms``; 41 rebalances in 30 min are 82.0 per hour."""
    rebalances = [step for step in steps if step.kind is StepKind.REBALANCE]
    count = sum(step.rebalances for step in steps)
    took = [step.took_ms for step in rebalances if step.took_ms is not None]
    quiet = [step.idle_ms for step in rebalances if step.idle_ms is not None]
    gaps = [later.at_ms - earlier.at_ms for earlier, later in pairwise(rebalances)]
    moved = [step.moved for step in rebalances if step.moved is not None]
    return HistoryTotals(
        rebalances=count,
        never_completed=sum(step.never_completed or 0 for step in steps),
        overtaken=sum(step.completed is False for step in steps),
        per_hour=count * _HOUR_MS / span_ms if span_ms > 0 else None,
        longest_took_ms=max(took, default=None),
        longest_quiet_ms=max(quiet, default=None),
        quiet_ms=sum(quiet) if quiet else None,
        moved=sum(moved),
        moved_needlessly=sum(step.moved_needlessly or 0 for step in rebalances),
        moved_unknown=len(rebalances) - len(moved),
        returned=sum(len(step.returned) for step in steps),
        median_gap_ms=round(median(gaps)) if len(gaps) > 1 else None,
        last_rebalance_at=rfc3339(last_rebalance_ms(steps)),
        by_cause=_by_cause(steps),
        by_member=_by_member(steps),
    )


def last_rebalance_ms(steps: Sequence[HistoryStep]) -> int | None:
    return next((step.at_ms for step in reversed(steps) if step.kind is StepKind.REBALANCE), None)


def _by_cause(steps: Sequence[HistoryStep]) -> tuple[CauseCount, ...]:
    """The number of steps with each cause, highest first; a step may have several causes."""
    counts = Counter(cause for step in steps for cause in step.causes)
    order = list(Cause)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], order.index(item[0])))
    return tuple(CauseCount(cause, count) for cause, count in ranked)


def _by_member(steps: Sequence[HistoryStep]) -> tuple[MemberCounts, ...]:
    joined, went, caused = Counter[str](), Counter[str](), Counter[str]()
    for step in steps:
        affected = set[str]()
        for reason in step.reasons:
            if reason.cause in (Cause.JOIN, Cause.STATIC_REPLACED):
                joined.update(reason.members)
            elif reason.cause in DEPARTURES:
                went.update(reason.members)
            elif reason.cause is not Cause.SUBSCRIPTION:
                continue
            affected.update(reason.members)
        if step.kind is StepKind.REBALANCE:
            caused.update(affected)
    names = sorted(joined.keys() | went.keys() | caused.keys(), key=lambda name: (-caused[name], name))
    return tuple(MemberCounts(name, joined[name], went[name], caused[name]) for name in names)


def is_over(steps: Sequence[HistoryStep], median_gap_ms: int | None, now_ms: int) -> bool | None:
    """Whether the rebalances have ended; None if there were none.

    That is three median gaps after the last one, within 1 to 5 minutes: one rebalance per hour is no storm.
    """
    last_ms = last_rebalance_ms(steps)
    if last_ms is None:
        return None
    patience_ms = min(_LONGEST_PATIENCE_MS, max(_PATIENCE_MS, 3 * (median_gap_ms or 0)))
    return now_ms - last_ms > patience_ms
