"""Reads the groups of ``kgroup list``, with the time of their newest commit or change of members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from kgroup.cluster.group_descriptions import TYPES_OFF
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.selection import Selection, check_expected
from kgroup.model.groups import ListedGroup, RowError
from kgroup.model.reporter import Reporter
from kgroup.model.share_group import SHARE
from kgroup.model.streaming_query import StreamingQuery, is_query
from kgroup.queries.snapshots import choose_groups
from kgroup.support.errors import NotFound
from kgroup.support.units import plural

_BUDGET_S, _IDLE_FOR_BUDGET_S = 1.0, 30.0
"""How long the log is read: shortly for a column, and for a filter until it is known of each group."""


class ActivityListing(msgspec.Struct, frozen=True):
    """Groups, and the time of the newest commit or change of each, as far as it is known."""

    groups: tuple[ListedGroup, ...]
    active_ms: Mapping[str, int | None]
    errors: tuple[RowError, ...]


def read_listing(
    reporter: Reporter, cluster: Cluster, which: Selection, coordinator: int | None, idle_s: float | None
) -> ActivityListing:
    """The groups that ``which`` selects, of this broker only, and idle for so long only.

    Raises as ``choose_groups`` does, and NotFound for an unknown broker.
    """
    selected = choose_groups(reporter, cluster, replace(which, expect=None), all_types=True)
    groups = selected.groups
    if coordinator is not None:
        if coordinator not in cluster.brokers:
            raise no_broker(coordinator, cluster.brokers, hint="--from-log lists what it kept")
        groups = tuple(group for group in groups if group.coordinator and group.coordinator.id == coordinator)
    active_ms: Mapping[str, int | None]
    if idle_s is None:
        active_ms = _last_active(cluster, groups, _BUDGET_S)
    else:
        groups, active_ms = _idle(reporter, cluster, groups, idle_s)
    check_expected(which, len(groups))
    groups, failed = cluster.member_counts(groups)
    for note in dict.fromkeys(each.message for each in failed if each.code in TYPES_OFF):
        reporter.note(note)
    failed = tuple(each for each in failed if each.code not in TYPES_OFF)
    # Both steps may report the same missing right: choosing a topic's groups, and counting members.
    return ActivityListing(groups, active_ms, tuple(dict.fromkeys(selected.errors + failed)))


def _idle(
    reporter: Reporter, cluster: Cluster, groups: Sequence[ListedGroup], idle_s: float
) -> tuple[tuple[ListedGroup, ...], Mapping[str, int | None]]:
    """The groups that were idle for so long, with the times of their newest commit or change."""
    active_ms = _last_active(cluster, groups, _IDLE_FOR_BUDGET_S)
    if unknown := len(groups) - len(active_ms):
        reporter.note(f"left out, because it is unknown how long they were idle: {plural(unknown, 'group')}")
    until_ms = cluster.now_ms() - round(idle_s * 1000)
    kept = tuple(group for group in groups if group.name in active_ms)
    return tuple(group for group in kept if (active_ms[group.name] or 0) <= until_ms), active_ms


def _last_active(cluster: Cluster, groups: Sequence[ListedGroup], budget_s: float) -> Mapping[str, int | None]:
    """When each group last committed or changed, and each streaming query last planned or finished a batch.

    What the members of a share group do is not in the log of groups: share groups are left out.
    """
    names = [group.name for group in groups if not is_query(group.name) and group.type != SHARE]
    read = cluster.queries.read(group.name for group in groups if is_query(group.name))
    of_queries = {name: query.state_since_ms for name, query in read.items() if isinstance(query, StreamingQuery)}
    return {**cluster.last_activities(names, 0, budget_s).by_group, **of_queries}


def no_broker(broker: int, known: Iterable[int], hint: str | None = None) -> NotFound:
    return NotFound(f"there is no broker {broker}, only {', '.join(map(str, sorted(known)))}", hint=hint)
