"""Reads which other groups may have taken the partitions of groups without members over, of few groups at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kgroup.cluster.lag_reading import OTHERS_LIMIT, OtherGroups
from kgroup.cluster.refresh_cache import CachedValue
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.successors import Successor, candidates, partitions_left, successor
from kgroup.groups.thresholds import TAKEN_OVER
from kgroup.model.groups import DESCRIBED_TYPES, Group
from kgroup.model.topic_partition import TopicPartition
from kgroup.queries.lag_cache import SURROUNDINGS_EVERY_S
from kgroup.support.errors import KgroupError

_MOST_CANDIDATES = 5
_BUDGET_S = 1.0


def read_successors(
    cluster: Cluster,
    groups: Sequence[Group],
    emptied_ms: Mapping[str, int | None],
    others: OtherGroups | str | None = None,
) -> Mapping[str, Successor]:
    """The successors of these groups, as far as they can be read; most groups have members, and need no request.

    ``emptied_ms`` is since when each is Empty, None: unknown. ``others`` are the groups on the topics that lag, if they
    were read. Refreshes of ``--watch`` ask again only after some seconds.
    """
    left = {group.name: partitions_left(group) for group in groups if emptied_ms.get(group.name) is not None}
    left = {name: places for name, places in left.items() if places}
    if not left:
        return {}
    since_ms = {name: at_ms for name in left if (at_ms := emptied_ms[name]) is not None}
    known = cluster.cache.successors
    if known is None or known.about != since_ms or not known.is_fresh(SURROUNDINGS_EVERY_S):
        try:
            with cluster.time_limit(_BUDGET_S):
                successors = _successors(cluster, left, since_ms, others)
        except KgroupError:
            successors = {}
        known = cluster.cache.successors = CachedValue(successors, since_ms)
    return known.value


def _successors(
    cluster: Cluster,
    left: Mapping[str, Collection[TopicPartition]],
    since_ms: Mapping[str, int],
    others: OtherGroups | str | None,
) -> dict[str, Successor]:
    if isinstance(others, OtherGroups):
        committed = {name: tuple(each) for name, each in others.committed.items() if name not in others.empty}
    else:
        committed = _committed(cluster)
    of_group = {name: candidates(places, committed)[:_MOST_CANDIDATES] for name, places in left.items()}
    wanted = {other for names in of_group.values() for other in names}
    if not wanted:
        return {}
    logs = cluster.group_logs(dict.fromkeys(wanted, min(since_ms.values()) - TAKEN_OVER.value), _BUDGET_S).logs
    successors = {}
    for name, names in of_group.items():
        events = {other: logs[other].events for other in names if other in logs}
        if (one := successor(since_ms[name], events)) is not None:
            successors[name] = one
    return successors


def _committed(cluster: Cluster) -> dict[str, tuple[TopicPartition, ...]]:
    """The partitions on which the groups with members have commits; none of too many groups."""
    listed = cluster.list_groups().groups
    names = [one.name for one in listed if one.type in DESCRIBED_TYPES and one.state != "Empty"]
    if not names or len(names) > OTHERS_LIMIT:
        return {}
    answers = cluster.committed(names)
    return {name: tuple(each) for name, each in answers.items() if not isinstance(each, KgroupError)}
