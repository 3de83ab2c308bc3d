"""Members that a killed kgroup conversion left behind in groups. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kgroup.model.groups import Group
from kgroup.model.migration_facts import is_own_member


def stale_members(groups: Sequence[Group]) -> dict[str, tuple[str, ...]]:
    """The ids of kgroup's stale members, by group; groups without any are left out."""
    found = {
        group.name: tuple(member.member_id for member in group.members or () if is_own_member(member))
        for group in groups
    }
    return {name: ids for name, ids in found.items() if ids}


def without_stale_members(group: Group) -> Group:
    """The group without kgroup's stale members, as it will be after their sessions have expired."""
    if not stale_members([group]):
        return group
    others = tuple(member for member in group.members or () if not is_own_member(member))
    return replace(group, members=others, state=group.state if others else "Empty")
