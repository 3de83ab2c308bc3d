"""The plan to convert groups: every commit is made again, byte for byte, and then the type is changed.

The offsets of an Empty classic group expire counted from the time it became Empty. Those of a consumer group expire
counted from each commit. Without new commits a group that was idle for long loses its offsets minutes after the
conversion (seen on a broker).
"""

from __future__ import annotations

from collections.abc import Mapping

from kgroup.cluster.topics import TopicLayout
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_plan import ChangePlan, ChangeRow, committed
from kgroup.groups.selection import SelectedGroups
from kgroup.model.groups import RowError
from kgroup.support.errors import KgroupError, NotFound


def plan_conversion(
    cluster: ChangingCluster,
    found: SelectedGroups,
    targets: Mapping[str, str],
    configs: Mapping[str, Mapping[str, str | None]],
) -> tuple[ChangePlan, Mapping[str, TopicLayout | KgroupError]]:
    """Rows that write each commit of these groups unchanged, and the new type of each group; also the topic layouts.

    Commits on deleted topics cannot be made again, and are left out.
    """
    groups = [group for group in found.groups if group.name in targets]
    commits = {group.name: committed(group) for group in groups}
    layouts = cluster.layouts({topic for own in commits.values() for topic, _ in own})
    rows = [
        ChangeRow(name, *tp, commit, commit)
        for name, own in commits.items()
        for tp, commit in sorted(own.items())
        if not isinstance(layouts.get(tp.topic), NotFound)
    ]
    return ChangePlan(
        found.groups, tuple(rows), errors=_whole(found), converted=dict(targets), configs=configs
    ), layouts


def _whole(found: SelectedGroups) -> tuple[RowError, ...]:
    """The errors of whole groups; an unreadable commit is reported again before it is written."""
    return tuple(error for error in found.errors if error.partition is None)
