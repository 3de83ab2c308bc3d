"""``kgroup evict``: remove members from a group: static ones that stopped without leaving, or stuck ones."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import replace

from kgroup.changes.evict import eviction_refusal, execute_evictions, read_survivors
from kgroup.changes.execute import COMMITS
from kgroup.changes.options import Execution
from kgroup.changes.preconditions import check_execution
from kgroup.changes.rights import missing_read_right
from kgroup.cli.panels import which_option
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.eviction import plan_eviction
from kgroup.groups.selection import Selection, check_groups
from kgroup.model.outcome import Outcome
from kgroup.output.pages.evict import evict_outcome, unread_outcome
from kgroup.queries.snapshots import snapshots
from kgroup.settings.invocation import Invocation
from kgroup.support.errors import UsageError


def evict(
    run: Invocation,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group.")],
    how: Execution,
    instance: Annotated[
        list[str] | None,
        which_option("--instance", metavar="ID", help="A static member, by its group.instance.id (repeatable)."),
    ] = None,
    member: Annotated[
        list[str] | None,
        which_option(
            "--member", metavar="ID", help="A member, by its member id, or by a client id that is unique (repeatable)."
        ),
    ] = None,
    all_members: Annotated[bool, which_option("--all-members", help="All members of the group.")] = False,
) -> Outcome:
    """Remove members from a group.

    This is for static members that were stopped: they do not leave the group (KIP-345), and the group is not empty
    until their session ends. Eviction is not fencing: a live member joins again within seconds. An eviction cannot
    be undone.

    Examples:
    # the plan for one static member
    kgroup evict pay-svc --instance pay-4
    # remove it
    kgroup evict pay-svc --instance pay-4 --execute
    # remove a member by its member id or client id
    kgroup evict pay-svc --member pay-svc-0 --execute
    # remove all members
    kgroup evict pay-svc --all-members --execute

    Exit codes: 0 2 3 4 5 6 7 9 130 143

    Rights: READ G; DESCRIBE T
    """
    if not (instance or member or all_members):
        raise UsageError("the members are missing", hint="choose one of: --instance ID, --member ID, --all-members")
    if all_members and (instance or member):
        raise UsageError("--all-members and --instance or --member are mutually exclusive")
    which = Selection(names=[group])
    check_groups(which)
    check_execution(run, how)
    with ChangingCluster(run.settings) as cluster:
        snapshot = next(snapshots(run.reporter, cluster, which, COMMITS))
        if not snapshot.groups:
            return unread_outcome(cluster.ref, snapshot.errors)
        target = snapshot.groups[0]
        plan = plan_eviction(target, instance or (), member or ())
        refusal = eviction_refusal(run, target, plan, how)
        if plan and not refusal:
            refusal = missing_read_right(run.reporter, cluster, group)
        done, survivors, stopped = plan, None, None
        if how.execute and plan and not refusal:
            done, stopped = execute_evictions(run, cluster, how, target, plan)
            survivors = read_survivors(cluster, group)
    if not plan and not refusal:
        run.reporter.note(f"nothing to do: {group} has no members")
    outcome = evict_outcome(target, done, refusal, survivors, cluster.ref, run.command_line, run.command)
    return outcome if stopped is None else replace(outcome, decided=stopped)
