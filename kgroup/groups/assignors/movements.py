"""The moves that an assignor has made so far, so that it does not swap partitions of one topic back and forth."""

from __future__ import annotations

from dataclasses import dataclass, field

from kgroup.groups.assignors.java_order import in_hash_order, partition_hash
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
