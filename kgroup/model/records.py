"""Records as they lie in the log, and which of them are meant. No client is imported for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

Headers = tuple[tuple[str, bytes | None], ...]
"""Names may come twice, and the order counts."""


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The offsets [start, end) of a partition. Compaction and transactions leave fewer records than offsets."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def offsets(self) -> int:
        """How many offsets it spans."""
        return max(0, self.end - self.start)

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition} [{self.start}, {self.end})"


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """A record and where it lies. ``timestamp_ms`` is None in logs older than Kafka 0.10; ``value`` None is a
    tombstone, which is something else than an empty value.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers


def merged(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """The same offsets, each in one range alone: sorted, without empty ones, touching ones made one.

    Several groups that skip records of one partition skip many of them together.
    """
    result: list[OffsetRange] = []
    wanted = sorted(item for item in ranges if item.start < item.end)
    for (topic, partition), items in groupby(wanted, key=lambda item: (item.topic, item.partition)):
        start, end = -1, -1
        for item in items:
            if item.start <= end:
                end = max(end, item.end)
                continue
            if end >= 0:
                result.append(OffsetRange(topic, partition, start, end))
            start, end = item.start, item.end
        result.append(OffsetRange(topic, partition, start, end))
    return result
