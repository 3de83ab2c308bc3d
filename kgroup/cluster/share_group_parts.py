"""What a share group has in place of commits, and its settings, as the parts of a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgroup.cluster.assemble_group import GroupParts
from kgroup.cluster.coordinator.groups import GroupCoordinators, GroupDescription
from kgroup.model.groups import Coordinator
from kgroup.model.share_group import ShareGroup
from kgroup.support.errors import KgroupError

if TYPE_CHECKING:
    from kgroup.cluster.coordinator.share_groups import ShareOffsets


async def read_share_groups(
    coordinators: GroupCoordinators, groups: Sequence[str], *, offsets: bool, settings: bool
) -> tuple[dict[str, ShareOffsets | KgroupError], dict[str, ShareGroup]]:
    """Start offsets and settings of share groups that could be described, as far as they are asked for."""
    if not groups:
        return {}, {}
    # Imported here: its schemas cost every other command some milliseconds.
    from kgroup.cluster.coordinator.share_groups import share_offsets
    from kgroup.cluster.share_settings import read_share_settings

    starts, read = await coordinators.client.gather(
        [
            share_offsets(coordinators, groups if offsets else ()),
            read_share_settings(coordinators.client, groups if settings else ()),
        ]
    )
    return starts, read


def share_parts(
    name: str,
    described: GroupDescription,
    coordinator: Coordinator | None,
    starts: ShareOffsets | KgroupError | None,
    settings: ShareGroup | None,
) -> GroupParts:
    """A share group as what a coordinator would report of another one: its start offsets are its commits."""
    committed, lags = starts if isinstance(starts, tuple) else ({} if starts is None else starts, {})
    return GroupParts(name, described, committed, coordinator, lags=lags, share=settings or ShareGroup())
