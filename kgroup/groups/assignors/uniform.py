"""Uniform, the broker's default (KIP-848), for equal subscriptions; uniform_mixed has the other case."""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.groups.assignors.java_order import in_hash_order, uuid_hash
from kgroup.groups.assignors.model import Assigned, AssignorTopic, Subscriber, partitions_of, subscribed, tidy
from kgroup.groups.assignors.uniform_mixed import Mixed
from kgroup.model.topic_partition import TopicPartition


def uniform(members: Sequence[Subscriber], topics: Sequence[AssignorTopic]) -> Assigned:
    """UniformAssignor; ``members`` in the order in which the coordinator's HashMap yields them.

    Racks and instance ids do not count: a static member that returned owns what its old member id was assigned. A new
    group gets blocks: 7 partitions and 3 members give 0-2, 3-4, 5-6. ``topics`` are in the order in which the
    coordinator looks up their ids. With equal subscriptions the result is in the order of Kafka's hash tables.
    """
    wanted = subscribed(members, topics)
    ids = _ids(wanted, topics)
    if all(member.topics == members[0].topics for member in members):
        in_order = in_hash_order(wanted, lambda topic: uuid_hash(ids[topic.name]), len(members[0].topics) + 1)
        return {member_id: tuple(given) for member_id, given in _alike(members, in_order).items()}
    return tidy(members, Mixed(members, wanted, ids).assign())


def _ids(wanted: Sequence[AssignorTopic], topics: Sequence[AssignorTopic]) -> dict[str, int]:
    """The Uuids by topic; if one is unknown, list positions for all topics, since a mix would spoil the order."""
    if all(topic.id is not None for topic in wanted):
        return {topic.name: topic.id for topic in wanted if topic.id is not None}
    return {topic.name: tp for tp, topic in enumerate(topics, 1)}


def _alike(members: Sequence[Subscriber], topics: Sequence[AssignorTopic]) -> dict[str, list[TopicPartition]]:
    """Each member keeps its partitions up to a quota; the rest fills the members below it, one after the other."""
    every = [partition for topic in topics for partition in partitions_of(topic)]
    existing = frozenset(every)
    owned = {partition for member in members for partition in member.owned}
    pool = [partition for partition in every if partition not in owned]
    low, extras = divmod(len(every), len(members))
    given: dict[str, list[TopicPartition]] = {}
    unfilled: list[tuple[str, int]] = []
    for at, member in enumerate(members):
        mine = [partition for partition in member.owned if partition in existing]
        has_extra = extras > 0
        quota = low + has_extra
        given[member.member_id] = mine[:quota]
        pool.extend(mine[quota:])
        quota -= len(given[member.member_id])
        if quota > 0 and has_extra and len(members) - at > extras:
            # Enough members follow that may have their extra partition already: leave it to them.
            has_extra = False
            quota -= 1
        if quota > 0:
            unfilled.append((member.member_id, quota))
        extras -= has_extra
    at = 0
    for member_id, missing in unfilled:
        given[member_id] = _with_more(given[member_id], pool[at : at + missing])
        at += missing
    return given


def _with_more(kept: Sequence[TopicPartition], more: Sequence[TopicPartition]) -> list[TopicPartition]:
    """The partitions by topic, topics new to the member first: Java's computeIfAbsent adds at a bucket's front."""
    had = dict.fromkeys(topic for topic, _ in kept)
    new = dict.fromkeys(topic for topic, _ in more if topic not in had)
    partitions = {topic: tp for tp, topic in enumerate([*reversed(new), *had])}
    return sorted([*kept, *more], key=lambda partition: partitions[partition[0]])
