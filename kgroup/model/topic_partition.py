"""The pair (topic, partition)."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a topic. Equal to, and sorted as, the tuple; ``str()`` is ``orders:7``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}"


class PartitionValue:
    """Base of values about a partition, with the fields ``topic`` and ``partition``."""

    __slots__ = ()
    topic: str
    partition: int

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


GroupTopicPartition = tuple[str, str, int]
"""A committed offset is known by this: group, topic, partition."""
