"""Sticky and cooperative-sticky: members keep what they have as far as balance allows (KIP-54, KIP-429)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kgroup.groups.assignors.claims import settle, subscription_generation, user_data_generation
from kgroup.groups.assignors.constrained import Constrained
from kgroup.groups.assignors.general import General
from kgroup.groups.assignors.model import Assigned, AssignorTopic, Subscriber, TopicPartition, subscribed, tidy
from kgroup.groups.assignors.racks import Racks


def sticky(members: Sequence[Subscriber], topics: Sequence[AssignorTopic]) -> Assigned:
    """StickyAssignor; ``members`` in the order in which the leader's HashMap yields them.

    Instance ids do not count. Members without topics at the head of that order are given partitions as if they
    subscribed to what the others do, as Kafka's does; their client refuses them and joins again.
    """
    given, _ = _assign(members, topics, user_data_generation)
    return tidy(members, given)


def cooperative_sticky(members: Sequence[Subscriber], topics: Sequence[AssignorTopic]) -> Assigned:
    """CooperativeStickyAssignor: what would move is left to nobody until its owner has let go of it.

    Whoever misses something that it owned gives it up and joins again: the next call places it.
    """
    given, in_transit = _assign(members, topics, subscription_generation)
    return tidy(
        members,
        {
            member_id: [partition for partition in partitions if partition not in in_transit]
            for member_id, partitions in given.items()
        },
    )


def _assign(
    members: Sequence[Subscriber], topics: Sequence[AssignorTopic], generation_of: Callable[[Subscriber], int]
) -> tuple[dict[str, list[TopicPartition]], frozenset[TopicPartition]]:
    """Who is to get what, and what of it has an owner that must let go first."""
    wanted = subscribed(members, topics)
    claims = settle(members, wanted, generation_of)
    racks = Racks.of(members, wanted)
    if _subscribe_alike(members):
        constrained = Constrained(claims, racks, wanted)
        return constrained.assign(), constrained.in_transit()
    given = General(members, wanted, claims, racks).assign()
    return given, _claimed_by_others(members, given)


def _claimed_by_others(
    members: Sequence[Subscriber], given: Mapping[str, Sequence[TopicPartition]]
) -> frozenset[TopicPartition]:
    """What goes to a member that does not claim it while another one does.

    Here, other than with equal subscriptions, claims count that did not stand: a stale claimant is served at once.
    """
    held = {member.member_id: frozenset(member.owned) for member in members}
    new = {partition for who, partitions in given.items() for partition in partitions if partition not in held[who]}
    lost = {partition for who, claimed in held.items() for partition in claimed.difference(given[who])}
    return frozenset(new & lost)


def _subscribe_alike(members: Sequence[Subscriber]) -> bool:
    """Whether all subscribe to the same topics; as in Kafka, empty subscriptions before the first full one pass."""
    first: frozenset[str] = frozenset()
    for member in members:
        if not first:
            first = member.topics
        elif member.topics != first:
            return False
    return True
