"""Find the newest record of each key, in two steps that both count what they drop.

A reader keeps the newest record per key of each partition it reads (``NewestPerKey``). It sends them by bucket to the
task that delivers the bucket (``NewestMerge``). Within a partition, newest means the highest offset. For a key in
several partitions of a topic, the newest of each partition are compared by timestamp. For Spark's workers: needs
neither pyarrow nor kafka-python.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple
from zlib import crc32

from kgroup.catchup.buckets import bucket_of
from kgroup.catchup.model import BucketShare, LostOffsets
from kgroup.cluster.reader.batches import MOST, Batch, HeaderList
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError

KEPT_BYTES = 64 * 2**20
"""A reader sends its records when they exceed this. With a higher limit it sends fewer outdated records."""

_PIECE_BYTES = 2**20
_ROW_BYTES = 250
"""Python's memory for a row, in addition to its key and value."""


class KeptRecord(NamedTuple):
    """A kept record; ``timestamp`` is (kind, ms) as in ``Batch.timestamps``, ``chunk`` is the chunk's number."""

    offset: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: HeaderList | None
    chunk: int


class RowBatch(Batch):
    """Rows of one partition as a Batch, which sinks accept as any other."""

    __slots__ = ()

    @property
    def rows(self) -> Sequence[KeptRecord]:
        """The records in offset order."""
        return self._messages

    def offsets(self) -> list[int]:
        """Ascending, with holes."""
        return [row.offset for row in self.rows]

    def keys(self) -> list[bytes | None]:
        """None: the record has no key."""
        return [row.key for row in self.rows]

    def values(self) -> list[bytes | None]:
        """None is a tombstone."""
        return [row.value for row in self.rows]

    def timestamps(self) -> list[tuple[int, int]]:
        """(kind, ms)."""
        return [row.timestamp for row in self.rows]

    def headers(self) -> list[HeaderList | None]:
        """Headers of each record, in their order."""
        return [row.headers for row in self.rows]

    def size(self) -> int:
        """Bytes of keys and values."""
        return sum(map(_size, self.rows))

    def part(self, first: int, behind: int) -> RowBatch:
        """The rows with index ``first`` to ``behind`` - 1."""
        return RowBatch(self.topic, self.partition, self.rows[first:behind], self.position)


def _size(row: Any) -> int:
    return len(row[2] or b"") + len(row[3] or b"")


@dataclass(frozen=True, slots=True)
class ReaderTally:
    """What a reader reports to a bucket after reading everything: records read and records sent, by chunk.

    ``left_out`` counts records that ``--where`` filtered out; only one bucket gets it, as their keys are unknown.
    ``broken`` is why the reader did not read everything, None if it did. If set, nothing of the bucket is delivered.
    """

    reader: int
    arrived: Mapping[int, int]
    sent: Mapping[int, int]
    left_out: Mapping[int, int] = field(default_factory=dict)
    lost: Mapping[int, tuple[LostOffsets, ...]] = field(default_factory=dict)
    broken: Any = None


class NewestPerKey:
    """A reader's buffer: the newest record of each key of its partitions, in offset order.

    ``left`` are the buckets still to deliver. Records of other buckets are counted and dropped.
    """

    def __init__(self, buckets: int, left: frozenset[int], most_bytes: int = KEPT_BYTES) -> None:
        self._buckets = buckets
        self._left = left
        self._most_bytes = most_bytes
        self._kept: dict[TopicPartition, dict[bytes, Any]] = {}
        self._loose: dict[TopicPartition, list[Any]] = {}
        self._bytes = 0
        self._arrived: dict[int, Counter[int]] = {}
        self._sent: dict[int, Counter[int]] = {}

    def add(self, chunk: int, batch: Batch) -> Iterator[tuple[int, bytes]]:
        """Add a batch; yield (bucket, blob) to send now."""
        number = len(batch)
        if not number:
            return
        buckets, partition, tp = self._buckets, batch.partition, TopicPartition(batch.topic, batch.partition)
        keys, offsets = batch.keys(), batch.offsets()
        whole = None not in keys
        if whole:
            where = [crc32(key) % buckets for key in keys]  # type: ignore[arg-type]
        else:
            where = [bucket_of(key, partition, offset, buckets) for key, offset in zip(keys, offsets, strict=True)]
        self._arrived.setdefault(chunk, Counter()).update(where)
        rows = zip(offsets, batch.timestamps(), keys, batch.values(), batch.headers(), repeat(chunk), strict=False)
        kept = self._kept.setdefault(tp, {})
        if whole and len(self._left) == buckets:
            kept.update(zip(keys, rows, strict=True))  # type: ignore[arg-type]  # whatever came before is older
        else:
            loose = self._loose.setdefault(tp, [])
            for key, bucket, row in zip(keys, where, rows, strict=True):
                if bucket not in self._left:
                    continue
                if key is None:
                    loose.append(row)
                else:
                    kept[key] = row
        self._bytes += batch.size() + _ROW_BYTES * number
        if self._bytes > self._most_bytes:
            self._bytes = self._held()
            if self._bytes > self._most_bytes // 2:
                yield from self.flush()

    def _held(self) -> int:
        lists = [*(kept.values() for kept in self._kept.values()), *self._loose.values()]
        return sum(_size(row) + _ROW_BYTES for rows in lists for row in rows)

    def flush(self) -> Iterator[tuple[int, bytes]]:
        """Yield everything that is kept, by bucket, and clear the buffer."""
        for tp in list(self._kept):
            rows = [*self._kept.pop(tp).values(), *self._loose.pop(tp, ())]
            by_bucket: dict[int, list[Any]] = {}
            for row in rows:
                by_bucket.setdefault(bucket_of(row[2], tp.partition, row[0], self._buckets), []).append(row)
            rows.clear()
            for bucket, some in by_bucket.items():
                self._sent.setdefault(bucket, Counter()).update(row[5] for row in some)
                yield from ((bucket, blob) for blob in _packed(tp, some))
        self._bytes = 0

    def left_out(self, visible: Mapping[int, int]) -> dict[int, int]:
        """By chunk, how many visible records were not added here; chunks without any are absent."""
        came = {chunk: self._arrived[chunk].total() if chunk in self._arrived else 0 for chunk in visible}
        return {chunk: number - came[chunk] for chunk, number in visible.items() if number != came[chunk]}

    def tally(
        self, reader: int, bucket: int, lost: Mapping[int, tuple[LostOffsets, ...]], left_out: Mapping[int, int]
    ) -> ReaderTally:
        """The tally for a bucket, valid after the last ``flush``."""
        arrived = {chunk: counts[bucket] for chunk, counts in self._arrived.items() if counts[bucket]}
        return ReaderTally(reader, arrived, dict(self._sent.get(bucket, ())), left_out, lost)


def _packed(tp: TopicPartition, rows: list[Any]) -> Iterator[bytes]:
    some: list[Any] = []
    size = 0
    for row in rows:
        some.append(row)
        size += _size(row) + _ROW_BYTES
        if size >= _PIECE_BYTES:
            yield pickle.dumps((tp, some), protocol=5)
            some, size = [], 0
    if some:
        yield pickle.dumps((tp, some), protocol=5)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket's records to deliver: ``batches`` in order of topic, partition and offset.

    ``shares`` count what was filtered out, and no dead letters yet; ``number`` is the bucket's number in the ledger.
    """

    number: int
    batches: tuple[RowBatch, ...]
    shares: tuple[BucketShare, ...]

    @property
    def records(self) -> int:
        """How many records are to be delivered."""
        return sum(map(len, self.batches))


class NewestMerge:
    """Merges what the readers send to a bucket into the newest record of each key."""

    def __init__(self, number: int, readers: int) -> None:
        self.number = number
        self._readers = readers
        self._kept: dict[TopicPartition, dict[bytes, Any]] = {}
        self._loose: dict[TopicPartition, list[Any]] = {}
        self._received: Counter[int] = Counter()
        self._tallies: dict[int, ReaderTally] = {}

    def add(self, blob: bytes) -> None:
        """Add what a reader sent: rows, or its tally at the end."""
        item = pickle.loads(blob)
        if isinstance(item, ReaderTally):
            self._tallies[item.reader] = item
            return
        tp, rows = item
        kept, loose = self._kept.setdefault(tp, {}), self._loose.setdefault(tp, [])
        self._received.update(row[5] for row in rows)
        for row in rows:
            key = row[2]
            if key is None:
                loose.append(row)
            elif (known := kept.get(key)) is None or known[0] < row[0]:
                kept[key] = row

    @property
    def broken(self) -> Any:
        """Why a reader did not read everything; None if no reader has reported a failure."""
        return next((tally.broken for tally in self._tallies.values() if tally.broken is not None), None)

    def bucket(self) -> Bucket:
        """The bucket to deliver. Raises KgroupError with code ``not-counted`` if not all that was sent has arrived."""
        tallies = self._tallies.values()
        sent, arrived, left_out = (_summed(tallies, name) for name in ("sent", "arrived", "left_out"))
        if len(self._tallies) != self._readers or +sent != +self._received:
            raise KgroupError(
                f"{sent.total()} records of {len(self._tallies)} readers were sent, and "
                f"{self._received.total()} arrived of {self._readers}",
                hint="nothing of it was delivered: go on with the plan",
                code="not-counted",
            )
        self._leave_newest()
        lost: dict[int, dict[LostOffsets, None]] = {}
        for tally in tallies:
            for chunk, some in tally.lost.items():
                lost.setdefault(chunk, {}).update(dict.fromkeys(some))
        batches = tuple(self._batches())
        wanted: Counter[int] = Counter(row.chunk for batch in batches for row in batch.rows)
        sizes: Counter[int] = Counter()
        for batch in batches:
            for row in batch.rows:
                sizes[row.chunk] += _size(row)
        shares = []
        for chunk in sorted({*arrived, *left_out, *lost}):
            older = (arrived[chunk] - sent[chunk]) + (self._received[chunk] - wanted[chunk])
            shares.append(
                BucketShare(
                    chunk,
                    arrived[chunk] + left_out[chunk],
                    older + left_out[chunk],
                    0,
                    sizes[chunk],
                    lost=tuple(lost.get(chunk, ())),
                )
            )
        return Bucket(self.number, batches, tuple(shares))

    def _leave_newest(self) -> None:
        """For a key in several partitions of a topic, keep the latest timestamp; on a tie, the highest partition."""
        newest: dict[str, dict[bytes, tuple[tuple[int, int], TopicPartition]]] = {}
        partitions: Counter[str] = Counter(topic for topic, _ in self._kept)
        for tp in sorted(self._kept):
            if partitions[tp.topic] == 1:
                continue
            known, kept = newest.setdefault(tp.topic, {}), self._kept[tp]
            for key, row in list(kept.items()):
                kind, ms = row[1]
                own = (ms if kind else -1, tp.partition)
                other = known.get(key)
                if other is None:
                    known[key] = (own, tp)
                elif other[0] < own:
                    del self._kept[other[1]][key]
                    known[key] = (own, tp)
                else:
                    del kept[key]

    def _batches(self) -> Iterator[RowBatch]:
        for tp in sorted(self._kept):
            rows = [*self._kept[tp].values(), *self._loose[tp]]
            rows.sort(key=lambda row: row[0])
            for at in range(0, len(rows), MOST):
                yield RowBatch(*tp, [KeptRecord(*row) for row in rows[at : at + MOST]], 0)
        self._kept, self._loose = {}, {}


def _summed(tallies: Any, name: str) -> Counter[int]:
    summed: Counter[int] = Counter()
    for tally in tallies:
        summed.update(getattr(tally, name))
    return summed
