"""``kgroup wait``: block until groups are empty, stable, or have caught up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from kgroup.cli.help_parts import SAFETY, WHAT
from kgroup.cluster.snapshot import Cluster, SnapshotRequest
from kgroup.groups.member_sessions import evict_text, session_text
from kgroup.groups.members import labels
from kgroup.groups.selection import Selection, check_selection, names_of, names_only, unknown_groups
from kgroup.groups.wait_conditions import FORMS, Condition, holds_without_group, parse_conditions
from kgroup.model.blocks import BlankLine, Block, Cell, Column, Records, Screen, Table, Text, Title
from kgroup.model.outcome import Outcome
from kgroup.model.reporter import Reporter
from kgroup.queries.snapshots import snapshots
from kgroup.queries.wait import DEFAULT_WITHIN, GroupWaitResult, WaitResult, error_of_row, wait_until
from kgroup.settings.invocation import Invocation
from kgroup.support.durations import format_duration, parse_duration
from kgroup.support.errors import NotFound, UsageError
from kgroup.support.units import plural

_ROWS = 20
_STATE_ONLY = SnapshotRequest(offsets=False, logs=False, generation_budget_s=0)
_GROUPS = (
    Column("GROUP", fold=True),
    Column("TYPE", drop=2),
    Column("STATE"),
    Column("MEMBERS", right=True, drop=1),
    Column("LAG", right=True),
    Column("WAITED", right=True, drop=3),
    Column("NOT-MET"),
)
_MEMBERS = (
    Column("GROUP", fold=True, drop=3),
    Column("MEMBER", fold=True),
    Column("MEMBER-ID", wide=True),
    Column("INSTANCE-ID", wide=True),
    Column("HOST"),
    Column("SESSION"),
)
_HEADER = ("group", "type", "state", "member_count", "lag", "condition", "holds", "observed", "waited_ms")


@dataclass(frozen=True, slots=True)
class WaitOptions:
    """What to wait for, and how long."""

    conditions: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="CONDITION",
            rich_help_panel=WHAT,
            help=f"Condition to wait for (repeatable, all must hold): {', '.join(FORMS)}.",
        ),
    ] = None
    within: Annotated[
        str,
        typer.Option(
            "--within", metavar="DURATION", rich_help_panel=WHAT, help=f"Time limit (default: {DEFAULT_WITHIN})."
        ),
    ] = DEFAULT_WITHIN
    hold: Annotated[
        str,
        typer.Option(
            "--hold",
            metavar="DURATION",
            rich_help_panel=WHAT,
            help=("The conditions must hold for this long without a break; use 15s against crash loops (default: 0s)."),
        ),
    ] = "0s"
    new: Annotated[
        bool,
        typer.Option("--new", rich_help_panel=SAFETY, help="Wait for named groups that do not exist yet."),
    ] = False


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
    """
    check_selection(which)
    conditions = parse_conditions(until.conditions or ())
    within_s, hold_s = parse_duration(until.within, "--within"), parse_duration(until.hold, "--hold")
    if hold_s > within_s:
        raise UsageError(f"--hold must be at most --within: {until.hold} is more than {until.within}")
    _check_choice(which, conditions, new=until.new)
    with Cluster(run.settings) as cluster:
        names = _names(run.reporter, cluster, which, new=until.new)
        if not names:
            run.reporter.note("nothing to wait for: no group is chosen")
        waited = wait_until(run.reporter, cluster, names, conditions, within_s, hold_s)
        return Outcome(
            data=waited.groups,
            screen=lambda: _screen(waited, conditions, within_s, hold_s),
            records=lambda: Records(_HEADER, [row for group in waited.groups for row in _rows(group)]),
            cluster=cluster.ref,
            check_failed=not waited.reached,
        )


def _check_choice(which: Selection, conditions: Sequence[Condition], *, new: bool) -> None:
    """Raise UsageError if no groups are chosen (waiting for all must be explicit), or if ``--new`` does not apply."""
    if not (names_of(which) or which.regex is not None or which.all_groups):
        raise UsageError("no group is chosen", hint="kgroup wait GROUP --for ..., or --regex, or --all-groups")
    if new and (not names_only(which) or which.topic or which.expect is not None):
        raise UsageError("--new requires groups by name, without --regex, --all-groups, --expect and filters")
    if new and holds_without_group(conditions):
        both = " and ".join(condition.text for condition in conditions)
        raise UsageError(f"--new: {both} already holds for a group that does not exist; there is nothing to wait for")


def _names(reporter: Reporter, cluster: Cluster, which: Selection, *, new: bool) -> tuple[str, ...]:
    """The groups to wait for, fixed from now on. Raises NotFound for a named group that does not exist."""
    try:
        chosen = list(snapshots(reporter, cluster, which, _STATE_ONLY))
    except NotFound:
        if new:
            return names_of(which)
        raise
    if new:
        return names_of(which)
    names = {group.name: None for snapshot in chosen for group in snapshot.groups}
    for error in (error for snapshot in chosen for error in snapshot.errors):
        if error.code == NotFound.code and error.group is None:
            listed = cluster.list_groups().groups
            missing = set(names_of(which)) - names.keys()
            raise unknown_groups(sorted(missing), listed, cluster.ref.label)
        if error.group not in names:  # the wait reads the groups that were found again
            raise error_of_row(error)
    return tuple(names)


def _screen(waited: WaitResult, conditions: Sequence[Condition], within_s: float, hold_s: float) -> Screen:
    return Screen(tuple(_blocks(waited, conditions, within_s, hold_s)) if waited.groups else ())


def _blocks(waited: WaitResult, conditions: Sequence[Condition], within_s: float, hold_s: float) -> Iterator[Block]:
    groups = waited.groups
    what = groups[0].name if len(groups) == 1 else plural(len(groups), "group")
    wanted = ", ".join(condition.text for condition in conditions)
    held = f", held {format_duration(waited.held_s)}" if hold_s > 0 else ""
    if waited.reached:
        yield Title(f"DONE  wait {what}: {wanted}{held}")
    elif waited.missing:
        yield Title(f"NOT YET  wait {what}: {wanted}, not within {format_duration(within_s)}")
    else:
        yield Title(f"NOT YET  wait {what}: {wanted}{held} of {format_duration(hold_s)}")
    ranked = sorted(groups, key=lambda group: group.holds)
    rows = [_group_row(group) for group in ranked[:_ROWS]]
    yield Table(_GROUPS, rows, frozenset({"LAG", "NOT-MET"}))
    if len(ranked) > _ROWS:
        yield Text((f"{len(ranked) - _ROWS} more, {_told(ranked[_ROWS:])}: -o csv has all rows",))
    yield from _member_blocks(waited)


def _told(rest: Sequence[GroupWaitResult]) -> str:
    missing = sum(not group.holds for group in rest)
    return f"{missing} of them do not meet the conditions" if missing else "all of them meet the conditions"


def _group_row(group: GroupWaitResult) -> tuple[Cell, ...]:
    missing = [f"{j.condition.text}: {j.observed}" for j in group.results if not j.holds]
    return (
        group.name,
        group.group.type if group.group else None,
        group.group.state if group.group else None,
        group.member_count,
        group.lag,
        format_duration(round(group.waited_s)),
        "; ".join(missing) or None,
    )


def _member_blocks(waited: WaitResult) -> Iterator[Block]:
    """The members that remain, and how to evict static members that may be gone."""
    rows: list[tuple[Cell, ...]] = []
    evicting: list[str] = []
    for waiting in waited.missing:
        if waiting.group is None or not waiting.remaining:
            continue
        names = labels(waiting.group)
        rows += [
            (
                waiting.name,
                names[item.member.member_id],
                item.member.member_id,
                item.member.instance_id,
                item.member.host,
                session_text(item.member, item.session),
            )
            for item in waiting.remaining
        ]
        if text := evict_text(waiting.group, waiting.sessions):
            evicting.append(text)
    if rows:
        yield BlankLine()
        yield Table(_MEMBERS, rows[:_ROWS])
    if len(rows) > _ROWS:
        yield Text((f"{len(rows) - _ROWS} more members: -o json has all of them",))
    if evicting:
        yield Text((f"-> {evicting[0]}",))


def _rows(group: GroupWaitResult) -> Iterator[tuple[str | int | None, ...]]:
    document = group.document()
    same = tuple(document[key] for key in _HEADER[:5])
    for condition in document["conditions"]:
        holds = "true" if condition["holds"] else "false"
        yield (*same, condition["condition"], holds, condition["observed"], document["waited_ms"])
