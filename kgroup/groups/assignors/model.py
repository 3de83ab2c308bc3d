"""Input and result of an assignor: members with the partitions they own, topics, racks, and partitions by member."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kgroup.model.topic_partition import TopicPartition

Assigned = dict[str, tuple[TopicPartition, ...]]
"""Partitions by member id; a member without partitions has an empty tuple."""


class AssignorTopic(msgspec.Struct, frozen=True):
    """A topic that exists.

    ``replica_racks`` has, per partition, the racks of its replicas; None if no broker has a rack. ``id`` is the
    topic's Uuid as a 128-bit number. It is None if unknown; the topic's position in the list is then used.
    """

    name: str
    partitions: int
    replica_racks: tuple[frozenset[str], ...] | None = None
    id: int | None = None


class Subscriber(msgspec.Struct, frozen=True):
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
    names = frozenset[str]().union(*(member.topics for member in members))
    return [topic for topic in topics if topic.name in names and topic.partitions > 0]


def partitions_of(topic: AssignorTopic) -> list[TopicPartition]:
    """All partitions of one topic, ascending."""
    return [TopicPartition(topic.name, number) for number in range(topic.partitions)]


def sorted_by_member(members: Sequence[Subscriber], assigned: Mapping[str, Iterable[TopicPartition]]) -> Assigned:
    """The partitions of each member, sorted; Kafka promises no order within a member's assignment."""
    return {member.member_id: tuple(sorted(assigned.get(member.member_id, ()))) for member in members}


def racks_matter(member_racks: Iterable[str], replica_racks: Iterable[frozenset[str]]) -> bool:
    """Whether racks can change the result: a member shares a rack with a replica, and partitions differ in racks."""
    replicas = list(replica_racks)
    everywhere = frozenset[str]().union(*replicas)
    return not everywhere.isdisjoint(member_racks) and any(racks != everywhere for racks in replicas)


def rack_of(member: Subscriber) -> str | None:
    """A member's rack; None also if ``client.rack`` is empty, which is the client's default."""
    return member.rack or None


class Racks(msgspec.Struct, frozen=True):
    """The racks of a whole group, for the sticky assignors; empty if racks cannot change the result."""

    of_member: Mapping[str, str]
    of_partition: Mapping[TopicPartition, frozenset[str]]
    nearby: Mapping[TopicPartition, int]
    """How many members are in a rack of one of the partition's replicas."""

    @classmethod
    def of(cls, members: Sequence[Subscriber], topics: Sequence[AssignorTopic]) -> Racks:
        """The racks of these members and topics; empty if no member has a rack or racks cannot change the result."""
        of_member = {member.member_id: rack for member in members if (rack := rack_of(member)) is not None}
        # Partitions without any rack are included: they differ from the others and clash with every member's rack.
        of_partition = {
            TopicPartition(topic.name, number): racks
            for topic in topics
            for number, racks in enumerate(topic.replica_racks or (frozenset[str](),) * topic.partitions)
        }
        if not of_member or not racks_matter(of_member.values(), of_partition.values()):
            return cls({}, {}, {})
        racks_of_members = list(of_member.values())
        count = {racks: sum(rack in racks for rack in racks_of_members) for racks in set(of_partition.values())}
        return cls(of_member, of_partition, {partition: count[racks] for partition, racks in of_partition.items()})

    def __bool__(self) -> bool:
        return bool(self.of_member)

    def clash(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether the member has a rack and none of the partition's replicas is in it."""
        rack = self.of_member.get(member_id)
        return rack is not None and rack not in self.of_partition.get(partition, ())

    def match(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether the member has a rack and a replica of the partition is in it."""
        return self.of_member.get(member_id) in self.of_partition.get(partition, ())
