"""The racks of members and replicas, as the client-side assignors use them (KIP-881)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kgroup.groups.assignors.model import AssignorTopic, Subscriber
from kgroup.model.topic_partition import TopicPartition


def matter(member_racks: Iterable[str], replica_racks: Iterable[frozenset[str]]) -> bool:
    """Whether racks can change the result: a member shares a rack with a replica, and partitions differ in racks."""
    replicas = list(replica_racks)
    everywhere = frozenset[str]().union(*replicas)
    return not everywhere.isdisjoint(member_racks) and any(racks != everywhere for racks in replicas)


def rack_of(member: Subscriber) -> str | None:
    """A member's rack; None also if ``client.rack`` is empty, which is the client's default."""
    return member.rack or None


@dataclass(frozen=True, slots=True)
class Racks:
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
        if not of_member or not matter(of_member.values(), of_partition.values()):
            return cls({}, {}, {})
        standing = list(of_member.values())
        count = {racks: sum(rack in racks for rack in standing) for racks in set(of_partition.values())}
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
