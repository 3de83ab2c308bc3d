"""Records of a topic and ranges of their offsets, without importing a Kafka client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated

from msgspec import Struct

from kgroup.model.numbers import NonNegativeInt64
from kgroup.model.topic_partition import PartitionValue

Headers = tuple[tuple[str, bytes | None], ...]
"""(name, value) pairs. A name may occur more than once, and the order matters."""


FirstOffset = Annotated[NonNegativeInt64, "offset", "The first offset."]
EndOffset = Annotated[NonNegativeInt64, "offset", "The offset after the last one."]


class OffsetRange(PartitionValue, Struct, frozen=True, order=True):
    """The offsets [start, end) of a partition. Compaction and transactions leave fewer records than offsets."""

    topic: Annotated[str, "The topic."]
    partition: Annotated[NonNegativeInt64, "count", "The partition."]
    start: FirstOffset
    end: EndOffset

    @property
    def offsets(self) -> int:
        """The number of offsets in the range, 0 if it is empty."""
        return max(0, self.end - self.start)

    def __str__(self) -> str:
        return f"{self.tp} [{self.start}, {self.end})"


class AscendingOffsets:
    """Base of values with offsets [start, end) of which the end is never below the start."""

    __slots__ = ()
    # msgspec takes the first annotation in the order of the bases: these hold for an OffsetRange with this base too.
    start: FirstOffset
    end: EndOffset

    def __post_init__(self) -> None:
        if self.start > self.end:
            raise ValueError(f"the end {self.end} is below the start {self.start}")


class LostOffsets(AscendingOffsets, Struct, frozen=True):
    """Offsets [start, end) of a partition that cannot be read any more, and why: the log start had passed them."""

    start: NonNegativeInt64
    end: NonNegativeInt64
    why: str


@dataclass(frozen=True, slots=True)
class ConsumerRecord(PartitionValue):
    """A record with its topic, partition and offset.

    ``timestamp_ms`` is None in logs older than Kafka 0.10. ``value`` None is a tombstone, b"" is an empty value.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def size(self) -> int:
        """Bytes of the key, the value and the headers (names and values), uncompressed."""
        parts = (
            self.key,
            self.value,
            *(part for name, data in self.headers for part in (name.encode(errors="replace"), data)),
        )
        return sum(len(part) for part in parts if part is not None)


def merged(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """The offsets as sorted ranges without overlaps; empty ranges are dropped, adjacent ones are joined.

    Several groups that skip records of the same partition often skip the same records.
    """
    result: list[OffsetRange] = []
    in_order = sorted(item for item in ranges if item.start < item.end)
    for (topic, partition), items in groupby(in_order, key=lambda item: (item.topic, item.partition)):
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


def without(row: OffsetRange, taken: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """The parts of a range that are in none of the ``taken`` ones, which are sorted and do not overlap."""
    start = row.start
    for other in taken:
        if other.tp == row.tp and start < other.end and other.start < row.end:
            if start < other.start:
                yield OffsetRange(row.topic, row.partition, start, other.start)
            start = other.end
    if start < row.end:
        yield OffsetRange(row.topic, row.partition, start, row.end)
