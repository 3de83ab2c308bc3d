"""Descriptions of groups of every type that kgroup describes, asked for as the types that they have or may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from kgroup.cluster.coordinator.groups import GroupCoordinators, GroupDescription
from kgroup.model.groups import ALL_TYPES, DESCRIBED_TYPES, ListedGroup
from kgroup.model.share_group import SHARE, SWITCHED_OFF
from kgroup.model.streams_group import STREAMS, STREAMS_OFF
from kgroup.support.errors import KgroupError, NotFound

TYPES_OFF = frozenset({SWITCHED_OFF, STREAMS_OFF})
"""The codes of errors that say that a type of groups is switched off: the brokers then say so of every name."""


async def describe_groups(
    coordinators: GroupCoordinators,
    names: Sequence[str],
    listed: Mapping[str, ListedGroup],
    types: Sequence[str] = ALL_TYPES,
    *,
    up_to_date: bool = True,
) -> dict[str, GroupDescription | KgroupError]:
    """A description or an error for each name. One that is not in ``listed`` is asked for as every type."""
    described: dict[str, GroupDescription | KgroupError]
    classic, consumer = (_of_type(kind, names, listed) for kind in DESCRIBED_TYPES)
    requests = [coordinators.describe(classic, consumer, up_to_date=up_to_date)]
    # Imported where they are needed: their schemas cost every other command some milliseconds.
    if SHARE in types and (share := _of_type(SHARE, names, listed)):
        from kgroup.cluster.coordinator.share_groups import describe_share

        requests.append(describe_share(coordinators, share, up_to_date=up_to_date))
    if STREAMS in types and (streams := _of_type(STREAMS, names, listed)):
        from kgroup.cluster.coordinator.streams_groups import describe_streams

        requests.append(describe_streams(coordinators, streams, up_to_date=up_to_date))
    described, *others = await coordinators.client.gather(requests)
    for name, answer in ((name, answer) for other in others for name, answer in other.items()):
        unknown = isinstance(answer, NotFound) or (isinstance(answer, KgroupError) and answer.code in TYPES_OFF)
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
