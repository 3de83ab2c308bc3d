"""Input and result of an assignor: members with the partitions they own, topics, and partitions by member."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kgroup.model.topic_partition import TopicPartition

Assigned = dict[str, tuple[TopicPartition, ...]]
"""Partitions by member id; a member without partitions has an empty tuple."""


@dataclass(frozen=True, slots=True)
class AssignorTopic:
    """A topic that exists.

    ``replica_racks`` has, per partition, the racks of its replicas; None if no broker has a rack. ``id`` is the
    topic's Uuid as a 128-bit number. It is None if unknown; the topic's position in the list is then used.
    """

    name: str
    partitions: int
    replica_racks: tuple[frozenset[str], ...] | None = None
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as an assignor sees it.

    ``topics`` are names and may include topics that do not exist. ``owned`` is, in iteration order, the member's own
    claim in a classic group and its previous target assignment in a consumer group. The generation of that ownership
    comes from two fields: ``generation`` from the user data of the sticky assignors, ``protocol_generation`` from
    the subscription itself. Each is None if it is absent, as for a member that joins for the first time.
    """

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    rack: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int | None = None
    protocol_generation: int | None = None


def subscribed(members: Sequence[Subscriber], topics: Sequence[AssignorTopic]) -> list[AssignorTopic]:
    """The topics with partitions and at least one subscriber, in the order given; a leader fetches no others."""
    wanted = frozenset[str]().union(*(member.topics for member in members))
    return [topic for topic in topics if topic.name in wanted and topic.partitions > 0]


def partitions_of(topic: AssignorTopic) -> list[TopicPartition]:
    """All partitions of one topic, ascending."""
    return [TopicPartition(topic.name, number) for number in range(topic.partitions)]


def tidy(members: Sequence[Subscriber], given: Mapping[str, Iterable[TopicPartition]]) -> Assigned:
    """The partitions of each member, sorted; Kafka promises no order within a member's assignment."""
    return {member.member_id: tuple(sorted(given.get(member.member_id, ()))) for member in members}
