"""``kgroup doctor``: what is wrong with groups or the cluster, the evidence, and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from kgroup.cli.help_parts import WHAT
from kgroup.cluster.snapshot import Cluster, Snapshot, SnapshotRequest
from kgroup.groups.doctor.diagnose import check_fail_on, diagnose_cluster, diagnose_group
from kgroup.groups.doctor.finding import Diagnosis, Finding, Severity
from kgroup.groups.selection import Selection, check_selection
from kgroup.model.groups import RowError, is_of_consumers
from kgroup.model.outcome import Outcome
from kgroup.model.reporter import Reporter
from kgroup.output.pages.doctor import explanation_outcome, outcome, rules_outcome
from kgroup.queries.doctor import ScanDepth, cluster_snapshot, group_snapshots
from kgroup.queries.doctor_explanations import explain, explanations
from kgroup.queries.snapshots import snapshots
from kgroup.settings.invocation import Invocation
from kgroup.support.clock import utc_now
from kgroup.support.durations import parse_duration
from kgroup.support.errors import NotFound, UsageError
from kgroup.support.hint import Hint
from kgroup.support.units import plural

_WANT = SnapshotRequest(generation_budget_s=0)
_SINCE, _BUDGET = "1h", "5s"


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """What is checked, how far back, and what makes the check fail."""

    cluster: Annotated[
        bool, typer.Option("--cluster", rich_help_panel=WHAT, help="Only what concerns every group, no group.")
    ] = False
    fail_on: Annotated[
        str | None,
        typer.Option(
            "--fail-on",
            metavar="info|warning|critical",
            rich_help_panel=WHAT,
            help="Exit 8 where something is found that is so bad, or worse.",
        ),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="DURATION",
            rich_help_panel=WHAT,
            help=f"How far back rebalances, restarts and commits are looked at, {_SINCE} by default.",
        ),
    ] = None
    log_budget: Annotated[
        str | None,
        typer.Option(
            "--log-budget",
            metavar="DURATION",
            rich_help_panel=WHAT,
            help=f"How long __consumer_offsets is read for that, {_BUDGET} by default; 0s: not at all.",
        ),
    ] = None
    verbose: Annotated[
        bool, typer.Option("--verbose", rich_help_panel=WHAT, help="All places, all remedies, the sources.")
    ] = False

    @property
    def severity(self) -> Severity | None:
        """The lowest severity that fails the check, None if none does. Raises UsageError."""
        if self.fail_on is None:
            return None
        if self.fail_on not in tuple(Severity):
            raise UsageError(f"--fail-on {self.fail_on}: no such severity", hint=f"it is {', '.join(Severity)}")
        return Severity(self.fail_on)

    @property
    def depth(self) -> ScanDepth:
        """How far back to read, and for how long. Raises UsageError."""
        since_s = parse_duration(self.since or _SINCE, "--since")
        budget_s = parse_duration(self.log_budget or _BUDGET, "--log-budget")
        return ScanDepth(round((utc_now().timestamp() - since_s) * 1000), budget_s)


def doctor(
    run: Invocation,
    which: Selection,
    options: DoctorOptions,
    explain_rule: Annotated[
        str | None,
        typer.Option(
            "--explain", metavar="RULE", rich_help_panel=WHAT, help="What a rule means and how to mend it; no cluster."
        ),
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", rich_help_panel=WHAT, help="List all rules; no cluster.")] = False,
) -> Outcome:
    """Look for what is wrong with groups or the cluster, and say what to do.

    Without a group it looks at the cluster and at all groups; with --cluster at the cluster alone, with GROUP,
    --all-groups or a filter at groups alone. What could not be looked at is said with the reason, and fails no check.

    Examples:
    kgroup doctor orders-svc
    kgroup doctor --all-groups --fail-on critical
    kgroup doctor --explain rebalance-storm

    Exit codes: 0 2 3 4 5 6 7 8
    """
    if explain_rule is not None or rules:
        return _explain(which, options, explain_rule, rules=rules)
    check_selection(which)
    fail_on, depth = options.severity, options.depth
    narrowed = which != Selection()
    if options.cluster and narrowed:
        raise UsageError("--cluster looks at no group: without groups and filters")
    with Cluster(run.settings) as cluster:
        diagnoses: list[Diagnosis] = []
        errors: tuple[RowError, ...] = ()
        if not narrowed:
            diagnoses.append(diagnose_cluster(cluster_snapshot(cluster, cluster.list_groups())))
        if not options.cluster:
            found = _consumers(run.reporter, _read_groups(run.reporter, cluster, which))
            errors = found.errors
            diagnoses += [diagnose_group(one) for one in group_snapshots(run.reporter, cluster, found, depth)]
        ref = cluster.ref
    decision = check_fail_on(diagnoses, fail_on)
    for line in decision.lines:
        run.reporter.warn(f"FAILED  {line}")
    if not diagnoses and not errors:
        if fail_on is not None:  # a typo in --topic must not make a check that always holds
            raise NotFound("no group is chosen, so nothing was checked", hint="kgroup list")
        run.reporter.note("no group is chosen: nothing to do")
    finished = [_with_connection_options(run, diagnosis) for diagnosis in diagnoses]
    return outcome(finished, ref, errors, check_failed=decision.failed, verbose=options.verbose)


def _explain(which: Selection, options: DoctorOptions, rule: str | None, *, rules: bool) -> Outcome:
    if which != Selection() or options != DoctorOptions(verbose=options.verbose):
        raise UsageError("--explain and --rules look at no cluster: without groups and other options")
    if rules and rule is not None:
        raise UsageError("--explain and --rules: one of them")
    if rule is None:
        return rules_outcome(tuple(explanations().values()))
    return explanation_outcome(explain(rule))


def _read_groups(reporter: Reporter, cluster: Cluster, which: Selection) -> Snapshot:
    """All chosen groups in one snapshot; notes are reported."""
    parts = list(snapshots(reporter, cluster, which, _WANT))
    for note in dict.fromkeys(note for part in parts for note in part.notes):
        reporter.note(note)
    groups = tuple(group for part in parts for group in part.groups)
    errors = tuple(error for part in parts for error in part.errors)
    return Snapshot(groups, _failures(errors), ())


def _failures(errors: Sequence[RowError]) -> tuple[RowError, ...]:
    """Leave out unknown topics and pending transactions: those are findings."""
    return tuple(error for error in errors if error.code not in ("unknown-topic", "pending-transaction"))


def _consumers(reporter: Reporter, found: Snapshot) -> Snapshot:
    """Leave out the groups of other frameworks: their members and offsets follow other rules."""
    others = [group for group in found.groups if not is_of_consumers(group.protocol_type)]
    if others:
        kinds = ", ".join(sorted({group.protocol_type or "" for group in others}))
        reporter.note(f"left out, {plural(len(others), 'group')} of other frameworks ({kinds}): kgroup list")
    return replace(found, groups=tuple(group for group in found.groups if is_of_consumers(group.protocol_type)))


def _with_connection_options(run: Invocation, diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis with commands that reach this cluster when they are pasted."""
    return replace(diagnosis, findings=tuple(_finding_with_options(run, finding) for finding in diagnosis.findings))


def _finding_with_options(run: Invocation, finding: Finding) -> Finding:
    commands = (command.shown(run.command) if isinstance(command, Hint) else command for command in finding.commands)
    return replace(finding, commands=tuple(commands))
