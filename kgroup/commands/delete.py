"""``kgroup delete``: delete groups with all their committed offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
import typer
from msgspec.structs import replace

from kgroup.changes.execute import ChangeContext
from kgroup.changes.options import Change
from kgroup.changes.preconditions import check_some_named, prepare_change
from kgroup.changes.select_groups import reload_groups, select_groups
from kgroup.cli.help_parts import WHICH
from kgroup.cluster.writes import ChangingCluster
from kgroup.commands.make_change import PlannedChange, make_change
from kgroup.groups.change_plan import ChangePlan, ChangeRow, commit_count, committed
from kgroup.groups.change_result import Refusal, Result
from kgroup.groups.selection import Groups, SelectedGroups, check_groups
from kgroup.model.blocks import Block, Cell, Column, Records, Styled, Table, Text
from kgroup.model.clocks import CLOCK_SKEW
from kgroup.model.columns import Columns, column
from kgroup.model.groups import Group, RowError, partitions_document
from kgroup.model.outcome import Outcome
from kgroup.model.reporter import Reporter
from kgroup.output.pages.change import ROWS_ON_A_PAGE, Wording, outcome, with_rows
from kgroup.settings.invocation import Invocation
from kgroup.support.clock import utc_ms
from kgroup.support.durations import format_duration, parse_duration
from kgroup.support.errors import Refused
from kgroup.support.instants import rfc3339, short_time
from kgroup.support.units import plural

_BUDGET_S, _SHOWN_BUDGET_S = 30.0, 1.0
"""How long the log is read: to choose groups, and then to show when those chosen were last active."""

_HEADER = ("group", "type", "state", "commit_count", "last_activity_at", "deleted", "error_code", "error_message")
_COLUMNS = (
    Column("GROUP", fold=True),
    Column("TYPE", drop=1),
    Column("STATE"),
    Column("COMMITS", right=True),
    Column("LAST-ACTIVITY"),
    Column("NOTE", fold=True),
)


class Deletion(msgspec.Struct, frozen=True):
    """A group to delete. ``last_activity_ms`` is its newest commit or change; None if none was read.

    ``deleted`` is None before the attempt, ``error`` what prevents it. ``change_id`` is the change's id in
    the journal, None if nothing was changed.
    """

    group: Group
    last_activity_ms: int | None
    deleted: bool | None
    error: RowError | None
    change_id: str | None = None

    def document(self) -> Mapping[str, Any]:
        """Its JSON form."""
        return {
            "group": self.group.name,
            "type": self.group.type,
            "state": self.group.state,
            "commit_count": commit_count(self.group),
            "hidden_commits": partitions_document(self.group.hidden_commits),
            "last_activity_at": rfc3339(self.last_activity_ms),
            "last_activity_at_ms": self.last_activity_ms,
            "deleted": self.deleted,
            "error_code": self.error.code if self.error else None,
            "error_message": self.error.message if self.error else None,
            "change_id": self.change_id,
        }

    @property
    def record(self) -> tuple[str | int | None, ...]:
        """Its row for CSV."""
        document = self.document()
        deleted = None if self.deleted is None else str(self.deleted).lower()
        return tuple(deleted if name == "deleted" else document[name] for name in _HEADER)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Its row on the page."""
        note: Cell = Styled(self.error.code, "bad") if self.error else "deleted" if self.deleted else None
        when = None if self.last_activity_ms is None else short_time(self.last_activity_ms, utc_ms())
        group = self.group
        return (group.name, group.type, group.state, commit_count(group), when, note)


def delete(
    run: Invocation,
    groups: Groups,
    how: Change,
    idle_for: Annotated[
        str | None,
        typer.Option(
            "--idle-for",
            metavar="DURATION",
            rich_help_panel=WHICH,
            help="Only empty groups without commits and members for this long.",
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every group.")] = False,
) -> Outcome:
    """Delete groups with all their offsets.

    Groups must be empty. kgroup undo restores a deleted group with its offsets, metadata and leader epochs. --idle-for
    scans __consumer_offsets back to that time; groups whose idle time is unknown are not deleted. If the brokers do not
    show their clock, a group that is idle long enough only by this machine's is refused (clock-skew).

    Examples:
    # the plan for one group
    kgroup delete orders-old
    # all groups that were idle for 30 days
    kgroup delete --all-groups --in-state Empty --idle-for 30d
    # delete the groups of a test
    kgroup delete --regex 'test-.*' --execute

    Exit codes: 0 2 3 4 5 6 7 9 130 143
    """
    check_groups(groups)
    idle_s = parse_duration(idle_for, "--idle-for") if idle_for is not None else None
    check_some_named(groups)
    prepare_change(run, how)
    with ChangingCluster(run.settings) as cluster:
        found = select_groups(run.reporter, cluster, groups, verb=run.verb)
        signs: Mapping[str, int | None] = {}
        doubtful: Mapping[str, Refused] = {}
        if idle_s is not None:
            found = replace(found, groups=tuple(group for group in found.groups if group.is_empty))
            found, signs, doubtful = _idle(run.reporter, cluster, found, idle_s)
        doubted = {} if CLOCK_SKEW in (how.accept or ()) else doubtful
        change, result = make_change(
            run,
            cluster,
            how,
            _planned(cluster, how, found, doubted),
            lambda: _planned(cluster, how, reload_groups(cluster, found), doubted),
        )
    deletions = _deletions(result, signs)
    shown = outcome(
        result,
        Wording("delete", change.context.subject, run.command_line),
        cluster.ref,
        run.reporter,
        run.command,
        nothing="nothing to do: no group is chosen",
        table=lambda: _table(deletions, verbose=verbose),
    )
    return with_rows(shown, deletions, lambda: Records(_HEADER, [deletion.record for deletion in deletions]))


def _planned(
    cluster: ChangingCluster, how: Change, found: SelectedGroups, doubted: Mapping[str, Refused]
) -> PlannedChange[None]:
    # A group with unreadable commits could not be restored completely.
    unread = {group for group, _, _ in found.unread}
    groups = tuple(group for group in found.groups if group.name not in unread)
    rows = Columns.of(
        ChangeRow(group.name, *tp, commit, None) for group in groups for tp, commit in sorted(committed(group).items())
    )
    layouts = cluster.layouts(set(column(rows, "topic"))) if how.execute else {}
    names = frozenset(group.name for group in groups)
    plan = ChangePlan(groups, rows, deleted=names, errors=found.errors)
    context = ChangeContext("delete", _subject(groups), layouts, blocked_action="it cannot be deleted")
    refusals = [Refusal(name, doubted[name]) for name in sorted(names & doubted.keys())]
    return PlannedChange(plan, context, None, refusals)


def _idle(
    reporter: Reporter, cluster: ChangingCluster, found: SelectedGroups, idle_s: float
) -> tuple[SelectedGroups, Mapping[str, int | None], Mapping[str, Refused]]:
    """The idle groups, the last signs of all groups, and refusals for groups idle only by this machine's clock."""
    names = [group.name for group in found.groups]
    clocks = cluster.clocks()
    if clocks.warning:
        reporter.warn(clocks.warning)
    idle_ms = round(idle_s * 1000)
    since_ms = clocks.now_ms - idle_ms
    surely_ms = None if clocks.certain_ms is None else clocks.certain_ms - idle_ms
    signs = cluster.last_activities(names, since_ms if surely_ms is None else surely_ms, _BUDGET_S)
    if signs.note:
        unknown = plural(len(names) - len(signs.by_group), "group")
        reporter.note(f"{unknown} left out, because it is unknown how long they were idle: {signs.note}")
    known = [(group, signs.by_group[group.name]) for group in found.groups if group.name in signs.by_group]
    idle = tuple(group for group, sign_ms in known if sign_ms is None or sign_ms < since_ms)
    if len(idle) < len(known):
        reporter.note(f"{plural(len(known) - len(idle), 'group')} left out: active within {format_duration(idle_s)}")
    doubtful = {
        group.name: clocks.refusal(group.name, idle_s)
        for group in idle
        if surely_ms is None or (signs.by_group[group.name] or surely_ms - 1) >= surely_ms
    }
    # The log was read back to that time, and may have nothing of these groups up to there.
    silent = [group.name for group in idle if signs.by_group[group.name] is None]
    older = cluster.last_activities(silent, 0, _SHOWN_BUDGET_S).by_group if silent else {}
    return replace(found, groups=idle), {**signs.by_group, **older}, doubtful


def _deletions(result: Result, signs: Mapping[str, int | None]) -> tuple[Deletion, ...]:
    refused = {refusal.group: refusal.row for refusal in result.refusals}
    found = []
    for group in result.plan.groups:
        name = group.name
        tried = name in result.whole
        fault = result.whole.get(name)
        found.append(
            Deletion(group, signs.get(name), (fault is None) if tried else None, fault or refused.get(name), result.id)
        )
    return tuple(found)


def _table(deletions: Sequence[Deletion], *, verbose: bool) -> list[Block]:
    if not deletions:
        return []
    shown = deletions if verbose else deletions[:ROWS_ON_A_PAGE]
    table = Table(_COLUMNS, [deletion.cells for deletion in shown], sparse=frozenset({"NOTE", "LAST-ACTIVITY"}))
    more = len(deletions) - len(shown)
    return [table, Text((f"{more} more: --verbose",))] if more else [table]


def _subject(groups: Sequence[Group]) -> str:
    if not groups:
        return ""
    what = groups[0].name if len(groups) == 1 else plural(len(groups), "group")
    return f"{what}, {plural(sum(map(commit_count, groups)), 'commit')}"
