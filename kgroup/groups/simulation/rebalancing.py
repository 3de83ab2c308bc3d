"""Computes the next assignment, with as many calls of the assignor as the group's protocol makes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from kgroup.groups.assignors import assign
from kgroup.groups.assignors.java_order import (
    in_hash_order,
    members_as_coordinated,
    numbers_in_hash_order,
    string_hash,
    uuid_hash,
)
from kgroup.groups.assignors.model import AssignorTopic, Subscriber
from kgroup.groups.assignors.sticky import sticky
from kgroup.groups.simulation.model import RebalanceStyle, SimulatedGroup
from kgroup.model.topic_partition import TopicPartition

_MOST_ROUNDS = 20
"""Limit of rounds of a cooperative rebalance. Two are usual; with different subscriptions and racks the assignor is
not idempotent, and a third round was seen."""


class RebalanceOutcome(msgspec.Struct, frozen=True):
    """The members with their new partitions, the number of rounds, and whether no further round is needed."""

    members: tuple[Subscriber, ...]
    rounds: int
    settled: bool


def rebalance(group: SimulatedGroup, generation: int) -> RebalanceOutcome:
    """Assign until no partition has to be revoked; ``generation`` is the members' present one.

    The cooperative assignor leaves partitions unassigned that must be revoked first; their owners join again, and the
    next round assigns them. All other assignors need one round.
    """
    members = group.members
    if not members:
        return RebalanceOutcome((), 0, settled=True)
    topics = _as_subscribed(group, members)
    for rounds in range(1, _MOST_ROUNDS + 1):
        assigned = assign(group.assign, _as_claimed(group, members, topics), topics)
        revoked = any(set(member.owned) - set(assigned[member.member_id]) for member in members)
        members = tuple(
            replace(
                member,
                owned=assigned[member.member_id],
                generation=generation + rounds,
                protocol_generation=generation + rounds,
            )
            for member in members
        )
        if group.style is not RebalanceStyle.COOPERATIVE or not revoked:
            return RebalanceOutcome(members, rounds, settled=True)
    return RebalanceOutcome(members, _MOST_ROUNDS, settled=False)


def moves_for_balance(group: SimulatedGroup) -> int:
    """How many partitions the sticky assignor would take from the members: the number that cannot be avoided.

    It uses racks only if the group's own assignor does; otherwise a move to a nearer member does not count as needed.
    """
    by_rack = group.assignor in ("sticky", "cooperative-sticky")
    members = [member if by_rack else replace(member, rack=None) for member in group.members]
    assigned = assign(sticky, members, group.topics)
    existing = {(topic.name, number) for topic in group.topics for number in range(topic.partitions)}
    return sum(len(existing.intersection(member.owned).difference(assigned[member.member_id])) for member in members)


def _as_subscribed(group: SimulatedGroup, members: Sequence[Subscriber]) -> Sequence[AssignorTopic]:
    """The topics in the order in which the coordinator passes them: that of a hash table of their names.

    The order matters only for topics whose ids share a bucket; for two topics the chance is 1 in 16.
    """
    if group.style is not RebalanceStyle.CONSUMER:
        return group.topics
    by_name = sorted(group.topics, key=lambda topic: topic.name)
    return in_hash_order(by_name, lambda topic: string_hash(topic.name), len(members[0].topics) + 1)


def _as_claimed(
    group: SimulatedGroup, members: Sequence[Subscriber], topics: Sequence[AssignorTopic]
) -> Sequence[Subscriber]:
    """The members as the assignor receives them: the coordinator also keeps assignments in hash tables."""
    if group.style is not RebalanceStyle.CONSUMER:
        return members
    ids = _ids(topics)
    return [replace(member, owned=_in_table_order(member.owned, ids)) for member in members_as_coordinated(members)]


def _in_table_order(owned: Sequence[TopicPartition], ids: dict[str, int]) -> tuple[TopicPartition, ...]:
    by_topic: dict[str, list[int]] = {}
    for topic, number in owned:
        by_topic.setdefault(topic, []).append(number)
    return tuple(
        TopicPartition(topic, number)
        for topic in in_hash_order(by_topic, lambda topic: uuid_hash(ids.get(topic, 0)))
        for number in numbers_in_hash_order(by_topic[topic])
    )


def _ids(topics: Sequence[AssignorTopic]) -> dict[str, int]:
    """The Uuids by topic as the uniform assignor uses them; list positions if not every Uuid is known."""
    if all(topic.id is not None for topic in topics):
        return {topic.name: topic.id for topic in topics if topic.id is not None}
    return {topic.name: index for index, topic in enumerate(topics, 1)}
