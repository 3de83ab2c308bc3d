"""Where members and replicas stand, as the client-side assignors look at it (KIP-881)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kgroup.groups.assignors.model import AssignorTopic, Subscriber, TopicPartition


def matter(member_racks: Iterable[str], replica_racks: Iterable[frozenset[str]]) -> bool:
    """Whether racks can make a difference: some member stands beside a replica, and not all partitions are alike."""
    replicas = list(replica_racks)
    everywhere = frozenset[str]().union(*replicas)
    return not everywhere.isdisjoint(member_racks) and any(racks != everywhere for racks in replicas)


def rack_of(member: Subscriber) -> str | None:
    """A member's rack; an empty ``client.rack``, the client's default, is none."""
    return member.rack or None


@dataclass(frozen=True, slots=True)
class Racks:
    """Racks of a whole group, for the sticky assignors: empty where they make no difference."""

    of_member: Mapping[str, str]
    of_partition: Mapping[TopicPartition, frozenset[str]]
    nearby: Mapping[TopicPartition, int]
    """How many members stand in a rack of one of its replicas."""

    @classmethod
    def of(cls, members: Sequence[Subscriber], topics: Sequence[AssignorTopic]) -> Racks:
        """Those of a group; nothing where nobody tells a rack, or where racks decide nothing."""
        of_member = {member.member_id: rack for member in members if (rack := rack_of(member)) is not None}
        # Those without any rack count: beside others they make a difference, and clash with every member's rack.
        of_partition = {
            (topic.name, number): racks
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
        """Whether the member has a rack and none of the partition's replicas stands in it."""
        rack = self.of_member.get(member_id)
        return rack is not None and rack not in self.of_partition.get(partition, ())

    def match(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether the member has a rack and a replica of the partition stands in it."""
        return self.of_member.get(member_id) in self.of_partition.get(partition, ())
