"""``kgroup doctor``: what is wrong with groups or the cluster, the evidence, and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from msgspec.structs import replace

from kgroup.catchup.service.pending import PendingCatchups, begin_reading_ledger
from kgroup.changes.own_changes import latest_changes
from kgroup.cli.panels import what_option
from kgroup.cluster.broker_errors import PENDING_TRANSACTION
from kgroup.cluster.snapshot import Cluster, SnapshotRequest
from kgroup.groups.doctor.diagnose import check_fail_on, diagnose_cluster, diagnose_group
from kgroup.groups.doctor.finding import Diagnosis, Severity
from kgroup.groups.selection import Selection, check_selection, named_groups
from kgroup.model.groups import RowError
from kgroup.model.outcome import Outcome
from kgroup.model.output_format import Format
from kgroup.output.pages.doctor import explanation_outcome, outcome, rules_outcome
from kgroup.queries.doctor import GroupsReader, ScanDepth, cluster_snapshot, group_snapshots
from kgroup.queries.doctor_explanations import explain, explanations
from kgroup.queries.log_options import warn_of_clocks
from kgroup.queries.snapshots import in_parts
from kgroup.settings.invocation import Invocation
from kgroup.support.durations import parse_duration
from kgroup.support.errors import NotFound, UsageError
from kgroup.support.hint import Hint
from kgroup.support.units import plural

_WANT = SnapshotRequest(generation_budget_s=0, all_types=True, settings=True)
_SINCE, _BUDGET = "1h", "5s"


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    cluster: Annotated[bool, what_option("--cluster", help="Check only the cluster, no groups.")] = False
    fail_on: Annotated[
        str | None,
        what_option(
            "--fail-on",
            metavar="info|warning|critical",
            help="Fail (exit 8) on a finding of this severity or a worse one.",
        ),
    ] = None
    since: Annotated[
        str | None,
        what_option(
            "--since",
            metavar="DURATION",
            help=f"How far back rebalances, restarts and commits are read (default: {_SINCE}).",
        ),
    ] = None
    scan_time: Annotated[
        str | None,
        what_option(
            "--scan-time",
            metavar="DURATION",
            help=f"Time limit for scanning __consumer_offsets; 0s skips it (default: {_BUDGET}).",
        ),
    ] = None
    verbose: Annotated[bool, what_option("--verbose", "-v", help="Show all partitions, all remedies, the sources.")] = (
        False
    )

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
        budget_s = parse_duration(self.scan_time or _BUDGET, "--scan-time")
        return ScanDepth(round(since_s * 1000), budget_s)


def doctor(
    run: Invocation,
    which: Selection,
    options: DoctorOptions,
    explain_rule: Annotated[
        str | None, what_option("--explain", metavar="RULE", help="Explain a rule and its remedy; needs no cluster.")
    ] = None,
    rules: Annotated[bool, what_option("--rules", help="List all rules; needs no cluster.")] = False,
) -> Outcome:
    """Find what is wrong with groups or the cluster, and how to fix it.

    Without a group, it checks the cluster and all groups; with --cluster the cluster only; with GROUP, --all-groups
    or a filter the groups only. What could not be checked is listed with the reason, and fails no check.

    Examples:
    # what is wrong with a group
    kgroup doctor orders-svc
    # an alert check: exit code 8 on a critical finding
    kgroup doctor --all-groups --fail-on critical
    # what a finding means
    kgroup doctor --explain rebalance-storm

    Exit codes: 0 2 3 4 5 6 7 8

    Rights: DESCRIBE G; DESCRIBE T
    More rights: as describe; DESCRIBE_CONFIGS G; DESCRIBE and DESCRIBE_CONFIGS cluster: rules that are not checked
    without
    """
    if explain_rule is not None or rules:
        return _explain(which, options, explain_rule, rules=rules)
    check_selection(which)
    fail_on, depth = options.severity, options.depth
    narrowed = which != Selection()
    if options.cluster and narrowed:
        raise UsageError("--cluster and a choice of groups are mutually exclusive")
    with Cluster(run.settings) as cluster:
        warn_of_clocks(run.reporter, cluster)
        diagnoses: list[Diagnosis] = []
        errors: tuple[RowError, ...] = ()
        if not narrowed:
            diagnoses.append(diagnose_cluster(cluster_snapshot(cluster)))
        if not options.cluster:
            of_groups = _diagnose_groups(run, cluster, which, depth)
            diagnoses += of_groups.diagnoses
            errors = of_groups.errors
        ref = cluster.ref
    decision = check_fail_on(diagnoses, fail_on)
    for line in decision.lines:
        run.reporter.warn(f"check failed: {line}")
    if not diagnoses and not errors:
        if fail_on is not None:  # a typo in --topic must not make a check that always holds
            raise NotFound("no group is chosen, so nothing was checked", hint=Hint("{}", ("list",)))
        run.reporter.note("no group is chosen: nothing to do")
    return outcome(diagnoses, ref, errors, check_failed=decision.failed, verbose=options.verbose)


def _explain(which: Selection, options: DoctorOptions, rule: str | None, *, rules: bool) -> Outcome:
    if which != Selection() or options != DoctorOptions(verbose=options.verbose):
        raise UsageError("--explain and --rules read no cluster: leave out groups and other options")
    if rules and rule is not None:
        raise UsageError("--explain and --rules are mutually exclusive")
    if rule is None:
        return rules_outcome(tuple(explanations().values()))
    return explanation_outcome(explain(rule))


@dataclass(slots=True)
class _Found:
    """The diagnoses of groups, and the errors of groups that could not be read."""

    diagnoses: list[Diagnosis] = field(default_factory=list)
    errors: tuple[RowError, ...] = ()


def _diagnose_groups(run: Invocation, cluster: Cluster, which: Selection, depth: ScanDepth) -> _Found:
    """Read the chosen groups in parts, and keep only the diagnoses."""
    reporter, ledger = run.reporter, None
    begun = begin_reading_ledger(run.settings, cluster, named_groups(which))
    diagnosed, notes, others = _Found(), dict[str, None](), list[str]()
    count, parts = in_parts(reporter, cluster, which, _WANT)
    reader = GroupsReader(cluster, depth, count, latest_changes(cluster.ref.cluster_id))
    for size, snapshot in parts:
        diagnosed.errors += _failures(snapshot.errors)
        notes |= dict.fromkeys(snapshot.notes)
        # The members and offsets of other frameworks' groups follow other rules.
        checked = {group.name for group in snapshot.groups if group.is_of_consumers}
        consumers = tuple(group for group in snapshot.groups if group.name in checked)
        others += [group.protocol_type or "" for group in snapshot.groups if group.name not in checked]
        part = replace(snapshot, groups=consumers)
        snapshots = group_snapshots(reader, part, size)
        ledger = begun(reporter) if ledger is None else ledger
        pending = PendingCatchups.read(Format.JSON, ledger, consumers, on_page=False)
        documents = pending.documents_for(group.name for group in consumers)
        unread = {} if pending.unknown is None else {"pending": pending.unknown}
        for one in snapshots:
            of_one = documents[one.group.name]
            known = replace(one, pending=None if of_one is None else tuple(of_one), unread={**one.unread, **unread})
            diagnosed.diagnoses.append(diagnose_group(known))
    for note in notes:
        reporter.note(note)
    if others:
        left = f"left out, {plural(len(others), 'group')} of other frameworks"
        reporter.note(f"{left} ({', '.join(sorted(set(others)))}): {Hint('{}', ('list',))}")
    reader.note(reporter)
    return diagnosed


def _failures(errors: Sequence[RowError]) -> tuple[RowError, ...]:
    """Leave out unknown topics and pending transactions: those are findings."""
    return tuple(error for error in errors if error.code not in ("unknown-topic", PENDING_TRANSACTION))
