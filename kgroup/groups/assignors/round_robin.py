"""Round robin: all partitions of all topics, assigned one by one to the members in turn."""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.groups.assignors.java_order import member_order, utf16
from kgroup.groups.assignors.model import (
    Assigned,
    AssignorTopic,
    Subscriber,
    partitions_of,
    sorted_by_member,
    subscribed,
)
from kgroup.model.topic_partition import TopicPartition


def round_robin(members: Sequence[Subscriber], topics: Sequence[AssignorTopic]) -> Assigned:
    """RoundRobinAssignor: members on a ring, topics by name; the next subscriber on the ring gets the next partition.

    The ring does not restart with each topic. Racks and previous ownership do not count.
    """
    ring = sorted(members, key=member_order)
    assigned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    at = 0
    for topic in sorted(subscribed(members, topics), key=lambda topic: utf16(topic.name)):
        for partition in partitions_of(topic):
            while topic.name not in ring[at].topics:
                at = (at + 1) % len(ring)
            assigned[ring[at].member_id].append(partition)
            at = (at + 1) % len(ring)
    return sorted_by_member(members, assigned)
