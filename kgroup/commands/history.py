"""``kgroup history``: when and why a group rebalanced, who caused it, what moved; its commits over time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from msgspec.structs import replace

from kgroup.catchup.service.pending import begin_reading_cached_ledger
from kgroup.changes.own_changes import own_changes
from kgroup.cli.panels import what_option, which_option
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.history.follow import FollowCursor
from kgroup.groups.history.summary import GroupHistory
from kgroup.groups.reset_targets import ANY_TIME, TopicChoice, is_ago, parse_moment_or_ago, parse_topics, resolved_text
from kgroup.groups.selection import (
    Selection,
    check_selection,
    names_of,
    unknown_groups,
)
from kgroup.model.group_log import LOG_INCOMPLETE
from kgroup.model.groups import ListedGroup, RowError
from kgroup.model.outcome import Outcomes
from kgroup.model.output_format import Format
from kgroup.model.reporter import Reporter
from kgroup.output.pages.history import follow_outcome, outcome, quiet_outcome
from kgroup.queries.history import Histories, HistoryRequest, read_states
from kgroup.queries.log_options import brokers_now, scan_progress
from kgroup.settings.invocation import Invocation
from kgroup.support.durations import parse_duration
from kgroup.support.errors import ExitCode, KgroupError, NotAuthorized, UsageError
from kgroup.support.stdout_reader import pause

_FOLLOWED = (Format.TABLE, Format.WIDE, Format.JSON, Format.CSV)
_FOLLOW_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class HistoryFilter(Selection):
    topic: Annotated[
        list[str] | None,
        which_option(
            "--topic",
            "-t",
            metavar="TOPIC[:P,...]",
            help="Only groups that use this topic; with --commits only its partitions: orders:7.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class HistorySpan:
    """Which span of time, and how long the log may be read for it."""

    since: Annotated[
        str,
        what_option("--since", metavar="DURATION|TIME", help="Start of the period: 30m ago or 03:05Z (default: 1h)."),
    ] = "1h"
    until: Annotated[
        str | None, what_option("--until", metavar="DURATION|TIME", help="End of the period (default: now).")
    ] = None
    scan_time: Annotated[
        str,
        what_option(
            "--scan-time", metavar="DURATION", help="Time limit for scanning __consumer_offsets (default: 10s)."
        ),
    ] = "10s"

    def wish(self, topics: Sequence[TopicChoice], now: datetime = ANY_TIME, *, commits: bool) -> HistoryRequest:
        """What to read if it is ``now``. Raises UsageError."""
        since_ms = parse_moment_or_ago(self.since, now, "--since")
        until_ms = None if self.until is None else parse_moment_or_ago(self.until, now, "--until")
        last_ms = round(now.timestamp() * 1000) if until_ms is None else until_ms
        if last_ms > now.timestamp() * 1000 + 1:
            raise UsageError(f"--until {self.until}: in the future")
        ago, ended_ago = is_ago(self.since), self.until is None or is_ago(self.until)
        if since_ms >= last_ms and (now is not ANY_TIME or ago is ended_ago):
            raise UsageError("--since is not before --until", hint="--since 2h --until 1h")
        budget_s = parse_duration(self.scan_time, "--scan-time")
        moves_on_ms = None if until_ms is not None or not is_ago(self.since) else last_ms - since_ms
        return HistoryRequest(since_ms, until_ms, budget_s, moves_on_ms, commits, _chosen_by(topics))


@dataclass(frozen=True, slots=True)
class HistoryView:
    commits: Annotated[
        bool, what_option("--commits", help="Show the jumps and resets of committed offsets, old and new.")
    ] = False
    follow: Annotated[
        bool, what_option("--follow", "-f", help="Print a line for each new rebalance, until ctrl-C.")
    ] = False
    limit: Annotated[
        int | None, what_option("--limit", "-n", metavar="N", help="Show the newest N rebalances; 0 shows all.")
    ] = None
    verbose: Annotated[bool, what_option("--verbose", "-v", help="Show all members, also those without a change.")] = (
        False
    )


def history(run: Invocation, which: HistoryFilter, span: HistorySpan, view: HistoryView) -> Outcomes:
    """Show when and why a group rebalanced, who caused it, what moved.

    kgroup reads this from __consumer_offsets. The page shows how far back the log reaches, and what compaction may have
    removed. Some causes are conclusions from timing: __consumer_offsets does not hold why a member left; the
    coordinator's log does. Without a group, all groups are shown, those with the most rebalances first. A deleted
    group is found by its name.

    Examples:
    # the last 30 minutes
    kgroup history orders-svc --since 30m
    # who moved the offsets of a partition
    kgroup history orders-svc --commits --topic orders:7
    # each rebalance when it happens
    kgroup history orders-svc --follow
    # an hour of the night, for a spreadsheet
    kgroup history --all-groups --since 03:00Z --until 04:00Z -o csv

    Exit codes: 0 2 3 4 5 6 7

    Rights: DESCRIBE G; READ __consumer_offsets, as for --from-log and --as-of
    More rights: DESCRIBE T: lag; DESCRIBE_CONFIGS G: timeouts; READ ledger: finished catch-ups, for --commits
    """
    topics = parse_topics(which.topic or ())
    selection = dataclasses.replace(which, topic=[choice.topic for choice in topics] or None)
    check_selection(selection)
    if view.limit is not None and view.limit < 0:
        raise UsageError(f"--limit {view.limit}: no number of rebalances")
    span.wish(topics, commits=view.commits)
    if view.follow:
        if span.until is not None:
            raise UsageError("--until and --follow are mutually exclusive")
        if run.format not in _FOLLOWED:
            raise UsageError(f"-o {run.format} and --follow are mutually exclusive", hint="-o json")
    with Cluster(run.settings) as cluster:
        wish = span.wish(topics, brokers_now(run.reporter, cluster), commits=view.commits)
        for text, at_ms, option in ((span.since, wish.since_ms, "--since"), (span.until, wish.until_ms, "--until")):
            if text is not None and at_ms is not None and not is_ago(text):
                run.reporter.note(resolved_text(text, at_ms, option))
        states, errors = read_states(run.reporter, cluster, selection)
        if not states and not errors:
            run.reporter.note("no group is chosen: nothing to do")
        closed = _finished_catchups(run, cluster, frozenset(states)) if view.commits else frozenset()
        histories = Histories(
            cluster, replace(wish, own=own_changes(cluster.ref.cluster_id, wish.since_ms), closed=closed), states
        )
        with scan_progress(run.reporter) as progress:
            unread = histories.read(progress)
        listed = histories.list_if_unknown(run.verb)
        unseen = [name for name, state in states.items() if state is None and histories.has_nothing(name)]
        missing = [name for name in unseen if histories.stopped(name) is None]
        if missing:
            errors += (_unknown(listed, cluster, missing, all_of_them=len(missing) == len(states) and not errors),)
        errors += (*unread, *(_not_found(name, why) for name in unseen if (why := histories.stopped(name)) is not None))
        shown = tuple(one for one in histories.histories() if one.group not in unseen)
        _note_bounds(run, shown)
        yield from _pages(run, cluster, selection, view, shown, errors)
        if view.follow and shown:
            yield from _follow(run.reporter, cluster, histories, shown)


def _finished_catchups(run: Invocation, cluster: Cluster, groups: frozenset[str]) -> frozenset[str]:
    """The catch-ups that are finished, so that they cannot be cancelled; none if the ledger cannot be read."""
    listing = begin_reading_cached_ledger(run.settings, cluster, groups)(run.reporter).listing
    return frozenset() if listing is None else listing.closed


def _unknown(listed: Sequence[ListedGroup], cluster: Cluster, missing: Sequence[str], *, all_of_them: bool) -> RowError:
    """The error for names that neither the coordinator nor the log knows; raised if they are all there is."""
    error = unknown_groups(missing, listed, cluster.ref.label)
    if all_of_them:
        raise error
    return RowError.of(error)


def _not_found(name: str, why: str) -> RowError:
    """The error for a name that may be a deleted group, in the part of the log that was not read."""
    return RowError(
        LOG_INCOMPLETE,
        f"no coordinator knows it, and {OFFSETS_TOPIC} was not read to its start: {why}",
        name,
        hint="--scan-time DURATION reads more of it",
        exit_code=ExitCode.PARTLY,
    )


def _chosen_by(topics: Sequence[TopicChoice]) -> Callable[[str, int], bool]:
    if not topics:
        return lambda topic, partition: True
    chosen = {choice.topic: choice.partitions for choice in topics}

    def is_chosen(topic: str, partition: int) -> bool:
        numbers = chosen.get(topic, ())
        return numbers is None or partition in numbers

    return is_chosen


def _note_bounds(run: Invocation, shown: Sequence[GroupHistory]) -> None:
    """In CSV output, note how far the log was read; pages show that themselves."""
    if run.format is Format.CSV:
        for stopped in dict.fromkeys(one.reach.stopped for one in shown if one.reach.stopped):
            run.reporter.note(f"the log was not read back to the start of the period: {stopped} (--scan-time)")


def _pages(
    run: Invocation,
    cluster: Cluster,
    selection: Selection,
    view: HistoryView,
    shown: Sequence[GroupHistory],
    errors: tuple[RowError, ...],
) -> Outcomes:
    """For people one outcome per group, ongoing rebalances first; unnamed groups without events share the last."""
    if not run.format.is_page:
        whole = outcome(shown, cluster.ref, errors, verbose=view.verbose, limit=view.limit)
        yield replace(whole, going_on=view.follow and run.format is Format.JSON)
        return
    ranked = sorted(shown, key=lambda one: (one.over is not False, -one.totals.rebalances))
    named = set(names_of(selection))
    loud = [one for one in ranked if one.group in named or one.steps or one.rebalancing or one.jumps]
    quiet = [one for one in ranked if one not in loud] if len(loud) < len(ranked) else []
    for number, one in enumerate(loud):
        yield outcome([one], cluster.ref, errors if number == 0 else (), verbose=view.verbose, limit=view.limit)
    if quiet or not loud:
        yield quiet_outcome(quiet, cluster.ref, () if loud else errors)


def _follow(reporter: Reporter, cluster: Cluster, histories: Histories, shown: Sequence[GroupHistory]) -> Outcomes:
    """What happens from now on, until ctrl-C; if the cluster does not answer, it is asked again."""
    told = {one.group: FollowCursor(one) for one in shown}
    failing = False
    while True:
        pause(_FOLLOW_EVERY_S)
        try:
            histories.read_on()
        except NotAuthorized:
            raise
        except KgroupError as error:
            if not failing:
                reporter.note(f"{error.message}; kgroup asks again")
            failing = True
            continue
        failing = False
        for one in histories.histories():
            if one.group in told and (news := told[one.group].news(one)):
                yield follow_outcome(news, cluster.ref)
