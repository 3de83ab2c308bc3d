"""Checks before a plan is made, and the wait for its groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kgroup.changes.execute import PlannedChange, Source, check_plan
from kgroup.changes.options import Change, Execution
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.member_sessions import WHILE_PODS_RESTART, remaining_members
from kgroup.groups.selection import Groups, names_of
from kgroup.model.accept_codes import ACCEPTED
from kgroup.model.reporter import NullReporter, Reporter
from kgroup.queries.wait import DEFAULT_WITHIN, EMPTY, wait_until
from kgroup.settings.invocation import Invocation
from kgroup.support.atomic_file import AtomicFile
from kgroup.support.durations import parse_duration
from kgroup.support.errors import NOT_EMPTY, Refused, UsageError
from kgroup.support.units import some_of


def check_execution(run: Invocation, how: Execution) -> None:
    """Raise UsageError for invalid options and Refused for protected contexts, before the cluster is contacted."""
    accepted = ACCEPTED.get(run.verb, ())
    if how.execute and how.dry_run:
        raise UsageError("--execute and --dry-run are mutually exclusive")
    for code in how.accept or ():
        if code == NOT_EMPTY:
            raise UsageError(
                "--accept not-empty is not possible: the broker refuses to change a group that has members",
                hint="Stop the members, or add --wait-empty.",
            )
        if code not in accepted:
            raise UsageError(
                f"--accept {code}: kgroup {run.verb} has no such refusal",
                hint=f"choose one of: {', '.join(accepted)}",
            )
    if how.expect is not None and how.expect < 0:
        raise UsageError(f"--expect must be 0 or greater, not {how.expect}")
    run.reporter.note_effect("nothing was changed")
    if how.execute:
        run.settings.require_change_allowed()


def prepare_change(run: Invocation, how: Change) -> None:
    """As ``check_execution``, and the options that only verbs that change offsets have."""
    if how.within is not None and not how.wait_empty:
        raise UsageError("--within requires --wait-empty")
    if how.within is not None:
        parse_duration(how.within, "--within")
    if how.backup not in (None, "-"):
        AtomicFile(how.backup, "--backup").check()
    check_execution(run, how)


def check_some_named(which: Groups) -> None:
    """Raise UsageError without any group: a verb that changes groups means all only with ``--all-groups``."""
    if not (names_of(which) or which.regex is not None or which.all_groups):
        raise UsageError("no group is named", hint="Name groups, or use --regex PATTERN or --all-groups")


def wait_empty(run: Invocation, cluster: ChangingCluster, how: Change, planned: PlannedChange[Source]) -> bool:
    """With ``--wait-empty --execute``, wait until the groups of a plan are empty; returns whether it waited.

    Then the verb plans again. It does not wait for a plan that waiting cannot mend, which ``execute_plan`` refuses.
    Raises Refused if the groups are not empty in time.
    """
    if not (how.wait_empty and how.execute):
        return False
    groups = planned.plan.groups if planned.waits_for is None else planned.waits_for
    live = [group.name for group in groups if not group.is_free]
    quiet = replace(run, reporter=NullReporter())  # execute_plan checks and reports the same
    if not live or not check_plan(quiet, cluster, how, planned, waits=True).passes:
        return False
    wait_until_empty(run.reporter, cluster, how, live)
    return True


def wait_until_empty(reporter: Reporter, cluster: ChangingCluster, how: Change, groups: Sequence[str]) -> None:
    """Wait until the groups are empty. Raises Refused if they are not empty in time."""
    within = how.within or DEFAULT_WITHIN
    waited = wait_until(reporter, cluster, groups, EMPTY, parse_duration(within, "--within"))
    if not waited.reached:
        left = [group for group in waited.missing if group.group]
        raise Refused(
            f"{some_of([group.name for group in left])}: still not empty after {within}",
            details=tuple(
                line for group in left if group.group for line in remaining_members(group.group, group.sessions)
            ),
            hint=f"Nothing was changed. Stop these members, or wait longer with --within. {WHILE_PODS_RESTART}",
            code=NOT_EMPTY,
        )
