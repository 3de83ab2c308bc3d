"""What a rebalancing run has moved so far, so that it does not swap partitions of one topic to and fro."""

from __future__ import annotations

from dataclasses import dataclass, field

from kgroup.groups.assignors.java_order import in_hash_order, partition_hash
from kgroup.groups.assignors.model import TopicPartition

Pair = tuple[str, str]


class Movements:
    """Per topic, which partitions went from one member to another, counted from where they were at first."""

    def __init__(self) -> None:
        self._pair_of: dict[TopicPartition, Pair] = {}
        self._moved: dict[tuple[str, Pair], _Moved] = {}

    @property
    def so_far(self) -> frozenset[tuple[TopicPartition, Pair]]:
        """What has moved, from where to where."""
        return frozenset(self._pair_of.items())

    def instead_of(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """What to move from ``source`` to ``target``: what came the other way, if anything of that topic did.

        Of several, the first that Java's HashSet yields.
        """
        first = self._pair_of[partition][0] if partition in self._pair_of else source
        back = self._moved.get((partition[0], (target, first)))
        return partition if back is None else back.first()

    def note(self, partition: TopicPartition, source: str, target: str) -> None:
        """It went; one that comes home has not moved at all."""
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
    """A set of partitions; ``most`` is how many it ever held, as a HashSet that shrinks keeps its table."""

    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    most: int = 0

    def add(self, partition: TopicPartition) -> None:
        self.partitions[partition] = None
        self.most = max(self.most, len(self.partitions))

    def first(self) -> TopicPartition:
        return in_hash_order(self.partitions, partition_hash, self.most)[0]
