"""The plan to convert groups: all their commits are made again, byte for byte, and then the type is changed.

A classic group that is Empty keeps its offsets from the moment when it became so; a consumer group keeps each from its
commit. Converted as it is, a group that has been quiet for long loses them minutes later (seen on a broker).
"""

from __future__ import annotations

from collections.abc import Mapping

from kgroup.cluster.topics import TopicLayout
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_plan import ChangePlan, ChangeRow, committed
from kgroup.groups.selected_groups import SelectedGroups
from kgroup.model.groups import RowError
from kgroup.support.errors import KgroupError, NotFound


def plan_conversion(
    cluster: ChangingCluster,
    found: SelectedGroups,
    targets: Mapping[str, str],
    configs: Mapping[str, Mapping[str, str | None]],
) -> tuple[ChangePlan, Mapping[str, TopicLayout | KgroupError]]:
    """Rows that leave each commit of these groups as it is, and the type that each group is to have.

    Commits on topics that do not exist any more can't be made again, and are left out.
    """
    groups = [group for group in found.groups if group.name in targets]
    commits = {group.name: committed(group) for group in groups}
    layouts = cluster.layouts({topic for own in commits.values() for topic, _ in own})
    rows = [
        ChangeRow(name, *place, commit, commit)
        for name, own in commits.items()
        for place, commit in sorted(own.items())
        if not isinstance(layouts.get(place[0]), NotFound)
    ]
    return ChangePlan(
        found.groups, tuple(rows), errors=_whole(found), converted=dict(targets), configs=configs
    ), layouts


def _whole(found: SelectedGroups) -> tuple[RowError, ...]:
    """The failures that are a whole group's; a commit that can't be read is found again before it is written."""
    return tuple(error for error in found.errors if error.partition is None)
