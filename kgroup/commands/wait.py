"""``kgroup wait``: block until groups are empty, stable, or have caught up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from kgroup.cli.panels import safety_option, what_option
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.selection import Selection, check_selection, names_of, names_only
from kgroup.groups.wait_conditions import FORMS, Condition, holds_without_group, parse_conditions
from kgroup.model.outcome import Outcome
from kgroup.model.streaming_query import is_query
from kgroup.output.pages.wait import records, screen, waited_group
from kgroup.queries.wait import DEFAULT_WITHIN, groups_to_wait_for, wait_until
from kgroup.settings.invocation import Invocation
from kgroup.support.durations import parse_duration
from kgroup.support.errors import UsageError


@dataclass(frozen=True, slots=True)
class WaitOptions:
    conditions: Annotated[
        list[str] | None,
        what_option(
            "--for", metavar="CONDITION", help=f"Condition to wait for (repeatable, all must hold): {', '.join(FORMS)}."
        ),
    ] = None
    within: Annotated[
        str, what_option("--within", metavar="DURATION", help=f"Time limit (default: {DEFAULT_WITHIN}).")
    ] = DEFAULT_WITHIN
    hold: Annotated[
        str,
        what_option(
            "--hold",
            metavar="DURATION",
            help="The conditions must hold for this long without a break; use 15s against crash loops (default: 0s).",
        ),
    ] = "0s"
    new: Annotated[bool, safety_option("--new", help="Wait for named groups that do not exist yet.")] = False


def wait(run: Invocation, which: Selection, until: WaitOptions) -> Outcome:
    """Wait until all groups meet the conditions of --for.

    The exit code is 0 if they do, 8 if they do not within the time limit, and 3 if the cluster does not answer at the
    end. Each event is a line on stderr. Groups are chosen at the start; an unknown group is an error at once,
    except with --new. --timeout limits one request, --within the whole wait.

    Examples:
    # until no member is in the group, and none returns for 15 seconds
    kgroup wait orders-svc --for empty --hold 15s --within 2m
    # until a deployment is complete and has caught up
    kgroup wait orders-svc --for members=6 --for lag=1000 --within 10m
    # until all groups of a team are migrated
    kgroup wait --regex 'orders-.*' --for type=consumer --for stable

    Exit codes: 0 2 3 4 5 6 8

    Rights: as describe
    """
    check_selection(which)
    conditions = parse_conditions(until.conditions or ())
    within_s, hold_s = parse_duration(until.within, "--within"), parse_duration(until.hold, "--hold")
    if hold_s > within_s:
        raise UsageError(f"--hold must be at most --within: {until.hold} is more than {until.within}")
    _check_choice(which, conditions, new=until.new)
    with Cluster(run.settings) as cluster:
        # The other conditions are about members, which a streaming query does not have.
        queries = all(condition.reads_lag for condition in conditions)
        names = groups_to_wait_for(run.reporter, cluster, which, new=until.new, queries=queries)
        if not names:
            run.reporter.note("nothing to wait for: no group is chosen")
        waited = wait_until(run.reporter, cluster, names, conditions, within_s, hold_s)
        return Outcome(
            data=tuple(map(waited_group, waited.groups)),
            screen=lambda: screen(waited, conditions, within_s, hold_s),
            records=lambda: records(waited),
            cluster=cluster.ref,
            check_failed=not waited.reached,
        )


def _check_choice(which: Selection, conditions: Sequence[Condition], *, new: bool) -> None:
    """Raise UsageError if no groups are chosen (waiting for all must be explicit), or if ``--new`` does not apply."""
    if not (names_of(which) or which.regex is not None or which.all_groups):
        raise UsageError("no group is chosen", hint="kgroup wait GROUP --for ..., or --regex, or --all-groups")
    named = next((name for name in names_of(which) if is_query(name)), None)
    if named is not None and (other := next((each.text for each in conditions if not each.reads_lag), None)):
        raise UsageError(
            f"--for {other}: {named} is a streaming query, which has no members",
            hint="wait for its lag, or its time lag",
        )
    if new and (not names_only(which) or which.topic or which.expect is not None):
        raise UsageError("--new requires groups by name, without --regex, --all-groups, --expect and filters")
    if new and holds_without_group(conditions):
        both = " and ".join(condition.text for condition in conditions)
        raise UsageError(f"--new: {both} already holds for a group that does not exist; there is nothing to wait for")
