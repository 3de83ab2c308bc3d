"""The sticky assignors for different subscriptions: members keep what they may, then partitions move for balance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kgroup.groups.assignors.java_order import in_hash_order, partition_hash, utf16
from kgroup.groups.assignors.model import AssignorTopic, Racks, Subscriber, partitions_of
from kgroup.groups.assignors.sticky_claims import OwnershipClaims
from kgroup.model.topic_partition import TopicPartition

Pair = tuple[str, str]


class Movements:
    """Per topic, which partitions moved from one member to another, relative to their first owner."""

    def __init__(self) -> None:
        self._pair_of: dict[TopicPartition, Pair] = {}
        self._moved: dict[tuple[str, Pair], _Moved] = {}

    @property
    def so_far(self) -> frozenset[tuple[TopicPartition, Pair]]:
        """The moved partitions, each with its first and its present owner."""
        return frozenset(self._pair_of.items())

    def instead_of(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """The partition to move from ``source`` to ``target``: one that moved the opposite way, else ``partition``.

        Only partitions of the same topic count. Of several it is the first in the order of Java's HashSet.
        """
        first = self._pair_of[partition][0] if partition in self._pair_of else source
        back = self._moved.get((partition[0], (target, first)))
        return partition if back is None else back.first()

    def note(self, partition: TopicPartition, source: str, target: str) -> None:
        """Record a move; a partition that returns to its first owner counts as not moved."""
        before = self._pair_of.pop(partition, None)
        if before is not None:
            self._forget(partition, before)
            source = before[0]
        if source != target:
            self._pair_of[partition] = (source, target)
            self._moved.setdefault((partition[0], (source, target)), _Moved()).add(partition)

    def _forget(self, partition: TopicPartition, pair: Pair) -> None:
        moved = self._moved[partition[0], pair]
        del moved.partitions[partition]
        if not moved.partitions:
            del self._moved[partition[0], pair]


@dataclass(slots=True)
class _Moved:
    """A set of partitions; ``most`` is its largest size so far, because a HashSet keeps its table when it shrinks."""

    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    most: int = 0

    def add(self, partition: TopicPartition) -> None:
        self.partitions[partition] = None
        self.most = max(self.most, len(self.partitions))

    def first(self) -> TopicPartition:
        return in_hash_order(self.partitions, partition_hash, self.most)[0]


class GeneralAssignment:
    """The state of one assignment while it is computed.

    The next partition goes to the subscriber with the fewest partitions, among equals to the lowest member id.
    """

    def __init__(
        self, members: Sequence[Subscriber], topics: Sequence[AssignorTopic], claims: OwnershipClaims, racks: Racks
    ) -> None:
        self._racks = racks
        self._earlier = claims.earlier
        self._subscribers = {
            topic.name: [member.member_id for member in members if topic.name in member.topics] for topic in topics
        }
        self._order = {member.member_id: utf16(member.member_id) for member in members}
        self._sizes = {topic.name: topic.partitions for topic in topics}
        self._topics_of = {
            member.member_id: [topic.name for topic in topics if topic.name in member.topics] for member in members
        }
        self._partitions = [
            partition
            for topic in sorted(topics, key=lambda topic: (len(self._subscribers[topic.name]), utf16(topic.name)))
            for partition in partitions_of(topic)
        ]
        self._given: dict[str, dict[TopicPartition, None]] = {}
        self._owner: dict[TopicPartition, str] = {}
        self._in_play: set[str] = set()
        self._movements = Movements()
        self._balanced: bool | None = None
        self._revoked = self._keep(claims.owned)

    def assign(self) -> dict[str, list[TopicPartition]]:
        """Compute the partitions of each member; call it once."""
        owned_at_start = any(self._given.values())
        free = [partition for partition in self._partitions if partition not in self._owner]
        self._hand_out(free)
        self._in_play = {member_id for member_id in self._given if not self._is_settled(member_id)}
        before = {member_id: dict(held) for member_id, held in self._given.items()}
        if not self._revoked:
            self._improve([partition for partition in free if self._is_movable(partition[0])])
        moved = self._improve([partition for partition in self._partitions if self._is_movable(partition[0])])
        if owned_at_start and moved and self._spread(self._given) >= self._spread(before):
            self._given = before
        return {member_id: list(partitions) for member_id, partitions in self._given.items()}

    def _keep(self, owned: Mapping[str, Sequence[TopicPartition]]) -> bool:
        revoked = False
        for member_id, partitions in owned.items():
            self._given[member_id] = {}
            for partition in partitions:
                topic = partition[0]
                if not self._subscribers.get(topic):
                    continue
                if topic not in self._topics_of[member_id] or self._racks.clash(member_id, partition):
                    revoked = True
                else:
                    self._put(partition, member_id)
        return revoked

    def _put(self, partition: TopicPartition, member_id: str) -> None:
        self._given[member_id][partition] = None
        self._owner[partition] = member_id

    def _hand_out(self, free: Sequence[TopicPartition]) -> None:
        if self._racks:
            for partition in free:
                # Unlike with equal subscriptions, a member without a rack may get any partition here.
                near = [
                    member_id
                    for member_id in self._subscribers[partition[0]]
                    if not self._racks.clash(member_id, partition)
                ]
                if near:
                    self._put(partition, self._lowest(near))
        for partition in free:
            if partition not in self._owner:
                self._put(partition, self._lowest(self._subscribers[partition[0]]))

    def _lowest(self, members: Sequence[str]) -> str:
        return min(members, key=lambda member_id: (len(self._given[member_id]), self._order[member_id]))

    def _is_movable(self, topic: str) -> bool:
        return len(self._subscribers[topic]) > 1

    def _most(self, member_id: str) -> int:
        return sum(self._sizes[topic] for topic in self._topics_of[member_id])

    def _is_settled(self, member_id: str) -> bool:
        """Whether the member has all partitions of its topics, and no other member subscribes to any of them."""
        held = self._given[member_id]
        return len(held) >= self._most(member_id) and not any(self._is_movable(topic) for topic, _ in held)

    def _improve(self, partitions: Sequence[TopicPartition]) -> bool:
        """Repeat passes over the partitions until one moves nothing; return whether any partition was moved.

        With stale claims on topics to which the claimants no longer subscribe, Kafka's leader can repeat forever and
        the group hangs. We stop when a state repeats.
        """
        any_moved = False
        moved = True
        states = set()
        while moved and (state := self._state()) not in states:
            states.add(state)
            moved = False
            for partition in partitions:
                if self._is_balanced():
                    break
                target = self._better_owner(partition)
                if target is not None:
                    self._move(partition, target)
                    any_moved = moved = True
        return any_moved

    def _state(self) -> tuple[frozenset[tuple[TopicPartition, str]], frozenset[tuple[TopicPartition, Pair]]]:
        return frozenset(self._owner.items()), self._movements.so_far

    def _better_owner(self, partition: TopicPartition) -> str | None:
        size = len(self._given[self._owner[partition]])
        earlier = self._earlier.get(partition)
        if earlier is not None and earlier[0] in self._in_play and size > len(self._given[earlier[0]]) + 1:
            return earlier[0]
        lowest = self._lowest(self._subscribers[partition[0]])
        return lowest if size > len(self._given[lowest]) + 1 else None

    def _move(self, partition: TopicPartition, target: str) -> None:
        partition = self._movements.instead_of(partition, self._owner[partition], target)
        source = self._owner[partition]
        self._movements.note(partition, source, target)
        del self._given[source][partition]
        self._put(partition, target)
        self._balanced = None

    def _is_balanced(self) -> bool:
        if self._balanced is None:
            self._balanced = self._look_balanced()
        return self._balanced

    def _look_balanced(self) -> bool:
        """Whether sizes differ by at most one, or no member could take from an owner with at least two more."""
        sizes = [len(self._given[member_id]) for member_id in self._in_play]
        if min(sizes) >= max(sizes) - 1:
            return True
        largest: dict[str, int] = {}
        for member_id in self._in_play:
            held = self._given[member_id]
            for topic, _ in held:
                largest[topic] = max(largest.get(topic, 0), len(held))
        return not any(
            largest.get(topic, 0) > len(self._given[member_id]) + 1
            for member_id in self._in_play
            if len(self._given[member_id]) != self._most(member_id)
            for topic in self._topics_of[member_id]
        )

    def _spread(self, assigned: Mapping[str, Mapping[TopicPartition, None]]) -> int:
        """Sum of the size differences over all pairs of members in play; 0 is perfect balance."""
        sizes = sorted(len(assigned[member_id]) for member_id in self._in_play)
        return sum((2 * at - len(sizes) + 1) * size for at, size in enumerate(sizes))
