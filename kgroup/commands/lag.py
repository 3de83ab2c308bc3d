"""``kgroup lag``: the lag of groups in records and in time, its trend, and checks of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgroup.catchup.service.pending import PendingCatchups, read_pending
from kgroup.cli.help_parts import WHAT
from kgroup.cluster.snapshot import Cluster, Snapshot, SnapshotRequest
from kgroup.groups.lag.checks import LagBounds, Violation, check_hidden, check_lag, parse_status
from kgroup.groups.lag.evidence import Isolation
from kgroup.groups.lag.measure import measure_lag
from kgroup.groups.lag.report import GroupLag, RowLevel, SortBy, rows_of, sort_rows
from kgroup.groups.selection import Selection, names_of, names_only
from kgroup.groups.selection import check_selection as check_selection
from kgroup.model.groups import Group
from kgroup.model.metrics import ExportedMetrics, Metric
from kgroup.model.outcome import Outcome
from kgroup.model.output_format import Format
from kgroup.model.reporter import Reporter
from kgroup.output.pages.lag import BLOCKS, PLAIN, LagRows, LagView, RefreshValues, outcome
from kgroup.output.watch.request import Refresh, Watch, WatchedVerb, draws_blocks, watched
from kgroup.queries.lag import LagReading, LagReadOptions, read_evidence
from kgroup.queries.log_options import warn_of_clocks
from kgroup.queries.snapshots import snapshots
from kgroup.settings.invocation import Invocation
from kgroup.support.atomic_file import AtomicFile
from kgroup.support.clock import utc_ms
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.durations import parse_duration
from kgroup.support.errors import NotFound, UsageError
from kgroup.support.units import plural

if TYPE_CHECKING:
    from kgroup.groups.verdict.group import GroupVerdict

CHECK = "As a check (exit 8)"

_WANT = SnapshotRequest(generation_budget_s=0)
_DEFAULT_BUDGET = "5s"
_NO_TIME = "--no-time"
_WITH_VERDICT = (Format.TABLE, Format.WIDE, Format.MARKDOWN, Format.JSON, Format.YAML)
_WITHOUT_VIOLATIONS = (Format.CSV, Format.PROMETHEUS)


@dataclass(frozen=True, slots=True)
class LagOptions:
    """What is measured, and which rows are shown in which order."""

    by: Annotated[
        RowLevel | None,
        typer.Option(
            "--by",
            metavar="LEVEL",
            rich_help_panel=WHAT,
            help="partition|topic|group, what a row is; group by default, partition for one named group.",
        ),
    ] = None
    sort: Annotated[
        SortBy,
        typer.Option(
            "--sort", metavar="ORDER", rich_help_panel=WHAT, help="status|lag|time|trend|name; status by default."
        ),
    ] = SortBy.STATUS
    top: Annotated[
        int | None, typer.Option("--top", metavar="N", min=1, rich_help_panel=WHAT, help="Only the first N rows.")
    ] = None
    isolation: Annotated[
        Isolation,
        typer.Option(
            "--isolation",
            metavar="LEVEL",
            rich_help_panel=WHAT,
            help="read_uncommitted, to the log's end (default), or read_committed, to the last stable offset.",
        ),
    ] = Isolation.READ_UNCOMMITTED
    no_time: Annotated[
        bool, typer.Option("--no-time", rich_help_panel=WHAT, help="Do not read first unread records for their age.")
    ] = False
    log_budget: Annotated[
        str,
        typer.Option(
            "--log-budget",
            metavar="DURATION",
            rich_help_panel=WHAT,
            help="How long to read commits in __consumer_offsets, 5s by default; 0s: not at all.",
        ),
    ] = _DEFAULT_BUDGET
    metrics_file: Annotated[
        str | None,
        typer.Option(
            "--metrics-file",
            metavar="FILE",
            rich_help_panel=WHAT,
            help="Where -o prometheus writes, whole or not at all, instead of stdout.",
        ),
    ] = None

    def read_options(self, *, alone: bool) -> LagReadOptions:
        """What has to be read. Raises UsageError if the budget is not a duration."""
        budget_s = parse_duration(self.log_budget, "--log-budget")
        return LagReadOptions(
            log_budget_s=budget_s,
            isolation=self.isolation,
            no_time=_NO_TIME if self.no_time else None,
            no_log=None if budget_s > 0 else f"--log-budget {self.log_budget}",
            surroundings=alone,
            state=alone,
        )


@dataclass(frozen=True, slots=True)
class BoundOptions:
    """The bounds; each row that violates one is reported, and the exit code is 8."""

    max_lag: Annotated[
        int | None,
        typer.Option("--max-lag", metavar="N", min=0, rich_help_panel=CHECK, help="So many unread records at most."),
    ] = None
    max_lag_time: Annotated[
        str | None,
        typer.Option(
            "--max-lag-time",
            metavar="DURATION",
            rich_help_panel=CHECK,
            help="The oldest unread record is no older than this.",
        ),
    ] = None
    fail_on: Annotated[
        str | None,
        typer.Option(
            "--fail-on",
            metavar="STATUS",
            rich_help_panel=CHECK,
            help="warn|rewind|stall|stop: no status as bad as this.",
        ),
    ] = None

    def bounds(self, options: LagOptions) -> LagBounds:
        """The bounds, parsed. Raises UsageError."""
        if self.max_lag_time is not None and options.no_time:
            raise UsageError("--max-lag-time and --no-time: one of them", hint="the age is read from the records")
        return LagBounds(
            self.max_lag,
            None if self.max_lag_time is None else parse_duration(self.max_lag_time, "--max-lag-time"),
            None if self.fail_on is None else parse_status(self.fail_on),
        )


def lag(
    run: Invocation, which: Selection, options: LagOptions, checks: BoundOptions, watch: Watch
) -> Outcome | WatchedVerb:
    """Show how far groups are behind, and check that it is within bounds.

    In records and in time (the age of the first unread record), with a status after Burrow's rules: OK; WARN, it never
    shrinks; REWIND, it was moved back; STALL, commits of one offset; STOP, no commits. All groups without a name, worst
    first. With --topic only its partitions count. What could not be read is unknown, and breaks a bound.

    Examples:
    kgroup lag
    kgroup lag orders-svc --isolation read_committed
    kgroup lag --topic orders --by partition --sort time --top 20
    kgroup lag -A --max-lag-time 10m --fail-on stop
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
        yield lambda: [measurement.measure(run, cluster)]


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

    def measure(self, run: Invocation, cluster: Cluster) -> Outcome:
        """Measure the chosen groups as they are now."""
        alone = names_only(self.which) and len(names_of(self.which)) == 1
        ask = self.options.read_options(alone=alone and run.format in _WITH_VERDICT)
        # A named topic without DESCRIBE was refused before; with named topics only their commits count.
        want = replace(_WANT, hidden_budget_s=0) if self.which.topic else _WANT
        snapshot = _join_snapshots(run.reporter, list(snapshots(run.reporter, cluster, self.which, want)))
        groups = [_of_topics(group, self.which.topic) for group in snapshot.groups]
        read = read_evidence(cluster, groups, ask, utc_ms()) if groups else {}
        if not groups and not snapshot.errors:
            if self.bounds.is_set:  # a typo in --topic must not make a check that always holds
                raise NotFound("no group is chosen, so nothing was checked", hint="kgroup list")
            run.reporter.note("no group is chosen: nothing to do")
        _note_unread(run.reporter, read)
        reports = [measure_lag(group, read[group.name].evidence) for group in groups]
        totals = sort_rows([report.total for report in reports], self.options.sort)
        by_name = {report.group: report for report in reports}
        reports = [by_name[total.group] for total in totals]
        shown = self.options.by or (RowLevel.PARTITION if alone else RowLevel.GROUP)
        rows = rows_of(reports, shown)
        self.values = self.values.after({row.name: row.lag for row in rows})
        violations = self._violations(reports)
        if run.format in _WITHOUT_VIOLATIONS:
            for violation in violations:
                run.reporter.warn(f"FAILED  {violation}")
        # A released group shows no lag, but its pending records are still unread.
        pending = read_pending(run, cluster, groups, on_page=ask.surroundings) if groups else PendingCatchups()
        pending.note(run, (report.group for report in reports))
        verdicts = _verdicts(groups, by_name, read) if ask.surroundings else {}
        found = LagRows(
            reports, violations, verdicts, self.values, pending.lines_for(by_name), pending.documents_for(by_name)
        )
        view = LagView(shown, self.options.sort, self.options.top, BLOCKS if draws_blocks() else PLAIN)
        made = outcome(found, view, cluster.ref, snapshot.errors)
        if run.format is not Format.PROMETHEUS:
            return made
        return replace(made, exported=_exported(self.options.metrics_file, reports, cluster.ref, made))

    def _violations(self, reports: Sequence[GroupLag]) -> tuple[Violation, ...]:
        if not self.bounds.is_set or not reports:
            return ()
        level = self.options.by or RowLevel.GROUP
        # A group without partitions is checked as a row too: it must not pass unnoticed.
        rows = [row for report in reports for row in rows_of([report], level) or [report.total]]
        found = check_lag(rows, self.bounds, reports[0].now_ms)
        said = {violation.subject for violation in found}
        return (*found, *(v for r in reports if r.group not in said for v in check_hidden(r)))


def _join_snapshots(reporter: Reporter, found: Sequence[Snapshot]) -> Snapshot:
    for note in dict.fromkeys(note for snapshot in found for note in snapshot.notes):
        reporter.note(note)
    return Snapshot(
        tuple(group for snapshot in found for group in snapshot.groups),
        tuple(error for snapshot in found for error in snapshot.errors),
        (),
    )


def _of_topics(group: Group, topics: Sequence[str] | None) -> Group:
    """The group with only the partitions of these topics: the lag of other topics would hide theirs."""
    if not topics:
        return group
    return replace(group, partitions=tuple(p for p in group.partitions if p.topic in topics))


def _note_unread(reporter: Reporter, read: dict[str, LagReading]) -> None:
    """Note the groups whose commits were not read, and those not read far enough back, in one line each."""
    for reasons, what in (
        ({name: each.unread for name, each in read.items() if each.unread}, "status and rates are unknown"),
        ({name: each.stopped for name, each in read.items() if each.stopped}, "commits were not read an hour back"),
    ):
        if reasons:
            few = next(iter(reasons)) if len(reasons) == 1 else f"{len(reasons)} of {plural(len(read), 'group')}"
            reporter.note(f"{few}: {what}: {next(iter(reasons.values()))}")


def _verdicts(
    groups: Sequence[Group], reports: dict[str, GroupLag], read: dict[str, LagReading]
) -> dict[str, GroupVerdict]:
    # Imported here: with many groups there are no verdicts.
    from kgroup.groups.verdict.group import group_verdict

    return {group.name: group_verdict(group, read[group.name].evidence, reports[group.name]) for group in groups}


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
