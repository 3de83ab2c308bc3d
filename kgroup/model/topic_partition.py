"""The pair (topic, partition), and where the replicas of a partition are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a topic. Equal to, and sorted as, the tuple; ``str()`` is ``orders:7``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}"

    def document(self) -> dict[str, str | int]:
        return {"topic": self.topic, "partition": self.partition}


shared_tp = lru_cache(maxsize=32_768)(TopicPartition)
"""``TopicPartition(topic, partition)``, made once for all groups: a third of the time, and fewer objects in memory."""


class PartitionValue:
    """Base of values about a partition, with the fields ``topic`` and ``partition``."""

    __slots__ = ()
    topic: str
    partition: int

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return shared_tp(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """Broker ids: the leader (None: none now), the replicas (the first is preferred), the in-sync replicas."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


GroupTopicPartition = tuple[str, str, int]
"""A committed offset is known by this: group, topic, partition."""
