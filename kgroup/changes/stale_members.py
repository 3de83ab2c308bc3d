"""kgroup's own members that a killed conversion left in groups: reported, and removed before the next change."""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.members import stale_members
from kgroup.model.groups import Group
from kgroup.model.reporter import Reporter
from kgroup.support.durations import format_duration
from kgroup.support.errors import KgroupError


def remove_stale_members(
    reporter: Reporter, cluster: ChangingCluster, groups: Sequence[Group], *, execute: bool
) -> bool:
    """Report the groups that hold such members; with ``execute``, remove them. Returns whether removal was tried."""
    own = stale_members(groups)
    if not own:
        return False
    ends = _sessions(cluster, [group for group in groups if group.name in own])
    for name in own:
        what = "it is removed now" if execute else "--execute removes it"
        reporter.note(f"{name} holds kgroup's own member, of a run that was killed{ends.get(name, '')}: {what}")
    if not execute:
        return False
    for name, error in cluster.remove_own_members(own).items():
        if error:
            reporter.warn(f"{name}: kgroup's own member could not be removed: {error.message}")
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
