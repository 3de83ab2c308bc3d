"""``kgroup lag``: the lag of groups in records and in time, its trend, and checks of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from msgspec.structs import replace

from kgroup.catchup.service.pending import PendingCatchups, begin_reading_cached_ledger
from kgroup.cli.help_parts import WHAT
from kgroup.cluster.deadline import SharedTime
from kgroup.cluster.snapshot import Cluster, Snapshot, SnapshotRequest
from kgroup.groups.lag.checks import LagBounds, Violation, check_hidden, check_lag, parse_status
from kgroup.groups.lag.evidence import Isolation
from kgroup.groups.lag.measure import measure_lag
from kgroup.groups.lag.report import FirstRows, GroupLag, RowLevel, SortBy, rows_of, sort_rows
from kgroup.groups.selection import Selection, TopicFilter, named_groups, names_of, names_only
from kgroup.groups.selection import check_selection as check_selection
from kgroup.model.groups import Group, RowError
from kgroup.model.metrics import ExportedMetrics, Metric
from kgroup.model.outcome import Outcome
from kgroup.model.output_format import Format
from kgroup.model.packed_document import PackedDocument
from kgroup.model.reporter import Reporter
from kgroup.output.pages.lag import BLOCKS, PLAIN, LagRows, LagScope, LagView, RefreshValues, outcome, packed
from kgroup.output.pages.lag_records import LagRecords
from kgroup.output.watch.request import Refresh, Watch, WatchedVerb, draws_blocks, watched
from kgroup.queries.lag import LagReading, LagReadOptions, read_evidence
from kgroup.queries.log_options import warn_of_clocks
from kgroup.queries.snapshots import ListedGroups, batches, by_log_partition, describable_groups, snapshots
from kgroup.settings.invocation import Invocation
from kgroup.support.atomic_file import AtomicFile
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.durations import parse_duration
from kgroup.support.errors import NotFound, UsageError
from kgroup.support.hint import Hint
from kgroup.support.units import plural

if TYPE_CHECKING:
    from kgroup.groups.verdict.group import GroupVerdict

CHECK = "As a check (exit 8)"

_WANT = SnapshotRequest(generation_budget_s=0)
_GROUPS_AT_A_TIME = 250
_DEFAULT_BUDGET = "5s"
_NO_TIME = "--no-time"
_WITH_VERDICT = (Format.TABLE, Format.WIDE, Format.MARKDOWN, Format.JSON, Format.YAML)
_WITHOUT_VIOLATIONS = (Format.CSV, Format.NAME, Format.PROMETHEUS)


@dataclass(frozen=True, slots=True)
class LagOptions:
    """What is measured, and which rows are shown in which order."""

    by: Annotated[
        RowLevel | None,
        typer.Option(
            "--by",
            metavar="partition|topic|group",
            rich_help_panel=WHAT,
            help="What a row is (default: group; partition for one named group).",
        ),
    ] = None
    sort: Annotated[
        SortBy,
        typer.Option(
            "--sort",
            metavar="status|lag|time|trend|name",
            rich_help_panel=WHAT,
            help="Order of the rows (default: status).",
        ),
    ] = SortBy.STATUS
    top: Annotated[
        int | None,
        typer.Option("--top", "-n", metavar="N", min=1, rich_help_panel=WHAT, help="Show the first N rows only."),
    ] = None
    isolation: Annotated[
        Isolation,
        typer.Option(
            "--isolation",
            metavar="read_uncommitted|read_committed",
            rich_help_panel=WHAT,
            help=(
                "Count up to the log end (read_uncommitted), or to the last stable offset (default: read_uncommitted)."
            ),
        ),
    ] = Isolation.READ_UNCOMMITTED
    no_time: Annotated[
        bool,
        typer.Option("--no-time", rich_help_panel=WHAT, help="Skip reading the timestamps of records (no time lag)."),
    ] = False
    scan_time: Annotated[
        str,
        typer.Option(
            "--scan-time",
            metavar="DURATION",
            rich_help_panel=WHAT,
            help=("Time limit for scanning __consumer_offsets for commits; 0s skips it (default: 5s)."),
        ),
    ] = _DEFAULT_BUDGET
    metrics_file: Annotated[
        str | None,
        typer.Option(
            "--metrics-file",
            metavar="FILE",
            rich_help_panel=WHAT,
            help="Write -o prometheus to FILE atomically, instead of stdout.",
        ),
    ] = None

    def read_options(self, *, alone: bool) -> LagReadOptions:
        """What has to be read. Raises UsageError if the scan time is not a duration."""
        budget_s = parse_duration(self.scan_time, "--scan-time")
        return LagReadOptions(
            log_budget_s=budget_s,
            isolation=self.isolation,
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
        typer.Option(
            "--max-lag",
            metavar="N",
            min=0,
            rich_help_panel=CHECK,
            help="Fail (exit 8) if a row has more than N unread records.",
        ),
    ] = None
    max_lag_time: Annotated[
        str | None,
        typer.Option(
            "--max-lag-time",
            metavar="DURATION",
            rich_help_panel=CHECK,
            help="Fail (exit 8) if the oldest unread record of a row is older.",
        ),
    ] = None
    fail_on: Annotated[
        str | None,
        typer.Option(
            "--fail-on",
            metavar="warn|rewind|stall|stop|no-reader",
            rich_help_panel=CHECK,
            help="Fail (exit 8) on this status or a worse one.",
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
) -> Outcome | WatchedVerb:
    """Show how far groups are behind, and check that it is within bounds.

    Lag is counted in records and in time, the age of the first unread record. The status follows the rules of
    Burrow: WARN, the lag never shrinks; REWIND, the offset moved backwards; STALL, the group commits the same
    offset again; STOP, no commits. Two are kgroup's own: NO-READER, the group is Empty; UNSUBSCRIBED, no member
    subscribes to the topic.

    Without a name, all groups are shown, worst first. With --topic only its partitions count. What could not be
    read, or has no commit, is unknown (540+? is at least 540), and breaks a bound.

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
    """
    check_selection(which)
    measurement = _LagMeasurement(which, options, checks.bounds(options))
    if found := watched(run, watch, lambda run: _connect(run, measurement)):
        return found
    _check_file(run, options)
    with Cluster(run.settings) as cluster:
        measurement.compare_clocks(run.reporter, cluster)
        return measurement.measure(run, cluster)


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
        yield lambda: [measurement.measure(run, cluster, at_once=True)]


@dataclass(slots=True)
class _LagMeasurement:
    """What is measured, and the values of the last refresh of ``--watch``."""

    which: Selection
    options: LagOptions
    bounds: LagBounds
    values: RefreshValues = field(default_factory=RefreshValues)

    def compare_clocks(self, reporter: Reporter, cluster: Cluster) -> None:
        """Warn if clocks would make ages wrong, unless no age is shown."""
        if not self.options.no_time:
            warn_of_clocks(reporter, cluster)

    def measure(self, run: Invocation, cluster: Cluster, *, at_once: bool = False) -> Outcome:
        """Measure the chosen groups as they are now; ``at_once``: what is read is kept for the next refresh."""
        alone = names_only(self.which) and len(names_of(self.which)) == 1
        ask = self.options.read_options(alone=alone and run.format in _WITH_VERDICT)
        shown = self.options.by or (RowLevel.PARTITION if alone else RowLevel.GROUP)
        # A named topic without DESCRIBE was refused before; with named topics only their commits count.
        want = replace(_WANT, hidden_budget_s=0) if self.which.topic else _WANT
        steps = BLOCKS if draws_blocks() else PLAIN
        measured = _Measured(run.format, LagView(shown, self.options.sort, self.options.top, steps))
        if at_once or names_only(self.which):
            found = _join_snapshots(list(snapshots(run.reporter, cluster, self.which, want)))
            self._measure_part(run, cluster, found, ask, measured)
        else:
            listed = describable_groups(run.reporter, cluster, self.which)
            parts = by_log_partition(listed.groups, cluster.count_log_partitions(), _GROUPS_AT_A_TIME)
            measured.condenses = len(parts) > 1
            measured.errors += listed.errors
            if len(parts) > 1:
                ask = replace(ask, log_time=SharedTime(ask.log_budget_s, len(listed.groups)))
            for part in parts:
                found = _join_snapshots(list(batches(cluster, ListedGroups(part, ()), want)))
                self._measure_part(run, cluster, found, ask, measured)
            # Equal rows are in the order of the listing, by name, not in that of the parts.
            reports = measured.reports
            measured.reports = {group.name: reports[group.name] for group in listed.groups if group.name in reports}
        return self._outcome(run, cluster, ask, measured)

    def _measure_part(
        self, run: Invocation, cluster: Cluster, snapshot: Snapshot, ask: LagReadOptions, measured: _Measured
    ) -> None:
        """Measure some groups; what is needed of them is added to ``measured``, the rest can be forgotten."""
        measured.errors += snapshot.errors
        measured.notes |= dict.fromkeys(snapshot.notes)
        groups = [_of_topics(group, self.which.topics) for group in snapshot.groups]
        if not groups:
            return
        ledger = begin_reading_cached_ledger(run.settings, cluster, named_groups(self.which))
        read = read_evidence(cluster, groups, ask, cluster.now_ms())
        # A released group shows no lag, but its pending records are still unread.
        pending = PendingCatchups.read(run.format, ledger(run.reporter), groups, on_page=ask.surroundings)
        for group in groups:
            known = read[group.name]
            report = measure_lag(group, known.evidence)
            if ask.surroundings:
                measured.verdicts[group.name] = _verdict(group, report, known)
            # At once: after all groups of the part, its rows are no longer in the processor's cache.
            measured.add(report, known, self._violations(report), pending)

    def _outcome(self, run: Invocation, cluster: Cluster, ask: LagReadOptions, measured: _Measured) -> Outcome:
        for note in measured.notes:
            run.reporter.note(note)
        if not measured.reports and not measured.errors:
            if self.bounds.is_set:  # a typo in --topic must not make a check that always holds
                raise NotFound("no group is chosen, so nothing was checked", hint=Hint("{}", ("list",)))
            run.reporter.note("no group is chosen: nothing to do")
        measured.note_unread(run.reporter)
        totals = sort_rows([report.total for report in measured.reports.values()], self.options.sort)
        reports = [measured.reports[total.group] for total in totals]
        if not measured.condenses:
            self.values = self.values.after({row.name: row.lag for row in rows_of(reports, measured.view.level)})
        # First the rows, then the groups of which no row violates a bound and not all can be seen.
        violations = tuple(
            violation
            for of_hidden in (False, True)
            for report in reports
            for violation in measured.violations[report.group][of_hidden]
        )
        if run.format in _WITHOUT_VIOLATIONS:
            for violation in violations:
                run.reporter.warn(f"check failed: {violation}")
        for report in reports:
            measured.pending[report.group].note(run.reporter, (report.group,))
        found = LagRows(
            reports,
            violations,
            measured.verdicts,
            self.values,
            {name: lines for name, each in measured.pending.items() for lines in each.lines_for((name,)).values()},
            {name: plans for name, each in measured.pending.items() for plans in each.documents_for((name,)).values()},
            measured.scope,
            measured.documents,
            measured.records,
            measured.first,
        )
        made = outcome(found, measured.view, cluster.ref, measured.errors)
        if run.format is not Format.PROMETHEUS:
            return made
        return replace(made, exported=_exported(self.options.metrics_file, reports, cluster.ref, made))

    def _violations(self, report: GroupLag) -> tuple[tuple[Violation, ...], tuple[Violation, ...]]:
        """The violations of the group's rows; and, if there is none of the group itself, that it is not all seen."""
        if not self.bounds.is_set:
            return (), ()
        level = self.options.by or RowLevel.GROUP
        # A group without partitions is checked as a row too: it must not pass unnoticed.
        found = check_lag(rows_of([report], level) or [report.total], self.bounds, report.now_ms)
        return found, () if any(violation.subject == report.group for violation in found) else check_hidden(report)


class _Measured(msgspec.Struct):
    """What is kept of all groups, by name. ``condenses``: there are many, so of each only what is shown is kept."""

    format: Format
    view: LagView
    condenses: bool = False
    reports: dict[str, GroupLag] = msgspec.field(default_factory=dict)
    documents: dict[str, PackedDocument] = msgspec.field(default_factory=dict)
    records: LagRecords | None = None
    first: FirstRows | None = None
    violations: dict[str, tuple[tuple[Violation, ...], tuple[Violation, ...]]] = msgspec.field(default_factory=dict)
    pending: dict[str, PendingCatchups] = msgspec.field(default_factory=dict)
    verdicts: dict[str, GroupVerdict] = msgspec.field(default_factory=dict)
    errors: tuple[RowError, ...] = ()
    notes: dict[str, None] = msgspec.field(default_factory=dict)
    unread: dict[str, str] = msgspec.field(default_factory=dict)
    stopped: dict[str, str] = msgspec.field(default_factory=dict)
    scope: LagScope = msgspec.field(default_factory=LagScope)

    def add(
        self,
        report: GroupLag,
        read: LagReading,
        violations: tuple[tuple[Violation, ...], tuple[Violation, ...]],
        pending: PendingCatchups,
    ) -> None:
        """Add a group."""
        name = report.group
        self.scope.add(report)
        self.violations[name] = violations
        self.pending[name] = pending
        if read.unread:
            self.unread[name] = read.unread
        if read.stopped:
            self.stopped[name] = read.stopped
        if self.condenses and self.format in (Format.JSON, Format.YAML):
            in_json = pending.documents_for((name,))[name]
            self.documents[name] = packed(report, (*violations[0], *violations[1]), in_json)
            report = report.condensed(RowLevel.GROUP)
        elif self.condenses and self.format is not Format.PROMETHEUS:
            report = self._condensed(report)
        self.reports[name] = report

    def _condensed(self, report: GroupLag) -> GroupLag:
        """Only what is shown of the report. Where its rows are shown among others, they are added to those."""
        level, by, top = self.view.level, self.view.sort, self.view.top
        if level is not RowLevel.GROUP and top is not None:
            self.first = self.first or FirstRows(by, top)
            self.first.add(report.condensed(level), level)
        elif level is not RowLevel.GROUP and self.format in (Format.CSV, Format.NAME):
            self.records = self.records or LagRecords(level, by)
            self.records.add(report)
        else:
            return report.condensed(level)
        return report.condensed(RowLevel.GROUP)

    def note_unread(self, reporter: Reporter) -> None:
        """Note the groups whose commits were not read, and those not read far enough back, in one line each."""
        for reasons, what in (
            (self.unread, "status and rates are unknown"),
            (self.stopped, "commits were not read an hour back"),
        ):
            groups = plural(len(self.reports), "group")
            if reasons:
                few = next(iter(reasons)) if len(reasons) == 1 else f"{len(reasons)} of {groups}"
                reporter.note(f"{few}: {what}: {next(iter(reasons.values()))}")


def _join_snapshots(found: Sequence[Snapshot]) -> Snapshot:
    return Snapshot(
        tuple(group for snapshot in found for group in snapshot.groups),
        tuple(error for snapshot in found for error in snapshot.errors),
        tuple(note for snapshot in found for note in snapshot.notes),
    )


def _of_topics(group: Group, topics: TopicFilter) -> Group:
    """The group with only these partitions: the lag of others would hide theirs."""
    if not topics.choices:
        return group
    return replace(group, partitions=tuple(p for p in group.partitions if topics.has(p.topic, p.partition)))


def _verdict(group: Group, report: GroupLag, read: LagReading) -> GroupVerdict:
    # Imported here: with many groups there are no verdicts.
    from kgroup.groups.verdict.group import group_verdict

    return group_verdict(group, read.evidence, report)


def _exported(path: str | None, reports: Sequence[GroupLag], cluster: ClusterRef, made: Outcome) -> ExportedMetrics:
    def metrics() -> tuple[Metric, ...]:
        # Imported here: only -o prometheus needs it.
        from kgroup.output.pages.lag_metrics import lag_metrics, last_success_ms

        whole = not made.errors and not any(report.total.hidden for report in reports)
        succeeded_ms = round(made.at.timestamp() * 1000) if whole else None
        if succeeded_ms is None and path is not None:
            # Keep the previous time of success: without it, an alert on its age would have nothing to compare.
            with suppress(OSError):
                succeeded_ms = last_success_ms(Path(path).read_text(encoding="utf-8", errors="replace"))
        return lag_metrics(reports, cluster.context or cluster.cluster_id or cluster.label, succeeded_ms)

    return ExportedMetrics(metrics, path)
