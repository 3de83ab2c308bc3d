"""Which partitions each member owns, as the sticky assignors conclude it from the members' claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from kgroup.groups.assignors.model import AssignorTopic, Subscriber
from kgroup.model.topic_partition import TopicPartition

NEVER = -1
"""The generation of a member that sends none."""


class OwnershipClaims(msgspec.Struct, frozen=True):
    """The partitions that members own, after conflicting claims are resolved.

    ``owned`` keeps the order of the members. ``disputed`` are partitions that two members claim for one generation.
    ``earlier`` has, for partitions claimed in an older generation, the latest such member and its generation.
    """

    owned: Mapping[str, tuple[TopicPartition, ...]]
    disputed: frozenset[TopicPartition]
    earlier: Mapping[TopicPartition, tuple[str, int]]


def user_data_generation(member: Subscriber) -> int:
    """The generation that ``sticky`` uses: that of the user data, NEVER if it is absent."""
    return NEVER if member.generation is None else member.generation


def subscription_generation(member: Subscriber) -> int:
    """The generation that ``cooperative-sticky`` uses: that of the subscription, else that of the user data."""
    if member.protocol_generation is not None and member.protocol_generation > NEVER:
        return member.protocol_generation
    return user_data_generation(member)


def resolve_claims(
    members: Sequence[Subscriber], topics: Sequence[AssignorTopic], generation_of: Callable[[Subscriber], int]
) -> OwnershipClaims:
    """Resolve the claims: the higher generation wins; if two are equal, neither wins and the partition is disputed.

    As in Kafka, the two compared generations come from different fields: ``protocol_generation`` of the member that
    claimed first, ``generation_of`` the member that claims now. A fenced member lacks the former but has the latter.
    Partitions that a topic does not have (recreated with fewer) are dropped; Kafka fails with an exception there.
    """
    sizes = {topic.name: topic.partitions for topic in topics}
    protocol = {
        member.member_id: NEVER if member.protocol_generation is None else member.protocol_generation
        for member in members
    }
    holder: dict[TopicPartition, str] = {}
    owned: dict[str, dict[TopicPartition, None]] = {member.member_id: {} for member in members}
    disputed = set()
    for member in members:
        generation = generation_of(member)
        for partition in member.owned:
            if partition[1] >= sizes.get(partition[0], 0):
                continue
            other = holder.get(partition)
            if other is not None and generation < protocol[other]:
                continue
            holder[partition] = member.member_id
            if other is not None:
                owned[other].pop(partition, None)
            if other is not None and generation == protocol[other]:
                disputed.add(partition)
            else:
                owned[member.member_id][partition] = None
    return OwnershipClaims(
        owned={member_id: tuple(partitions) for member_id, partitions in owned.items()},
        disputed=frozenset(disputed),
        earlier=_earlier(members, generation_of),
    )


def _earlier(
    members: Sequence[Subscriber], generation_of: Callable[[Subscriber], int]
) -> dict[TopicPartition, tuple[str, int]]:
    newest = max(map(generation_of, members), default=NEVER)
    latest: dict[TopicPartition, tuple[str, int]] = {}
    for member in members:
        generation = generation_of(member)
        if generation == newest:
            continue
        for partition in member.owned:
            if partition not in latest or generation > latest[partition][1]:
                latest[partition] = (member.member_id, generation)
    return latest
