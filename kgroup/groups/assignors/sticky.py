"""Sticky and cooperative-sticky: members keep their partitions as far as balance allows (KIP-54, KIP-429)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kgroup.groups.assignors.model import Assigned, AssignorTopic, Racks, Subscriber, sorted_by_member, subscribed
from kgroup.groups.assignors.sticky_claims import resolve_claims, subscription_generation, user_data_generation
from kgroup.groups.assignors.sticky_constrained import ConstrainedAssignment
from kgroup.groups.assignors.sticky_general import GeneralAssignment
from kgroup.model.topic_partition import TopicPartition


def sticky(members: Sequence[Subscriber], topics: Sequence[AssignorTopic]) -> Assigned:
    """StickyAssignor; ``members`` in the order in which the leader's HashMap yields them.

    Instance ids do not count. As in Kafka, members without topics at the start of that order get partitions as if
    they subscribed to the topics of the others. Their clients refuse these partitions and join again.
    """
    assigned, _ = _assign(members, topics, user_data_generation)
    return sorted_by_member(members, assigned)


def cooperative_sticky(members: Sequence[Subscriber], topics: Sequence[AssignorTopic]) -> Assigned:
    """CooperativeStickyAssignor: a partition that moves stays unassigned until its owner has revoked it.

    The owner revokes what is missing from its assignment and joins again; the next call assigns it.
    """
    assigned, in_transit = _assign(members, topics, subscription_generation)
    return sorted_by_member(
        members,
        {
            member_id: [partition for partition in partitions if partition not in in_transit]
            for member_id, partitions in assigned.items()
        },
    )


def _assign(
    members: Sequence[Subscriber], topics: Sequence[AssignorTopic], generation_of: Callable[[Subscriber], int]
) -> tuple[dict[str, list[TopicPartition]], frozenset[TopicPartition]]:
    """The target assignment, and those of its partitions that another owner must revoke first."""
    used = subscribed(members, topics)
    claims = resolve_claims(members, used, generation_of)
    racks = Racks.of(members, used)
    if _subscribe_alike(members):
        constrained = ConstrainedAssignment(claims, racks, used)
        return constrained.assign(), constrained.in_transit()
    assigned = GeneralAssignment(members, used, claims, racks).assign()
    return assigned, _claimed_by_others(members, assigned)


def _claimed_by_others(
    members: Sequence[Subscriber], assigned: Mapping[str, Sequence[TopicPartition]]
) -> frozenset[TopicPartition]:
    """Partitions that go to a member that does not claim them while another member does.

    Unlike with equal subscriptions, rejected claims count here too: a member with a stale claim gets it at once.
    """
    owned = {member.member_id: frozenset(member.owned) for member in members}
    new = {
        partition for name, partitions in assigned.items() for partition in partitions if partition not in owned[name]
    }
    lost = {partition for name, claimed in owned.items() for partition in claimed.difference(assigned[name])}
    return frozenset(new & lost)


def _subscribe_alike(members: Sequence[Subscriber]) -> bool:
    """Whether all subscribe to the same topics; as in Kafka, empty subscriptions before the first other are ignored."""
    first: frozenset[str] = frozenset()
    for member in members:
        if not first:
            first = member.topics
        elif member.topics != first:
            return False
    return True
