"""The pair (topic, partition), and where the replicas of a partition are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a topic. Equal to, and sorted as, the tuple; ``str()`` is ``orders:7``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}"

    def document(self) -> dict[str, str | int]:
        """Its JSON form."""
        return {"topic": self.topic, "partition": self.partition}


_new = tuple.__new__


class PartitionValue:
    """Base of values about a partition, with the fields ``topic`` and ``partition``."""

    __slots__ = ()
    topic: str
    partition: int

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return _new(TopicPartition, (self.topic, self.partition))  # same as TopicPartition(...), in a third of the time


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """Broker ids: the leader (None: none now), the replicas (the first is preferred), the in-sync replicas."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


GroupTopicPartition = tuple[str, str, int]
"""A committed offset is known by this: group, topic, partition."""
