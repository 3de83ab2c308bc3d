"""What ``kgroup delete`` changes: the idle groups, and the plan to delete groups with their offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from kgroup.changes.execute import ChangeContext, PlannedChange
from kgroup.changes.options import Change
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_plan import ChangePlan, ChangeRow, committed
from kgroup.groups.change_result import Refusal
from kgroup.groups.selection import SelectedGroups
from kgroup.groups.share_changes import lags_of
from kgroup.model.groups import Group
from kgroup.model.reporter import Reporter
from kgroup.support.durations import format_duration
from kgroup.support.errors import Refused
from kgroup.support.units import plural

_BUDGET_S, _SHOWN_BUDGET_S = 30.0, 3.0
"""How long the log is read: to choose groups, and then to show when those chosen were last active."""


def plan_delete(
    cluster: ChangingCluster, how: Change, selected: SelectedGroups, doubted: Mapping[str, Refused]
) -> PlannedChange[None]:
    # A group with unreadable commits could not be restored completely.
    unread = {group for group, _, _ in selected.unread}
    groups = tuple(group for group in selected.groups if group.name not in unread)
    rows = [
        ChangeRow(group.name, *tp, commit, None, counted=lags.get(tp))
        for group in groups
        for lags in (lags_of(group),)
        for tp, commit in sorted(committed(group).items())
    ]
    layouts = cluster.layouts({row.topic for row in rows}) if how.execute else {}
    names = frozenset(group.name for group in groups)
    plan = ChangePlan(groups, rows, deleted=names, errors=selected.errors)
    context = ChangeContext("delete", _subject(groups), layouts, blocked_action="it cannot be deleted")
    refusals = [Refusal(name, doubted[name]) for name in sorted(names & doubted.keys())]
    return PlannedChange(plan, context, None, refusals)


def idle_groups(
    reporter: Reporter, cluster: ChangingCluster, selected: SelectedGroups, idle_s: float
) -> tuple[SelectedGroups, Mapping[str, int | None], Mapping[str, Refused]]:
    """The idle groups, the last signs of all groups, and refusals for groups idle only by this machine's clock."""
    names = [group.name for group in selected.groups]
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
    known = [(group, signs.by_group[group.name]) for group in selected.groups if group.name in signs.by_group]
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
    if unseen := len(silent) - len(older):
        reporter.note(f"when {plural(unseen, 'group')} {'was' if unseen == 1 else 'were'} last active is not known")
    return replace(selected, groups=idle), {**signs.by_group, **older}, doubtful


def _subject(groups: Sequence[Group]) -> str:
    if not groups:
        return ""
    what = groups[0].name if len(groups) == 1 else plural(len(groups), "group")
    kind = "start offset" if all(group.is_share for group in groups) else "commit"
    return f"{what}, {plural(sum(len(committed(group)) for group in groups), kind)}"
