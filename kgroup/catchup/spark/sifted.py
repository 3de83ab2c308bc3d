"""Records that Spark's filter let through, as batches for sinks, and counts of visible records by offset.

pyarrow is imported only inside functions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kgroup.cluster.reader.batches import Batch, HeaderList
from kgroup.model.records import ConsumerRecord

if TYPE_CHECKING:
    import pyarrow

_NO_TIME = (0, -1)


class SiftedBatch(Batch):
    """Records of one partition that came through Spark, as Arrow rows without marks."""

    __slots__ = ("_rows",)

    def __init__(self, topic: str, partition: int, rows: pyarrow.RecordBatch, position: int) -> None:
        super().__init__(topic, partition, (), position)
        self._rows = rows

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    def offsets(self) -> list[int]:
        """Ascending, with holes."""
        found: list[int] = self._rows.column("offset").to_pylist()
        return found

    def keys(self) -> list[bytes | None]:
        """None: the record has no key; an empty key is ``b""``."""
        found: list[bytes | None] = self._rows.column("key").to_pylist()
        return found

    def values(self) -> list[bytes | None]:
        """None is a tombstone."""
        found: list[bytes | None] = self._rows.column("value").to_pylist()
        return found

    def timestamps(self) -> list[tuple[int, int]]:
        """(kind, ms); kind 1: set by the producer, 2: set by the broker, 0: no timestamp."""
        import pyarrow as pa

        times = self._rows.column("timestamp").cast(pa.int64()).to_pylist()
        kinds = self._rows.column("timestampType").to_pylist()
        return [_NO_TIME if us is None else (kind + 1, us // 1000) for kind, us in zip(kinds, times, strict=True)]

    def headers(self) -> list[HeaderList | None]:
        """Headers of each record in order; a name may occur twice. None: no headers."""
        column = self._rows.column("headers")
        if column.null_count == len(column):
            return [None] * len(column)
        return [None if had is None else [(one["key"], one["value"]) for one in had] for had in column.to_pylist()]

    def size(self) -> int:
        """Bytes of keys and values."""
        import pyarrow.compute as compute

        lengths = (compute.sum(compute.binary_length(self._rows.column(name))).as_py() for name in ("key", "value"))
        return sum(length or 0 for length in lengths)

    def part(self, first: int, behind: int) -> SiftedBatch:
        """The rows with index ``first`` to ``behind`` - 1.

        Records filtered out after the last of them are not included: they are counted with the next row.
        """
        if first == 0 and behind >= len(self):
            return self
        position = self.position if behind >= len(self) else 0
        if 0 < behind < len(self):
            position = self._rows.column("offset")[behind - 1].as_py() + 1
        return SiftedBatch(self.topic, self.partition, self._rows.slice(first, max(0, behind - first)), position)

    def from_offset(self, start: int) -> SiftedBatch:
        """The rows at or above offset ``start``."""
        return self.part(bisect_left(self.offsets(), start), len(self))

    def visible_counts(self) -> list[int]:
        """For each row, how many records of its part were visible up to and including it."""
        found: list[int] = self._rows.column("_seen").to_pylist()
        return found

    def records(self) -> list[ConsumerRecord]:
        """The records as objects, for callers that are slow anyway."""
        columns = zip(self.offsets(), self.timestamps(), self.keys(), self.values(), self.headers(), strict=True)
        return [
            ConsumerRecord(
                self.topic,
                self.partition,
                offset,
                ms if kind else None,
                key,
                value,
                tuple(headers) if headers else (),
            )
            for offset, (kind, ms), key, value, headers in columns
        ]


class VisibleCount:
    """Counts the records of a part below an offset: how many were visible, and how many passed the filter. Pure.

    Offsets are added in ascending order. Visible records count from the part's start, passed ones from ``start``.
    """

    def __init__(self, start: int, seen: int = 0) -> None:
        self._edges = [start]
        self._seen = [seen]
        self._passed = [0]

    @property
    def position(self) -> int:
        """Everything below this offset is known."""
        return self._edges[-1]

    def rows(self, offsets: list[int], seen: list[int]) -> None:
        """Add rows that passed, each with the number of records that were visible up to and including it."""
        passed = self._passed[-1]
        self._edges.extend(offset + 1 for offset in offsets)
        self._seen.extend(seen)
        self._passed.extend(range(passed + 1, passed + len(offsets) + 1))

    def mark(self, position: int, seen: int) -> None:
        """Everything below ``position`` was read, and ``seen`` records of it were visible."""
        self._edges.append(max(position, self._edges[-1]))
        self._seen.append(max(seen, self._seen[-1]))
        self._passed.append(self._passed[-1])

    def at(self, position: int) -> tuple[int, int]:
        """(visible, passed) below ``position``, as far as is known."""
        index = max(0, bisect_right(self._edges, position) - 1)
        return self._seen[index], self._passed[index]

    def drop_below(self, position: int) -> None:
        """Drop the counts below ``position``, which are not needed again."""
        index = bisect_right(self._edges, position) - 1
        if index > 0:
            del self._edges[:index], self._seen[:index], self._passed[:index]


def runs(numbers: list[int]) -> Iterator[tuple[int, int, int]]:
    """(number, first, behind) for each run of equal numbers: [5, 5, 7] gives (5, 0, 2) and (7, 2, 3). Pure."""
    first = 0
    for index in range(1, len(numbers) + 1):
        if index == len(numbers) or numbers[index] != numbers[first]:
            yield numbers[first], first, index
            first = index
