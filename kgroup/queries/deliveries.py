"""Adds to share groups how often their records were delivered, from ``__share_group_state``."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kgroup.cluster.snapshot import Cluster
from kgroup.model.groups import Group
from kgroup.model.share_deliveries import Deliveries
from kgroup.model.share_group import ShareGroup
from kgroup.support.errors import KgroupError

BUDGET_S = 2.0
"""How long the topic is read where no option says so."""


def with_deliveries(cluster: Cluster, groups: Iterable[Group], budget_s: float) -> tuple[Group, ...]:
    """The groups; share groups with the deliveries on their partitions that have a start offset.

    ``budget_s`` is how long the topic is read; with 0 it is not read.
    """
    known = tuple(groups)
    wanted = {group.name: [p.tp for p in group.partitions if p.commit is not None] for group in known if group.is_share}
    if not wanted or budget_s <= 0:
        return known
    try:
        read = cluster.deliveries(wanted, budget_s)
    except KgroupError as error:
        read = dict.fromkeys(wanted, Deliveries(unread=error.message))
    return tuple(
        replace(group, share=replace(group.share or ShareGroup(), deliveries=read[group.name]))
        if group.name in read
        else group
        for group in known
    )
