"""``kgroup lag``: the lag of groups in records and in time, its trend, and checks of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from kgroup.catchup.service.pending import PendingCatchups, begin_reading_cached_ledger
from kgroup.changes.own_changes import latest_changes
from kgroup.cli.panels import what_option
from kgroup.cluster.deadline import SharedTime
from kgroup.cluster.lag_reading import Need
from kgroup.cluster.snapshot import Cluster, Snapshot, SnapshotRequest
from kgroup.groups.lag.checks import LagBounds, Violation, check_hidden, check_lag, parse_status
from kgroup.groups.lag.evidence import Isolation
from kgroup.groups.lag.measure import measure_lag
from kgroup.groups.lag.past import lags_of_rows
from kgroup.groups.lag.report import GroupLag, RowLevel, SortBy, rows_of
from kgroup.groups.selection import Selection, named_groups, names_of, names_only
from kgroup.groups.selection import check_selection as check_selection
from kgroup.model.groups import Group
from kgroup.model.metrics import ExportedMetrics, Metric
from kgroup.model.outcome import Outcome, Outcomes
from kgroup.model.output_format import Format
from kgroup.model.record_times import unusable_words
from kgroup.model.reporter import Reporter
from kgroup.output.pages.lag import LagPage, LagView, MeasuredGroup, RefreshValues, outcome
from kgroup.output.watch.request import Refresh, Watch, WatchedVerb, watched
from kgroup.queries.deliveries import ArchivedMeanwhile
from kgroup.queries.facts import GroupFacts, read_facts
from kgroup.queries.log_options import warn_of_clocks
from kgroup.queries.snapshots import GROUPS_AT_A_TIME, in_parts
from kgroup.settings.invocation import Invocation
from kgroup.support.atomic_file import AtomicFile
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.durations import parse_duration
from kgroup.support.errors import NotFound, UsageError
from kgroup.support.hint import Hint
from kgroup.support.units import plural

if TYPE_CHECKING:
    from kgroup.groups.lag.evidence import LagEvidence
    from kgroup.groups.verdict.group import GroupVerdict

check_option = partial(typer.Option, rich_help_panel="As a check (exit 8)")

_WANT = SnapshotRequest(generation_budget_s=0, all_types=True)
_DEFAULT_BUDGET = "5s"
_NO_TIME = "--no-time"
_DOCUMENTS = (Format.JSON, Format.YAML)
_ROWS = (Format.CSV, Format.NAME)
_WITHOUT_VIOLATIONS = (*_ROWS, Format.PROMETHEUS)


@dataclass(frozen=True, slots=True)
class LagOptions:
    by: Annotated[
        RowLevel | None,
        what_option(
            "--by",
            metavar="partition|topic|group",
            help="What a row is (default: group; partition for one named group).",
        ),
    ] = None
    sort: Annotated[
        SortBy,
        what_option(
            "--sort",
            metavar="status|lag|time|trend|name",
            help="Order of the rows (default: status). Of more than 250 groups only pages are sorted as a whole.",
        ),
    ] = SortBy.STATUS
    top: Annotated[
        int | None,
        what_option(
            "--top",
            "-n",
            metavar="N",
            min=1,
            help="Show the first N rows only, and always the one with the largest lag (not with --sort name).",
        ),
    ] = None
    isolation: Annotated[
        Isolation,
        what_option(
            "--isolation",
            metavar="read_uncommitted|read_committed",
            help=(
                "Count up to the log end (read_uncommitted), or to the last stable offset (default: read_uncommitted)."
            ),
        ),
    ] = Isolation.READ_UNCOMMITTED
    no_time: Annotated[bool, what_option("--no-time", help="Skip reading the timestamps of records (no time lag).")] = (
        False
    )
    scan_time: Annotated[
        str,
        what_option(
            "--scan-time",
            metavar="DURATION",
            help="Time limit for scanning __consumer_offsets for commits; 0s skips it (default: 5s).",
        ),
    ] = _DEFAULT_BUDGET
    metrics_file: Annotated[
        str | None,
        what_option(
            "--metrics-file", metavar="FILE", help="Write -o prometheus to FILE atomically, instead of stdout."
        ),
    ] = None

    def need(self, *, alone: bool) -> Need:
        """What has to be read. Raises UsageError if the scan time is not a duration."""
        budget_s = parse_duration(self.scan_time, "--scan-time")
        return Need(
            log_budget_s=budget_s,
            read_committed=self.isolation is Isolation.READ_COMMITTED,
            no_time=_NO_TIME if self.no_time else None,
            no_log=None if budget_s > 0 else f"--scan-time {self.scan_time}",
            surroundings=alone,
            state=alone,
            crash_loops=alone,
        )


@dataclass(frozen=True, slots=True)
class BoundOptions:
    """The bounds; each row that violates one is reported, and the exit code is 8."""

    max_lag: Annotated[
        int | None,
        check_option("--max-lag", metavar="N", min=0, help="Fail (exit 8) if a row has more than N unread records."),
    ] = None
    max_lag_time: Annotated[
        str | None,
        check_option(
            "--max-lag-time", metavar="DURATION", help="Fail (exit 8) if the oldest unread record of a row is older."
        ),
    ] = None
    fail_on: Annotated[
        str | None,
        check_option(
            "--fail-on", metavar="warn|rewind|stall|stop|no-reader", help="Fail (exit 8) on this status or a worse one."
        ),
    ] = None

    def bounds(self, options: LagOptions) -> LagBounds:
        """The bounds, parsed. Raises UsageError."""
        if self.max_lag_time is not None and options.no_time:
            raise UsageError(
                "--max-lag-time and --no-time are mutually exclusive", hint="the age is read from the records"
            )
        return LagBounds(
            self.max_lag,
            None if self.max_lag_time is None else parse_duration(self.max_lag_time, "--max-lag-time"),
            None if self.fail_on is None else parse_status(self.fail_on),
        )


def lag(
    run: Invocation, which: Selection, options: LagOptions, checks: BoundOptions, watch: Watch
) -> Outcomes | WatchedVerb:
    """Show how far groups are behind, and check that it is within bounds.

    Lag is counted in records and in time, the age of the first unread record. The status follows the rules of
    Burrow: WARN, the lag only grows; REWIND, the offset moved backwards; STALL, the group commits the same
    offset again; STOP, no commits. Two are kgroup's own: NO-READER, the group is Empty; UNSUBSCRIBED, no member
    subscribes to the topic.

    Without a name, all groups are shown, worst first. With --topic only its partitions count. What could not be
    read, or has no commit, is unknown (540+ is at least 540), and breaks a bound.

    Examples:
    # all groups, worst first
    kgroup lag
    # the partitions of a topic that are furthest behind
    kgroup lag --topic orders --by partition --sort time --top 20
    # an alert check: exit code 8 if a bound is broken
    kgroup lag -A --max-lag-time 10m --fail-on stop
    # count up to the last stable offset
    kgroup lag orders-svc --isolation read_committed
    # metrics for the textfile collector of node_exporter
    kgroup lag -A -o prometheus --metrics-file /var/lib/node_exporter/kgroup.prom

    Exit codes: 0 2 3 4 5 6 7 8

    Rights: as describe
    """
    check_selection(which)
    measurement = _LagMeasurement(which, options, checks.bounds(options))
    if watched_verb := watched(run, watch, lambda run: _connect(run, measurement)):
        return watched_verb
    _check_file(run, options)
    return _once(run, measurement)


def _once(run: Invocation, measurement: _LagMeasurement) -> Outcomes:
    with Cluster(run.settings) as cluster:
        measurement.compare_clocks(run.reporter, cluster)
        yield from measurement.measure(run, cluster)


def _check_file(run: Invocation, options: LagOptions) -> None:
    path = options.metrics_file
    if path is None:
        return
    if run.format is not Format.PROMETHEUS:
        raise UsageError("--metrics-file is for -o prometheus", hint="add -o prometheus")
    AtomicFile(path, "--metrics-file", replaces=True).check()


@contextmanager
def _connect(run: Invocation, measurement: _LagMeasurement) -> Iterator[Refresh]:
    with Cluster(run.settings) as cluster:
        measurement.compare_clocks(run.reporter, cluster)
        yield lambda: measurement.measure(run, cluster, at_once=True)


@dataclass(slots=True)
class _LagMeasurement:
    """What is measured, and the values of the last refresh of ``--watch``."""

    which: Selection
    options: LagOptions
    bounds: LagBounds
    values: RefreshValues = field(default_factory=RefreshValues)
    archived: ArchivedMeanwhile = field(default_factory=ArchivedMeanwhile)

    def compare_clocks(self, reporter: Reporter, cluster: Cluster) -> None:
        """Warn if clocks would make ages wrong, unless no age is shown."""
        if not self.options.no_time:
            warn_of_clocks(reporter, cluster)

    def measure(self, run: Invocation, cluster: Cluster, *, at_once: bool = False) -> Outcomes:
        """Measure the chosen groups as they are now; ``at_once``: what is read is kept for the next refresh.

        A page is one outcome. In json, csv and names, where all rows are written, each part that was read is one: its
        rows are in order, and are not held while the next part is read.
        """
        alone = names_only(self.which) and len(names_of(self.which)) == 1
        need = self.options.need(alone=alone and (run.format.is_page or run.format in _DOCUMENTS))
        need = replace(need, past=run.format is Format.WIDE or (alone and run.format.is_page))
        level = self.options.by or (RowLevel.PARTITION if alone else RowLevel.GROUP)
        # A named topic without DESCRIBE was refused before; with named topics only their commits count.
        want = replace(_WANT, hidden_budget_s=0) if self.which.topic else _WANT
        count, parts = in_parts(run.reporter, cluster, self.which, want, at_once=at_once)
        if count > GROUPS_AT_A_TIME and not at_once:
            need = replace(need, log_time=SharedTime(need.log_budget_s, count))
        view = LagView(level, self.options.sort, self.options.top)
        documents = run.format in _DOCUMENTS
        by_part = not at_once and (documents or (run.format in _ROWS and view.top is None))
        page, unread, notes, nothing = LagPage(view), _UnreadLogs(), set[str](), True
        for _, snapshot in parts:
            groups = self._measure_part(run, cluster, snapshot, need, level, unread)
            if at_once:
                self.archived.read(cluster, snapshot.groups, time.monotonic())
            for note in snapshot.notes:
                if note not in notes:
                    notes.add(note)
                    run.reporter.note(note)
            nothing = nothing and not groups and not snapshot.errors
            page.add(groups, snapshot.errors, whole=documents or run.format is Format.PROMETHEUS)
            if by_part:
                yield self._shown(run, cluster, page)
                page = LagPage(view)
        if nothing:
            self._note_nothing(run.reporter)
        unread.note(run.reporter)
        for note in self.archived.notes():
            run.reporter.note(note)
        if at_once:
            self.values = page.refreshes = self.values.after({row.name: row.lag for row in page.rows})
        yield self._shown(run, cluster, page)

    def _note_nothing(self, reporter: Reporter) -> None:
        if self.bounds.is_set:  # a typo in --topic must not make a check that always holds
            raise NotFound("no group is chosen, so nothing was checked", hint=Hint("{}", ("list",)))
        reporter.note("no group is chosen: nothing to do")

    def _measure_part(
        self, run: Invocation, cluster: Cluster, snapshot: Snapshot, need: Need, level: RowLevel, unread: _UnreadLogs
    ) -> list[MeasuredGroup]:
        groups = [self.which.topics.narrow(group) for group in snapshot.groups]
        if not groups:
            return []
        ledger = begin_reading_cached_ledger(run.settings, cluster, named_groups(self.which))
        read = read_facts(cluster, groups, need, latest_changes(cluster.ref.cluster_id))
        # A released group shows no lag, but its pending records are still unread.
        pending = PendingCatchups.read(run.format, ledger(run.reporter), groups, on_page=need.surroundings)
        pending.note(run.reporter, (group.name for group in groups))
        lines, documents = pending.lines_for(read), pending.documents_for(read)
        unread.add(read)
        judged = _judged(cluster, groups, read) if need.surroundings else {}
        measured = []
        for group in groups:
            name, known = group.name, read[group.name]
            report = measure_lag(group, known.evidence)
            verdict = _verdict(group, report, judged[name]) if need.surroundings else None
            past = lags_of_rows(report, known.evidence, level) if run.format is Format.WIDE else {}
            measured.append(
                MeasuredGroup(report, self._violations(report), verdict, documents[name], lines[name], past)
            )
        return measured

    def _shown(self, run: Invocation, cluster: Cluster, page: LagPage) -> Outcome:
        groups = page.groups
        if run.format in _WITHOUT_VIOLATIONS:
            for violation in [violation for group in groups for violation in group.violations]:
                run.reporter.warn(f"check failed: {violation}")
        made = outcome(page, cluster.ref)
        if run.format is not Format.PROMETHEUS:
            return made
        return replace(made, exported=_exported(self.options.metrics_file, groups, cluster.ref, made))

    def _violations(self, report: GroupLag) -> tuple[Violation, ...]:
        """The violations of the group's rows; if there is none of the group itself, also that it is not all seen."""
        if not self.bounds.is_set:
            return ()
        level = self.options.by or RowLevel.GROUP
        # A group without partitions is checked as a row too: it must not pass unnoticed.
        violations = check_lag(rows_of([report], level) or [report.total], self.bounds, report.now_ms)
        hidden = () if any(violation.subject == report.group for violation in violations) else check_hidden(report)
        return (*violations, *hidden)


class _UnreadLogs:
    """The groups whose commits were not read, and those not read far enough back, with the reasons."""

    def __init__(self) -> None:
        self.groups = 0
        self._unread: dict[str, str] = {}
        self._stopped: dict[str, str] = {}
        self._unusable: dict[str, str] = {}

    def add(self, read: Mapping[str, GroupFacts]) -> None:
        self.groups += len(read)
        self._unread |= {name: reading.unread for name, reading in read.items() if reading.unread}
        self._stopped |= {name: reading.stopped for name, reading in read.items() if reading.stopped}
        for name, reading in read.items():
            if unusable := reading.evidence.unusable_times:
                self._unusable[name] = unusable_words(unusable, reading.evidence.now_ms)

    def note(self, reporter: Reporter) -> None:
        for reasons, what in (
            (self._unread, "status and rates are unknown"),
            (self._stopped, "commits were not read an hour back"),
            (self._unusable, "ages and rates are unknown"),
        ):
            groups = plural(self.groups, "group")
            if reasons:
                few = next(iter(reasons)) if len(reasons) == 1 else f"{len(reasons)} of {groups}"
                reporter.note(f"{few}: {what}: {next(iter(reasons.values()))}")


def _verdict(group: Group, report: GroupLag, evidence: LagEvidence) -> GroupVerdict:
    # Imported here: with many groups there are no verdicts.
    from kgroup.groups.verdict.group import group_verdict

    return group_verdict(group, evidence, report)


def _judged(cluster: Cluster, groups: Sequence[Group], read: Mapping[str, GroupFacts]) -> Mapping[str, LagEvidence]:
    """The evidence as ``describe`` judges it."""
    from kgroup.queries.page_facts import with_page_facts

    known = {group.name: read[group.name].evidence for group in groups}
    return with_page_facts(cluster, groups, known, read[groups[0].name].shared.others)


def _exported(path: str | None, groups: Sequence[MeasuredGroup], cluster: ClusterRef, made: Outcome) -> ExportedMetrics:
    reports = [group.report for group in groups]
    pending = {group.report.group: group.pending for group in groups}

    def metrics() -> tuple[Metric, ...]:
        # Imported here: only -o prometheus needs it.
        from kgroup.output.pages.lag_metrics import lag_metrics, last_success_ms

        whole = not made.errors and not any(report.total.hidden for report in reports)
        succeeded_ms = round(made.at.timestamp() * 1000) if whole else None
        if succeeded_ms is None and path is not None:
            # Keep the previous time of success: without it, an alert on its age would have nothing to compare.
            with suppress(OSError):
                succeeded_ms = last_success_ms(Path(path).read_text(encoding="utf-8", errors="replace"))
        return lag_metrics(reports, cluster.context or cluster.cluster_id or cluster.label, succeeded_ms, pending)

    return ExportedMetrics(metrics, path)
