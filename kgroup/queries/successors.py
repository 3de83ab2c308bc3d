"""Reads which other groups may have taken the partitions of groups without members over, of few groups at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.cluster.snapshot import Cluster
from kgroup.groups.successors import Successor, candidates, partitions_left, successor
from kgroup.groups.thresholds import TAKEN_OVER
from kgroup.model.groups import Group
from kgroup.support.errors import KgroupError

_MOST_OTHERS, _MOST_CANDIDATES = 2000, 5
_BUDGET_S = 1.0


def read_successors(
    cluster: Cluster, groups: Sequence[Group], emptied_ms: Mapping[str, int | None]
) -> dict[str, Successor]:
    """The successors of these groups, as far as they can be read; most groups have members, and need no request.

    ``emptied_ms`` is since when each is Empty, None: unknown.
    """
    left = {group.name: partitions_left(group) for group in groups if emptied_ms.get(group.name) is not None}
    left = {name: places for name, places in left.items() if places}
    if not left:
        return {}
    try:
        with cluster.time_limit(_BUDGET_S):
            listed = cluster.list_groups().groups
            names = [one.name for one in listed if one.type in ("classic", "consumer") and one.state != "Empty"]
            if not names or len(names) > _MOST_OTHERS:
                return {}
            committed = {
                name: tuple(commits)
                for name, commits in cluster.committed(names).items()
                if not isinstance(commits, KgroupError)
            }
            of_group = {name: candidates(places, committed)[:_MOST_CANDIDATES] for name, places in left.items()}
            wanted = {other for others in of_group.values() for other in others}
            if not wanted:
                return {}
            since_ms = min(at_ms for name in left if (at_ms := emptied_ms[name]) is not None) - TAKEN_OVER.value
            logs = cluster.group_logs(dict.fromkeys(wanted, since_ms), _BUDGET_S).logs
    except KgroupError:
        return {}
    found = {}
    for name, others in of_group.items():
        events = {other: logs[other].events for other in others if other in logs}
        if (one := successor(emptied_ms[name], events)) is not None:
            found[name] = one
    return found
