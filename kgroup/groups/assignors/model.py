"""What an assignor is given and what it gives back: members with what they own, topics, and who gets what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

TopicPartition = tuple[str, int]
Assigned = dict[str, tuple[TopicPartition, ...]]
"""Partitions by member id; members without any stand in it too."""


@dataclass(frozen=True, slots=True)
class AssignorTopic:
    """A topic that exists.

    ``replica_racks`` has, per partition, the racks of its replicas; None where no broker has a rack. ``id`` is the
    topic's Uuid as 128 bits, None where it is not known: then the place in the list of topics stands for it.
    """

    name: str
    partitions: int
    replica_racks: tuple[frozenset[str], ...] | None = None
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as an assignor sees it.

    ``topics`` are names, of topics that do not exist too. ``owned`` is what it says it owns (classic: its own claim,
    consumer protocol: its previous target assignment), in the order in which it is walked. The generation in which it
    owned them is told twice: ``generation`` in the user data of the sticky assignors, ``protocol_generation`` in the
    subscription itself; None where it is absent, as with a member that joins for the first time.
    """

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    rack: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int | None = None
    protocol_generation: int | None = None


def subscribed(members: Sequence[Subscriber], topics: Sequence[AssignorTopic]) -> list[AssignorTopic]:
    """The topics that have partitions and at least one subscriber, in their own order: all that a leader looks up."""
    wanted = frozenset[str]().union(*(member.topics for member in members))
    return [topic for topic in topics if topic.name in wanted and topic.partitions > 0]


def partitions_of(topic: AssignorTopic) -> list[TopicPartition]:
    """All partitions of one topic, ascending."""
    return [(topic.name, number) for number in range(topic.partitions)]


def tidy(members: Sequence[Subscriber], given: Mapping[str, Iterable[TopicPartition]]) -> Assigned:
    """The result in a stable order: which is not part of what Kafka promises, and every caller compares sets."""
    return {member.member_id: tuple(sorted(given.get(member.member_id, ()))) for member in members}
