"""Uniform, the broker's default (KIP-848), for equal and for different subscriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from kgroup.groups.assignors.java_order import in_hash_order, uuid_hash, uuid_order
from kgroup.groups.assignors.model import (
    Assigned,
    AssignorTopic,
    Subscriber,
    partitions_of,
    sorted_by_member,
    subscribed,
)
from kgroup.model.topic_partition import TopicPartition

_SWEEPS = 16
"""Kafka stops after this many rounds over all topics."""


class UniformMixedAssignment:
    """The state of one assignment while it is computed; a member is its index in the order given."""

    def __init__(self, members: Sequence[Subscriber], topics: Sequence[AssignorTopic], ids: Mapping[str, int]) -> None:
        self._members = members
        self._subscribers = {
            topic.name: [at for at, member in enumerate(members) if topic.name in member.topics] for topic in topics
        }
        self._topics = sorted(
            topics,
            key=lambda topic: (
                -Fraction(topic.partitions, len(self._subscribers[topic.name])),
                len(self._subscribers[topic.name]),
                uuid_order(ids[topic.name]),
            ),
        )
        self._held: dict[str, dict[int, set[int]]] = {
            topic.name: {at: set() for at in self._subscribers[topic.name]} for topic in topics
        }
        self._partitions = {topic.name: topic.partitions for topic in topics}
        self._size = [0] * len(members)
        for at, member in enumerate(members):
            for topic, number in member.owned:
                if at in self._held.get(topic, ()) and number < self._partitions[topic]:
                    self._give(topic, number, at)

    def assign(self) -> dict[str, list[TopicPartition]]:
        """Compute the partitions of each member; call it once."""
        for topic in self._topics:
            taken = set[int]().union(*self._held[topic.name].values())
            free = [number for number in range(topic.partitions) if number not in taken]
            if free:
                receivers = _Receivers(self._by_size(topic.name), self._size)
                for number in free:
                    self._give(topic.name, number, receivers.next())
        shared = [topic.name for topic in self._topics if len(self._subscribers[topic.name]) > 1]
        for _ in range(_SWEEPS):
            # Every topic is evened out, also after one that moved a partition: no any() over a generator.
            if sum([self._even_out(topic) for topic in shared]) == 0:
                break
        assigned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in self._members}
        for topic_name, held in self._held.items():
            for at, numbers in held.items():
                assigned[self._members[at].member_id].extend(TopicPartition(topic_name, number) for number in numbers)
        return assigned

    def _by_size(self, topic: str) -> list[int]:
        return sorted(self._subscribers[topic], key=lambda at: self._size[at])

    def _give(self, topic: str, number: int, at: int) -> None:
        self._held[topic][at].add(number)
        self._size[at] += 1

    def _even_out(self, topic: str) -> int:
        """Move partitions of one topic from its most to its least loaded subscribers; return how many."""
        ordered = self._by_size(topic)
        if self._size[ordered[-1]] - self._size[ordered[0]] < 2:
            return 0
        sizes = list(self._size)
        receivers, donors = _Receivers(ordered, sizes), _Donors(ordered, sizes)
        moved = 0
        while True:
            donor = donors.next()
            while donor is not None and not self._held[topic][donor]:
                donors.exclude()
                donor = donors.next()
            if donor is None:
                return moved
            receiver = receivers.next()
            if donors.level - receivers.level <= 1:
                return moved
            number = max(self._held[topic][donor])
            self._held[topic][donor].remove(number)
            self._size[donor] -= 1
            self._give(topic, number, receiver)
            moved += 1


class _Receivers:
    """The least loaded members in turn; after each round the level rises by one and members of that level join."""

    def __init__(self, ordered: Sequence[int], size: Sequence[int]) -> None:
        self._ordered = ordered
        self._sizes = [size[at] for at in ordered]
        self.level = self._sizes[0] - 1
        self._end = 0
        self._at = 0

    def next(self) -> int:
        if self._at >= self._end:
            self.level += 1
            while self._end < len(self._ordered) and self._sizes[self._end] == self.level:
                self._end += 1
            self._at = 0
        self._at += 1
        return self._ordered[self._at - 1]


class _Donors:
    """The most loaded members in turn; after each round the level falls by one and members of that level join."""

    def __init__(self, ordered: Sequence[int], size: Sequence[int]) -> None:
        self._ordered = list(ordered)
        self._sizes = [size[at] for at in ordered]
        self.level = self._sizes[-1] + 1
        self._first = self._end = len(ordered)
        self._at = -1

    def next(self) -> int | None:
        if self._at < self._first:
            self.level -= 1
            while self._first > 0 and self._sizes[self._first - 1] == self.level:
                self._first -= 1
            if self._first == self._end:
                return self._next_level()
            self._at = self._end - 1
        self._at -= 1
        return self._ordered[self._at + 1]

    def _next_level(self) -> int | None:
        if self._first == 0:
            return None
        self.level = self._sizes[self._first - 1] + 1
        self._at = self._first - 1
        return self.next()

    def exclude(self) -> None:
        """Remove the member returned last from the round: it has no partition of this topic to give."""
        tp = self._at + 1
        self._end -= 1
        self._ordered[tp], self._ordered[self._end] = self._ordered[self._end], self._ordered[tp]


def uniform(members: Sequence[Subscriber], topics: Sequence[AssignorTopic]) -> Assigned:
    """UniformAssignor; ``members`` in the order in which the coordinator's HashMap yields them.

    Racks and instance ids do not count: a static member that returned owns what its old member id was assigned. A new
    group gets blocks: 7 partitions and 3 members give 0-2, 3-4, 5-6. ``topics`` are in the order in which the
    coordinator looks up their ids. With equal subscriptions the result is in the order of Kafka's hash tables.
    """
    used = subscribed(members, topics)
    ids = _ids(used, topics)
    if all(member.topics == members[0].topics for member in members):
        in_order = in_hash_order(used, lambda topic: uuid_hash(ids[topic.name]), len(members[0].topics) + 1)
        return {member_id: tuple(partitions) for member_id, partitions in _assign_equal(members, in_order).items()}
    return sorted_by_member(members, UniformMixedAssignment(members, used, ids).assign())


def _ids(used: Sequence[AssignorTopic], topics: Sequence[AssignorTopic]) -> dict[str, int]:
    """The Uuids by topic; if one is unknown, list positions for all topics, since a mix would spoil the order."""
    if all(topic.id is not None for topic in used):
        return {topic.name: topic.id for topic in used if topic.id is not None}
    return {topic.name: tp for tp, topic in enumerate(topics, 1)}


def _assign_equal(members: Sequence[Subscriber], topics: Sequence[AssignorTopic]) -> dict[str, list[TopicPartition]]:
    """Each member keeps its partitions up to a quota; the rest fills the members below it, one after the other."""
    every = [partition for topic in topics for partition in partitions_of(topic)]
    existing = frozenset(every)
    owned = {partition for member in members for partition in member.owned}
    pool = [partition for partition in every if partition not in owned]
    low, extras = divmod(len(every), len(members))
    assigned: dict[str, list[TopicPartition]] = {}
    unfilled: list[tuple[str, int]] = []
    for at, member in enumerate(members):
        mine = [partition for partition in member.owned if partition in existing]
        has_extra = extras > 0
        quota = low + has_extra
        assigned[member.member_id] = mine[:quota]
        pool.extend(mine[quota:])
        quota -= len(assigned[member.member_id])
        if quota > 0 and has_extra and len(members) - at > extras:
            # Enough members follow that may have their extra partition already: leave it to them.
            has_extra = False
            quota -= 1
        if quota > 0:
            unfilled.append((member.member_id, quota))
        extras -= has_extra
    at = 0
    for member_id, missing in unfilled:
        assigned[member_id] = _with_more(assigned[member_id], pool[at : at + missing])
        at += missing
    return assigned


def _with_more(kept: Sequence[TopicPartition], more: Sequence[TopicPartition]) -> list[TopicPartition]:
    """The partitions by topic, topics new to the member first: Java's computeIfAbsent adds at a bucket's front."""
    had = dict.fromkeys(topic for topic, _ in kept)
    new = dict.fromkeys(topic for topic, _ in more if topic not in had)
    partitions = {topic: tp for tp, topic in enumerate([*reversed(new), *had])}
    return sorted([*kept, *more], key=lambda partition: partitions[partition[0]])
