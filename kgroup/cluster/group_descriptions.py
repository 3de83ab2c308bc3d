"""Descriptions of groups of every type that kgroup describes, asked for as the types that they have or may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from kgroup.cluster.coordinator.groups import GroupCoordinators, GroupDescription
from kgroup.model.groups import ListedGroup
from kgroup.model.share_group import SHARE, SWITCHED_OFF
from kgroup.support.errors import KgroupError, NotFound

DESCRIBED_TYPES = ("classic", "consumer")
"""The types of groups that commit offsets; verbs that change groups know these alone."""


async def describe_groups(
    coordinators: GroupCoordinators,
    names: Sequence[str],
    listed: Mapping[str, ListedGroup],
    types: Sequence[str] = (*DESCRIBED_TYPES, SHARE),
    *,
    up_to_date: bool = True,
) -> dict[str, GroupDescription | KgroupError]:
    """A description or an error for each name. One that is not in ``listed`` is asked for as every type."""
    described: dict[str, GroupDescription | KgroupError]
    classic, consumer = (_of_type(kind, names, listed) for kind in DESCRIBED_TYPES)
    share = _of_type(SHARE, names, listed) if SHARE in types else []
    if not share:
        return await coordinators.describe(classic, consumer, up_to_date=up_to_date)
    # Imported here: its schemas cost every other command some milliseconds.
    from kgroup.cluster.coordinator.share_groups import describe_share

    described, as_share = await coordinators.client.gather(
        [
            coordinators.describe(classic, consumer, up_to_date=up_to_date),
            describe_share(coordinators, share, up_to_date=up_to_date),
        ]
    )
    for name, answer in as_share.items():
        # Where they are switched off, the brokers say so of every name.
        unknown = isinstance(answer, NotFound) or (isinstance(answer, KgroupError) and answer.code == SWITCHED_OFF)
        if name not in described or (isinstance(described[name], NotFound) and not unknown):
            described[name] = answer
    return described


def _of_type(kind: str, names: Sequence[str], listed: Mapping[str, ListedGroup]) -> list[str]:
    """The names that are, or may be, groups of this type."""
    return [name for name in names if name not in listed or listed[name].type == kind]


def is_share(answer: GroupDescription | KgroupError, listed: ListedGroup | None) -> bool:
    return answer.type == SHARE if isinstance(answer, GroupDescription) else listed is not None and listed.type == SHARE


def from_listing(listed: ListedGroup | None, error: KgroupError) -> GroupDescription | None:
    """A description from the listing alone, for a group whose members may not be seen; None if not listed."""
    if listed is None or isinstance(error, NotFound):
        return None
    return GroupDescription(listed.type, listed.state, listed.protocol_type, None, None, None, None)


def with_members(group: ListedGroup, described: GroupDescription | KgroupError | None) -> ListedGroup:
    """The listed group with the number of its members and the state that it was described with."""
    if not isinstance(described, GroupDescription):
        return group
    members = None if described.members is None else len(described.members)
    return replace(group, state=described.state, members=members)
