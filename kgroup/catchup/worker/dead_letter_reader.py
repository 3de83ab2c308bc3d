"""The reader of a plan of dead letters: it leaves out what is not delivered, and changes the headers of the rest.

What is left out is counted as filtered. For Spark's workers: importable without kafka-python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kgroup.catchup.worker.chunk_counts import FilteredOut
from kgroup.catchup.worker.task_run import TaskReader
from kgroup.cluster.reader.batches import Batch, HeaderList
from kgroup.groups.catchup.dead_letters import TO_SOURCE, Fate, Origin, Redrive, dead_letter, redriven_headers
from kgroup.model.records import ConsumerRecord, LostOffsets, OffsetRange

_TOPICS = ("topic", TO_SOURCE)
"""Sinks whose consumers know nothing of a dead letter: they get the record as it was."""


@dataclass(frozen=True, slots=True)
class _Row:
    record: ConsumerRecord
    timestamp: tuple[int, int]
    headers: HeaderList
    origin: Origin | None


class RedrivenBatch(Batch):
    """The dead letters of a batch that are delivered, with the headers that they are delivered with."""

    __slots__ = ("_rows",)

    def __init__(self, topic: str, partition: int, rows: Sequence[_Row], position: int) -> None:
        super().__init__(topic, partition, (), position)
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def origins(self) -> list[Origin | None]:
        """Where each record came from."""
        return [row.origin for row in self._rows]

    def offsets(self) -> list[int]:
        """Ascending, with gaps."""
        return [row.record.offset for row in self._rows]

    def keys(self) -> list[bytes | None]:
        """None is no key."""
        return [row.record.key for row in self._rows]

    def values(self) -> list[bytes | None]:
        """None is a tombstone."""
        return [row.record.value for row in self._rows]

    def timestamps(self) -> list[tuple[int, int]]:
        """(type, ms), as of ``Batch``."""
        return [row.timestamp for row in self._rows]

    def headers(self) -> list[HeaderList | None]:
        """As they are delivered: never None."""
        return [row.headers for row in self._rows]

    def size(self) -> int:
        """Bytes of keys and values."""
        return sum(len(row.record.key or b"") + len(row.record.value or b"") for row in self._rows)

    def part(self, first: int, stop: int) -> RedrivenBatch:
        """The records with index ``first`` up to, but not including, ``stop``."""
        if first == 0 and stop >= len(self._rows):
            return self
        position = self.position if stop >= len(self._rows) else self._rows[stop].record.offset
        return RedrivenBatch(self.topic, self.partition, self._rows[first:stop], position)


class DeadLetterReader:
    """Reads dead letters through another reader; ``sink`` is where they go."""

    def __init__(self, reader: TaskReader, redrive: Redrive, sink: str) -> None:
        self._reader = reader
        self._redrive = redrive
        self._to_source = sink == TO_SOURCE
        self._as_it_was = sink in _TOPICS

    def fetch_ahead(self, ranges: Sequence[OffsetRange]) -> None:
        """As of the other reader."""
        self._reader.fetch_ahead(ranges)

    def partitions(self, topic: str, *, again: bool = False) -> frozenset[int]:
        """As of the other reader."""
        return self._reader.partitions(topic, again=again)

    def batches(self, topic: str, partition: int, start: int, end: int) -> Iterator[Batch | FilteredOut | LostOffsets]:
        """As of the other reader; what is left out comes before the records around it."""
        for item in self._reader.batches(topic, partition, start, end):
            if not isinstance(item, Batch) or not len(item):
                yield item
                continue
            rows, left = self._chosen(item)
            if left:
                yield FilteredOut(left, item.position)
            yield RedrivenBatch(topic, partition, rows, item.position)

    def _chosen(self, batch: Batch) -> tuple[list[_Row], list[int]]:
        """(the records that are delivered, the offsets of the others)"""
        rows, left = [], []
        for record, timestamp in zip(batch.records(), batch.timestamps(), strict=True):
            letter = dead_letter(record.headers)
            if self._redrive.fate(record, letter, to_source=self._to_source) is not Fate.DELIVER:
                left.append(record.offset)
                continue
            headers = redriven_headers(record.headers, letter, as_it_was=self._as_it_was)
            rows.append(_Row(record, timestamp, headers, letter.origin))
        return rows, left
