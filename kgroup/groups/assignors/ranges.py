"""Range: the partitions of each topic in consecutive blocks, topic by topic, regardless of their previous owners."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kgroup.groups.assignors.java_order import member_order
from kgroup.groups.assignors.model import (
    Assigned,
    AssignorTopic,
    Subscriber,
    rack_of,
    racks_matter,
    sorted_by_member,
    subscribed,
)
from kgroup.model.topic_partition import TopicPartition


def client_range(members: Sequence[Subscriber], topics: Sequence[AssignorTopic]) -> Assigned:
    """RangeAssignor: the first ``partitions % members`` of a topic's subscribers get one partition more.

    7 partitions and 3 members give 0-2, 3-4, 5-6. Members are sorted by instance id, then by member id. Topics with
    the same subscribers and the same number of partitions are assigned alike, so that one member can join them.
    Racks (KIP-881) are used if they change the result of some topic.
    """
    shares = _shares(members, topics)
    if any(share.by_rack for share in shares):
        _deal_by_rack(shares)
    return _collect(members, shares)


def server_range(members: Sequence[Subscriber], topics: Sequence[AssignorTopic]) -> Assigned:
    """The broker's range (KIP-848): like the client's without racks; what a member owned before does not count."""
    return _collect(members, _shares(members, topics))


@dataclass(slots=True)
class _Share:
    """One topic: the partitions not assigned yet, and those of each subscriber."""

    topic: AssignorTopic
    subscribers: list[Subscriber]
    free: list[int] = field(init=False)
    extras: int = field(init=False)
    taken: dict[str, list[int]] = field(init=False)
    by_rack: bool = field(init=False)

    def __post_init__(self) -> None:
        self.free = list(range(self.topic.partitions))
        self.extras = self.topic.partitions % len(self.subscribers)
        self.taken = {member.member_id: [] for member in self.subscribers}
        racks = [rack for member in self.subscribers if (rack := rack_of(member)) is not None]
        self.by_rack = racks_matter(racks, self.topic.replica_racks or ())

    @property
    def racks_told(self) -> bool:
        return any(rack_of(member) is not None for member in self.subscribers)

    def room(self, member: Subscriber) -> int:
        quota = self.topic.partitions // len(self.subscribers) + (self.extras > 0)
        return max(0, quota - len(self.taken[member.member_id]))

    def matches(self, member: Subscriber, number: int) -> bool:
        """Whether a replica is in the member's rack; True for a member without a rack."""
        rack = rack_of(member)
        return rack is None or (self.topic.replica_racks is not None and rack in self.topic.replica_racks[number])

    def give(self, member: Subscriber, numbers: Sequence[int]) -> None:
        own = self.taken[member.member_id]
        own.extend(numbers)
        taken = set(numbers)
        self.free = [number for number in self.free if number not in taken]
        if taken and len(own) > self.topic.partitions // len(self.subscribers):
            self.extras -= 1

    def fill(self, accepts: Callable[[Subscriber, int], bool]) -> None:
        """Give each subscriber in turn the lowest free partitions that ``accepts`` accepts, up to its room."""
        for member in self.subscribers:
            fitting = [number for number in self.free if accepts(member, number)]
            self.give(member, fitting[: self.room(member)])


def _shares(members: Sequence[Subscriber], topics: Sequence[AssignorTopic]) -> list[_Share]:
    ordered = sorted(members, key=member_order)
    return [
        _Share(topic, [member for member in ordered if topic.name in member.topics])
        for topic in subscribed(members, topics)
    ]


def _deal_by_rack(shares: Sequence[_Share]) -> None:
    alike: dict[tuple[tuple[str, ...], int], list[_Share]] = defaultdict(list)
    for share in shares:
        # If no subscriber has a rack, Kafka does not fetch the topic's replicas and counts it as empty.
        size = share.topic.partitions if share.racks_told else 0
        alike[tuple(member.member_id for member in share.subscribers), size].append(share)
    for (_, size), together in alike.items():
        if len(together) > 1:
            _deal_together(together, size)
        elif together[0].by_rack:
            together[0].fill(together[0].matches)


def _deal_together(together: Sequence[_Share], size: int) -> None:
    """Give partition N of all these topics to the first member with room whose rack has a replica of each."""
    for number in range(size):
        for member in together[0].subscribers:
            if all(share.matches(member, number) and share.room(member) > 0 for share in together):
                for share in together:
                    share.give(member, (number,))
                break


def _collect(members: Sequence[Subscriber], shares: Sequence[_Share]) -> Assigned:
    assigned: dict[str, list[TopicPartition]] = defaultdict(list)
    for share in shares:
        share.fill(lambda _member, _number: True)
        for member_id, numbers in share.taken.items():
            assigned[member_id].extend(TopicPartition(share.topic.name, number) for number in numbers)
    return sorted_by_member(members, assigned)
