"""``kgroup delete``: delete groups with all their committed offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer
from msgspec.structs import replace

from kgroup.changes.delete import idle_groups, plan_delete
from kgroup.changes.options import Change
from kgroup.changes.preconditions import check_some_named, prepare_change
from kgroup.changes.select_groups import groups_to_change, reload_groups
from kgroup.cli.panels import which_option
from kgroup.cluster.writes import ChangingCluster
from kgroup.commands.make_change import make_change
from kgroup.groups.selection import Groups, check_groups
from kgroup.model.clock_difference import CLOCK_SKEW
from kgroup.model.outcome import Outcome
from kgroup.output.pages.change import Wording
from kgroup.output.pages.delete import delete_outcome
from kgroup.settings.invocation import Invocation
from kgroup.support.durations import parse_duration
from kgroup.support.errors import Refused


def delete(
    run: Invocation,
    groups: Groups,
    how: Change,
    idle_for: Annotated[
        str | None,
        which_option(
            "--idle-for", metavar="DURATION", help="Only empty groups without commits and members for this long."
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every group.")] = False,
) -> Outcome:
    """Delete groups with all their offsets.

    Groups must be empty. kgroup undo restores a deleted group with its offsets, metadata and leader epochs. --idle-for
    scans __consumer_offsets back to that time; groups whose idle time is unknown are not deleted. If the brokers do not
    show their clock, a group that is idle long enough only by this machine's is refused (clock-skew). Patterns choose
    share groups with --type share only; undo restores their start offsets, not their delivery states.

    Examples:
    # the plan for one group
    kgroup delete orders-old
    # all groups that were idle for 30 days
    kgroup delete --all-groups --in-state Empty --idle-for 30d
    # delete the groups of a test
    kgroup delete --regex 'test-.*' --execute

    Exit codes: 0 2 3 4 5 6 7 9 130 143

    Rights: DELETE G; DESCRIBE T; READ __consumer_offsets, or DESCRIBE Topic * and cluster: that no commits are
    hidden
    More rights: READ G, READ T: undo
    """
    check_groups(groups)
    idle_s = parse_duration(idle_for, "--idle-for") if idle_for is not None else None
    check_some_named(groups)
    prepare_change(run, how)
    with ChangingCluster(run.settings) as cluster:
        selected = groups_to_change(run.reporter, cluster, groups, verb=run.verb)
        signs: Mapping[str, int | None] = {}
        doubtful: Mapping[str, Refused] = {}
        if idle_s is not None:
            selected = replace(selected, groups=tuple(group for group in selected.groups if group.is_empty))
            selected, signs, doubtful = idle_groups(run.reporter, cluster, selected, idle_s)
        doubted = {} if CLOCK_SKEW in (how.accept or ()) else doubtful
        change, result = make_change(
            run,
            cluster,
            how,
            plan_delete(cluster, how, selected, doubted),
            lambda: plan_delete(cluster, how, reload_groups(cluster, selected), doubted),
        )
    wording = Wording("delete", change.context.subject, run.command_line, verbose=verbose)
    return delete_outcome(result, signs, wording, cluster.ref, run.reporter, run.command)
