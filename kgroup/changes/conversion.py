"""The plan to convert groups, and the removal of the members that a killed conversion left.

Every commit is made again, byte for byte, and then the type is changed.

The offsets of an Empty classic group expire counted from the time it became Empty. Those of a consumer group expire
counted from each commit. Without new commits a group that was idle for long loses its offsets minutes after the
conversion (seen on a broker).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.cluster.topics import Layouts
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_plan import ChangePlan, ChangeRow, committed
from kgroup.groups.member_labels import stale_members
from kgroup.groups.selection import SelectedGroups
from kgroup.model.groups import Group, RowError
from kgroup.model.reporter import Reporter
from kgroup.support.durations import format_duration
from kgroup.support.errors import KgroupError, NotFound


def plan_conversion(
    selected: SelectedGroups,
    layouts: Layouts,
    targets: Mapping[str, str],
    configs: Mapping[str, Mapping[str, str | None]],
) -> ChangePlan:
    """Rows that write each commit of these groups unchanged, and the new type of each group.

    Commits on deleted topics cannot be made again, and are left out.
    """
    rows = [
        ChangeRow(group.name, *tp, commit, commit)
        for group in selected.groups
        if group.name in targets
        for tp, commit in sorted(committed(group).items())
        if not isinstance(layouts.get(tp.topic), NotFound)
    ]
    return ChangePlan(selected.groups, tuple(rows), errors=_whole(selected), converted=dict(targets), configs=configs)


def _whole(selected: SelectedGroups) -> tuple[RowError, ...]:
    """The errors of whole groups; an unreadable commit is reported again before it is written."""
    return tuple(error for error in selected.errors if error.partition is None)


def remove_stale_members(
    reporter: Reporter, cluster: ChangingCluster, groups: Sequence[Group], *, execute: bool
) -> bool:
    """Report the groups that hold such members; with ``execute``, remove them. Returns whether removal was tried."""
    own = stale_members(groups)
    if not own:
        return False
    ends = _sessions(cluster, [group for group in groups if group.name in own])
    for name in own:
        what = "kgroup removes it now" if execute else "--execute removes it"
        reporter.note(f"{name} has a member that a killed kgroup run left behind{ends.get(name, '')}: {what}")
    if not execute:
        return False
    for name, error in cluster.remove_own_members(own).items():
        if error:
            reporter.warn(f"{name}: the member that a kgroup run left behind could not be removed: {error.message}")
    return True


def _sessions(cluster: ChangingCluster, groups: Sequence[Group]) -> dict[str, str]:
    """When their sessions end, as text by group, if that is known."""
    try:
        sessions = cluster.session_timeouts(groups)
    except KgroupError:
        return {}
    timeouts = {group.name: sessions.of(group) for group in groups}
    return {
        name: f" (its session ends within {format_duration(max(own.values()) / 1000)})"
        for name, own in timeouts.items()
        if own
    }
