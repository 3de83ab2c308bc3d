"""The sticky assignors for members with equal subscriptions: each member keeps its partitions up to a quota."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kgroup.groups.assignors.java_order import utf16
from kgroup.groups.assignors.model import AssignorTopic, Racks, partitions_of
from kgroup.groups.assignors.sticky_claims import OwnershipClaims
from kgroup.model.topic_partition import TopicPartition


@dataclass(slots=True)
class ConstrainedAssignment:
    """The state of one assignment while it is computed.

    Members end with ``low`` or ``high`` partitions; ``slots`` is how many members may still get ``high``. Members in
    ``short`` have less than ``low``; those in ``even`` have ``low`` and may get one more.
    """

    claims: OwnershipClaims
    racks: Racks
    topics: Sequence[AssignorTopic]
    low: int = field(init=False)
    high: int = field(init=False)
    slots: int = field(init=False)
    assigned: dict[str, list[TopicPartition]] = field(init=False)
    short: list[str] = field(default_factory=list)
    even: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        members = len(self.claims.owned)
        partitions = sum(topic.partitions for topic in self.topics)
        self.low, self.slots = divmod(partitions, members)
        self.high = self.low + (self.slots > 0)
        self.assigned = {member_id: [] for member_id in self.claims.owned}

    def assign(self) -> dict[str, list[TopicPartition]]:
        """Compute the partitions of each member; call it once."""
        for member_id in self.assigned:
            self._keep(member_id)
        self.short.sort(key=utf16)
        self.even.sort(key=utf16)
        taken = {partition for partitions in self.assigned.values() for partition in partitions}
        free = [
            partition
            for topic in sorted(self.topics, key=lambda topic: utf16(topic.name))
            for partition in partitions_of(topic)
            if partition not in taken
        ]
        if self.racks:
            free.sort(key=lambda partition: self.racks.nearby.get(partition, 0))
            free = self._deal_by_rack(free)
        self._deal(free)
        return self.assigned

    def _keep(self, member_id: str) -> None:
        kept = [partition for partition in self.claims.owned[member_id] if partition not in self.claims.disputed]
        if self.racks:
            kept = [partition for partition in kept if not self.racks.clash(member_id, partition)]
        kept.sort(key=lambda partition: (partition[1], utf16(partition[0])))
        if len(kept) < self.low:
            self.short.append(member_id)
        elif len(kept) >= self.high and self.slots > 0:
            del kept[self.high :]
            self._use_slot()
        else:
            del kept[self.low :]
            if self.slots > 0:
                self.even.append(member_id)
        self.assigned[member_id] = kept

    def in_transit(self) -> frozenset[TopicPartition]:
        """Partitions that another member owns than the one that gets them, and the disputed ones."""
        owner = {partition: member_id for member_id, owned in self.claims.owned.items() for partition in owned}
        return self.claims.disputed | {
            partition
            for member_id, partitions in self.assigned.items()
            for partition in partitions
            if owner.get(partition, member_id) != member_id
        }

    def _use_slot(self) -> None:
        self.slots -= 1
        if self.slots == 0:
            self.even.clear()

    def _deal_by_rack(self, free: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Assign each partition to a member in a rack of one of its replicas; return those without such a member."""
        remaining = []
        cursor = 0
        for partition in free:
            at = self._next_in_rack(partition, self.short, cursor)
            if at is not None:
                member_id = self.short[at]
                self.assigned[member_id].append(partition)
                if len(self.assigned[member_id]) >= self.low:
                    del self.short[at]
                    if self.slots > 0:
                        self.even.append(member_id)
                else:
                    at += 1
                cursor = at % len(self.short) if self.short else 0
            elif (at := self._next_in_rack(partition, self.even, 0)) is not None:
                self.assigned[self.even.pop(at)].append(partition)
                self._use_slot()
            else:
                remaining.append(partition)
        return remaining

    def _next_in_rack(self, partition: TopicPartition, members: Sequence[str], first: int) -> int | None:
        for step in range(len(members)):
            at = (first + step) % len(members)
            if self.racks.match(members[at], partition):
                return at
        return None

    def _deal(self, free: Sequence[TopicPartition]) -> None:
        at = 0
        for partition in free:
            if not self.short:
                self.assigned[self.even.pop(0)].append(partition)
                continue
            at %= len(self.short)
            member_id = self.short[at]
            self.assigned[member_id].append(partition)
            if len(self.assigned[member_id]) == self.low:
                del self.short[at]
                self.even.append(member_id)
            else:
                at += 1
