"""Decode the records of ``__share_group_state``, and fold those of one partition of a share group. Pure.

Layouts: ``share-coordinator/src/main/resources/common/message/*.json`` of Kafka 4.1-4.4. Fields that no reader needs
are skipped.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from kgroup.cluster.byte_reader import FAULTS, ByteReader, MalformedRecord, raw_topic_id
from kgroup.cluster.offsets_topic.decode import key_prefix
from kgroup.model.share_deliveries import DeliveryBatch, DeliveryState, FailedDeliveries, PartitionDeliveries

SNAPSHOT, UPDATE = 0, 1
"""The int16 at the start of a key. Group, topic id and partition follow."""

_STATES = {
    0: DeliveryState.AVAILABLE,
    2: DeliveryState.ACKNOWLEDGED,
    3: DeliveryState.ARCHIVING,
    4: DeliveryState.ARCHIVED,
}
_SNAPSHOT_HEAD, _TIMES, _UPDATE_HEAD = 12, 16, 8
_TYPE_BYTES = 2


class StateWritten(msgspec.Struct, frozen=True):
    """A snapshot replaces the state, an update is laid over it.

    ``start`` None: a snapshot has no start offset yet, an update does not change it. ``done`` is how many records from
    the start offset on are done, None before Kafka 4.2. ``at_ms`` is when the broker wrote it.
    """

    is_snapshot: bool
    start: int | None
    batches: tuple[DeliveryBatch, ...]
    done: int | None = None
    at_ms: int | None = None


def key_tail(group: str, topic_id: str, partition: int) -> bytes:
    """The key of a partition's records after their type, which only its records have."""
    return key_prefix(SNAPSHOT, group)[_TYPE_BYTES:] + raw_topic_id(topic_id) + partition.to_bytes(4)


def decode(key: bytes, value: bytes | None, at_ms: int | None = None) -> StateWritten:
    """The record of a snapshot or an update; deleted is as a snapshot without a state. Raises MalformedRecord."""
    is_snapshot = int.from_bytes(key[:_TYPE_BYTES]) == SNAPSHOT
    if value is None:
        return StateWritten(is_snapshot, None, ())
    reader = ByteReader(value)
    try:
        if version := reader.i16():
            raise MalformedRecord(f"a share state has version {version}, newer than this program")
        reader.take(_SNAPSHOT_HEAD if is_snapshot else _UPDATE_HEAD)  # epochs
        start = reader.i64()
        reader.take(_TIMES if is_snapshot else 0)
        batches = reader.compact_array(lambda: _batch(reader))
        raw_done = reader.tags().get(0)
        done = -1 if raw_done is None else ByteReader(raw_done).i32()
    except FAULTS as error:
        raise MalformedRecord(f"a share state cannot be decoded: {error}") from error
    return StateWritten(is_snapshot, start if start >= 0 else None, batches, done if done >= 0 else None, at_ms)


def _batch(reader: ByteReader) -> DeliveryBatch:
    first, last, state, count = reader.i64(), reader.i64(), _STATES.get(number := reader.i8()), reader.i16()
    reader.tags()
    if state is None or not 0 <= first <= last:
        raise MalformedRecord(f"offsets {first} to {last} have the delivery state {number}")
    return DeliveryBatch(first, last, state, count)


def fold(records: Iterable[StateWritten], since_ms: int | None = None) -> PartitionDeliveries | None:
    """The state after these records of one partition, in log order; None without a snapshot among them."""
    start, done, known = None, None, False
    layers: list[DeliveryBatch] = []
    failures: list[FailedDeliveries] = []
    for record in records:
        _add_failures(failures, record)
        if record.is_snapshot:
            # From its start offset on it has all; before, only what is archived is of use, and stays so.
            layers = list(_below(record.start or 0, (each for each in layers if each.is_archived)))
            start, known = record.start, True
        elif record.start is not None:
            start = record.start
        layers += record.batches
        done = record.done
    if not known:
        return None
    batches: list[DeliveryBatch] = []
    for each in _topmost(layers):
        if start is not None and each.first < start and not each.is_archived:
            if each.last < start:
                continue
            each = replace(each, first=start)
        last = batches[-1] if batches else None
        if last and (last.last + 1, last.state, last.count) == (each.first, each.state, each.count):
            batches[-1] = replace(last, last=each.last)
        else:
            batches.append(each)
    return PartitionDeliveries(
        start, tuple(batches), since_ms, done, tuple(each for each in failures if each.lasted_ms)
    )


def _add_failures(failures: list[FailedDeliveries], record: StateWritten) -> None:
    """Add the deliveries that ended with this update to those known, which do not overlap and are in order.

    With what a consumer accepts, it writes what it releases. A batch may be a part of the one before, or more than it.
    """
    if record.is_snapshot or record.at_ms is None:
        return
    by_consumer = any(each.state is DeliveryState.ACKNOWLEDGED for each in record.batches)
    for each in record.batches:
        begin = bisect_left(failures, each.first, key=attrgetter("last"))
        end = bisect_right(failures, each.last, key=attrgetter("first"))
        covered = failures[begin:end]
        left = [replace(old, last=each.first - 1) for old in covered[:1] if old.first < each.first]
        right = [replace(old, first=each.last + 1) for old in covered[-1:] if old.last > each.last]
        ended = () if each.state is DeliveryState.ACKNOWLEDGED else _ended(each, covered, record.at_ms, by_consumer)
        failures[begin:end] = [*left, *ended, *right]


def _ended(
    batch: DeliveryBatch, before: Sequence[FailedDeliveries], at_ms: int, by_consumer: bool
) -> Iterator[FailedDeliveries]:
    """The parts of a batch whose deliveries ended, by what is known of those before."""
    rest = batch.first
    for old in before:
        first, last = max(old.first, batch.first), min(old.last, batch.last)
        if rest < first:
            yield FailedDeliveries(rest, first - 1, batch.count, at_ms)
        follows = old.count + 1 == batch.count
        lasted_ms = old.lasted_ms if follows else ()
        if follows and not by_consumer:
            lasted_ms += (at_ms - old.ended_ms,)
        yield FailedDeliveries(first, last, batch.count, at_ms, lasted_ms)
        rest = last + 1
    if rest <= batch.last:
        yield FailedDeliveries(rest, batch.last, batch.count, at_ms)


def _below(end: int, batches: Iterable[DeliveryBatch]) -> Iterator[DeliveryBatch]:
    return (replace(each, last=min(each.last, end - 1)) for each in batches if each.first < end)


def _topmost(layers: Sequence[DeliveryBatch]) -> Iterator[DeliveryBatch]:
    """The batches, in the order of their offsets, cut so that they do not overlap: later layers hide earlier ones."""
    edges = sorted({edge for each in layers for edge in (each.first, each.last + 1)})
    waiting = sorted(range(len(layers)), key=lambda at: layers[at].first, reverse=True)
    open_: list[int] = []
    for first, end in pairwise(edges):
        while waiting and layers[waiting[-1]].first == first:
            heappush(open_, -waiting.pop())
        while open_ and layers[-open_[0]].last < first:
            heappop(open_)
        if open_:
            yield replace(layers[-open_[0]], first=first, last=end - 1)
