"""Fetch record batches of ``__consumer_offsets`` and parse them directly, so that unwanted records cost almost nothing.

A client's own parser makes an object of each record. Here a batch that contains no wanted group's name is only
counted (ten times as fast). In other batches, a record's key head is compared before anything is copied. The layout is
Kafka's magic 2 (KIP-98). Batches from before Kafka 0.11, and codecs, are left to kafka-python. Checksums are not
verified: TCP and the broker have verified theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from struct import Struct
from typing import Any, NamedTuple, TypeAlias

import kafka.codec as codecs
from kafka.errors import KafkaError
from kafka.protocol.consumer import FetchRequest
from kafka.record.legacy_records import LegacyRecordBatch

from kgroup.cluster.byte_reader import FAULTS, MalformedRecord
from kgroup.cluster.offsets_topic.commit_runs import PARTITION_BYTES, CommitRun, commits_like
from kgroup.model.groups import LogRange
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError


class RawRecord(NamedTuple):
    """A record as stored in the log; ``value`` None is a tombstone.

    ``timestamp_ms`` is -1 if the record has none (before Kafka 0.10). ``producer_id`` is the producer whose transaction
    it belongs to, None outside of a transaction.
    """

    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None
    producer_id: int | None


class Marker(NamedTuple):
    """The end of a producer's transaction; ``at_ms`` is when it was written."""

    offset: int
    producer_id: int
    aborted: bool
    at_ms: int = 0


LogEntry: TypeAlias = RawRecord | Marker | CommitRun


class KeyFilter:
    """The key heads to find, as made by ``key_prefix``: type and group. ``in_runs`` are those to find in runs, too."""

    def __init__(self, heads: Collection[bytes], in_runs: Collection[bytes] = ()) -> None:
        self.heads = heads
        self.in_runs = in_runs
        groups = {head[_TYPE_BYTES:] for head in heads} if len(heads) <= _SEARCHED_HEADS else ()
        self._groups = tuple(groups) if 0 < len(groups) <= _SEARCHED_GROUPS else None

    def may_be_in(self, body: bytes) -> bool:
        """Whether these bytes contain a wanted group's name; True if there are too many groups to search for."""
        return self._groups is None or any(group in body for group in self._groups)


class RecordBatch(NamedTuple):
    """A batch with offsets [base, end), of which compaction may have left few; ``body`` is its records as stored.

    ``newest_ms`` is the time of its newest record. ``append_ms`` is the time of all its records with LogAppendTime,
    else None. ``first_ms`` is the base of the records' relative times: the first record's time, or, for a batch with
    tombstones, when these may be removed (KIP-534).
    """

    base: int
    end: int
    first_ms: int
    newest_ms: int
    append_ms: int | None
    codec: int
    transactional: bool
    control: bool
    producer_id: int
    records: int
    body: bytes
    legacy: tuple[RawRecord, ...] | None = None


class BatchMatches(NamedTuple):
    """A batch's records in a range of offsets: their number, and the wanted ones and markers among them.

    ``following`` is the offset after its last record there. ``gap_until`` is the first offset after the last gap; None
    if no record is missing.
    """

    records: int
    following: int
    gap_until: int | None
    entries: list[LogEntry]


_TYPE_BYTES, _KEY_HEAD_BYTES = 2, 4
_SEARCHED_GROUPS, _SEARCHED_HEADS = 4, 96
_HEADER = Struct(">qiibIhiqqqhii")
_FRAME = Struct(">qi")
_MAGIC_AT, _NEWEST_MAGIC = 16, 2
_LEAST_LEGACY = 26
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_CONTROL_KEY = Struct(">hh")
_ABORT, _COMMIT = 0, 1
_PLAIN = 0
_MOST_VARINT_BYTES = 10
_new = tuple.__new__
_WAIT_MS = 100
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1

_CODECS: dict[int, tuple[str, Callable[[], bool], Callable[[bytes], Any]]] = {
    1: ("gzip", codecs.has_gzip, codecs.gzip_decode),
    2: ("snappy", codecs.has_snappy, codecs.snappy_decode),
    3: ("lz4", codecs.has_lz4, lambda data: codecs.lz4_decode(data)),
    4: ("zstd", codecs.has_zstd, codecs.zstd_decode),
}


def fetch_request(
    positions: Mapping[TopicPartition, int], partition_max_bytes: int, *, read_committed: bool = False
) -> Any:
    """A Fetch from these offsets. ``read_committed`` ends it at the last stable offset and lists aborted transactions.

    A broker returns at most ``partition_max_bytes`` per partition. If a partition's first batch is longer, the broker
    returns nothing for that partition. The first partition that has data is the exception: it returns one whole batch.
    """
    topics: dict[str, list[Any]] = {}
    for (topic, number), offset in positions.items():
        row = FetchRequest.FetchTopic.FetchPartition(
            partition=number,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=partition_max_bytes,
        )
        topics.setdefault(topic, []).append(row)
    # From version 13 on, topics are identified by id instead of name.
    return FetchRequest(
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=partition_max_bytes * len(positions),
        isolation_level=_READ_COMMITTED if read_committed else _READ_UNCOMMITTED,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=rows) for topic, rows in topics.items()],
        max_version=12,
    )


def batches(data: bytes) -> Iterator[RecordBatch]:
    """The complete batches of a response, without one that the broker cut off at its end. Raises MalformedRecord."""
    at, size = 0, len(data)
    while size - at > _MAGIC_AT:
        base, length = _FRAME.unpack_from(data, at)
        end = at + _FRAME.size + length
        if end > size:
            return
        magic = data[at + _MAGIC_AT]
        least = _HEADER.size if magic == _NEWEST_MAGIC else _LEAST_LEGACY
        if end - at < least or magic > _NEWEST_MAGIC:
            raise MalformedRecord(f"a batch of {length} bytes and format {magic} at offset {base}")
        if magic < _NEWEST_MAGIC:
            yield _legacy(data[at:end], magic)
        else:
            yield _batch(data, at, end)
        at = end


def _batch(data: bytes, at: int, stop: int) -> RecordBatch:
    base, _, _, _, _, attributes, last, first_ms, newest_ms, producer_id, _, _, count = _HEADER.unpack_from(data, at)
    # An uncompressed record has at least seven bytes. A broken count must not make us loop for long.
    if last < 0 or not 0 <= count <= last + 1:
        raise MalformedRecord(f"a batch of {count} records, the last one {last} behind offset {base}")
    return RecordBatch(
        base,
        base + last + 1,
        first_ms,
        newest_ms,
        newest_ms if attributes & _APPEND_TIME else None,
        attributes & _CODEC,
        bool(attributes & _TRANSACTIONAL),
        bool(attributes & _CONTROL),
        producer_id,
        count,
        data[at + _HEADER.size : stop],
    )


def records_in_range(batch: RecordBatch, offsets: LogRange, key_filter: KeyFilter, expected: int) -> BatchMatches:
    """The batch's records in these offsets; ``expected`` is the offset after the last record before it.

    Raises MalformedRecord, or another KgroupError if its codec is not installed.
    """
    start, end = max(offsets.start, batch.base), min(offsets.end, batch.end)
    if start >= end:
        return BatchMatches(0, expected, None, [])
    if batch.legacy is not None:
        return _of_legacy(batch.legacy, start, end, key_filter.heads, expected)
    body = batch.body if batch.codec == _PLAIN else _unpacked(batch)
    if batch.records == batch.end - batch.base and not batch.control and not key_filter.may_be_in(body):
        return BatchMatches(end - start, end, None if start == expected else start, [])
    try:
        return _read(batch, body, LogRange(start, end), key_filter, expected)
    except FAULTS as error:
        raise MalformedRecord(f"the batch at offset {batch.base} cannot be decoded: {error}") from error


def first_at(batch: RecordBatch, offset: int) -> tuple[int, int] | None:
    """(offset, time in ms or -1) of the batch's first record at this offset or above, with or without a key.

    None if there is none. Raises what ``records_in_range`` raises.
    """
    if batch.legacy is not None:
        return next(((record.offset, record.timestamp_ms) for record in batch.legacy if record.offset >= offset), None)
    body = batch.body if batch.codec == _PLAIN else _unpacked(batch)
    try:
        for record_offset, elapsed, *_ in _frames(body, batch.base, batch.records):
            if record_offset >= offset:
                time_ms = batch.first_ms + ((elapsed >> 1) ^ -(elapsed & 1))
                return record_offset, time_ms if batch.append_ms is None else batch.append_ms
    except FAULTS as error:
        raise MalformedRecord(f"the batch at offset {batch.base} cannot be decoded: {error}") from error
    return None


def _read(batch: RecordBatch, body: bytes, offsets: LogRange, key_filter: KeyFilter, expected: int) -> BatchMatches:
    start, end, control = offsets.start, offsets.end, batch.control
    first_ms, append_ms = batch.first_ms, batch.append_ms
    producer_id = batch.producer_id if batch.transactional else None
    heads, in_runs = key_filter.heads, key_filter.in_runs if producer_id is None else ()
    counted, gap_until = 0, None
    entries: list[LogEntry] = []
    following, left = 0, batch.records
    while left:
        for offset, elapsed, key_at, key_end, stop in _frames(body, batch.base, left, following):
            at, following, left = following, stop, left - 1
            if not start <= offset < end:
                continue
            counted += 1
            if offset != expected:
                gap_until = offset
            expected = offset + 1
            if control:
                entries += _markers(batch, offset, body[key_at:key_end])
                continue
            # The head is an int16 of the type, one of the group's length, and the group.
            if (
                key_end - key_at < _KEY_HEAD_BYTES
                or (head_end := key_at + _KEY_HEAD_BYTES + (body[key_at + 2] << 8 | body[key_at + 3])) > key_end
                or (head := body[key_at:head_end]) not in heads
            ):
                continue
            time_ms = first_ms + ((elapsed >> 1) ^ -(elapsed & 1)) if append_ms is None else append_ms
            value = _value(body, key_end, stop)
            if (
                left
                and head in in_runs
                and body.startswith(body[key_at : key_end - PARTITION_BYTES], key_at + stop - at)
                and (commits := commits_like(body, at, stop, batch.base, time_ms, min(left, end - expected)))
            ):
                entries.append(CommitRun(head, commits))
                more = len(commits) - 1
                counted, expected, left = counted + more, expected + more, left - more
                following += more * (stop - at)
                break
            # Same as RawRecord(...), in half the time.
            entries.append(_new(RawRecord, (offset, time_ms, body[key_at:key_end], value, producer_id)))
    return BatchMatches(counted, expected, gap_until, entries)


def _frames(body: bytes, base: int, count: int, position: int = 0) -> Iterator[tuple[int, int, int, int, int]]:
    """(offset, zigzag of its relative time, start and end of its key, end of the record) of ``count`` records.

    The end of a missing or broken key is 0. Varints of one and two bytes are decoded inline: a call costs more than
    the rest.
    """
    size = len(body)
    for _ in range(count):
        length = body[position]
        if length < 128:
            position += 1
        elif (second := body[position + 1]) < 128:
            length, position = length & 127 | second << 7, position + 2
        else:
            length, position = _uvarint(body, position)
        stop = position + (length >> 1)
        elapsed = body[position + 1]  # skips the attributes byte, which is unused
        if elapsed < 128:
            position += 2
        else:
            elapsed, position = _uvarint(body, position + 1)
        delta = body[position]
        if delta < 128:
            position += 1
        elif (second := body[position + 1]) < 128:
            delta, position = delta & 127 | second << 7, position + 2
        else:
            delta, position = _uvarint(body, position)
        if length & 1 or delta & 1 or not position <= stop <= size:
            raise MalformedRecord(f"a record of the batch at offset {base} leads outside of it")
        number = body[position]
        if number < 128:
            position += 1
        else:
            number, position = _uvarint(body, position)
        key_end = position + (number >> 1)
        yield base + (delta >> 1), elapsed, position, 0 if number & 1 or key_end > stop else key_end, stop
        position = stop


def _value(body: bytes, position: int, stop: int) -> bytes | None:
    number = body[position]
    if number < 128:
        position += 1
    else:
        number, position = _uvarint(body, position)
    if number & 1:
        return None
    end = position + (number >> 1)
    if end > stop:
        raise MalformedRecord(f"a value of {number >> 1} bytes where {stop - position} are left")
    return body[position:end]


def _markers(batch: RecordBatch, offset: int, key: bytes) -> tuple[Marker, ...]:
    """The marker in a control record's key (version, type); none in control records that end no transaction."""
    kind = _CONTROL_KEY.unpack_from(key)[1] if len(key) >= _CONTROL_KEY.size else None
    return (Marker(offset, batch.producer_id, kind == _ABORT, batch.newest_ms),) if kind in (_ABORT, _COMMIT) else ()


def _uvarint(body: bytes, position: int) -> tuple[int, int]:
    """(the number, position after it); at most 64 bits."""
    number = 0
    for index in range(_MOST_VARINT_BYTES):
        byte = body[position]
        position += 1
        number |= (byte & 127) << 7 * index
        if byte < 128:
            return number, position
    raise MalformedRecord("a varint is longer than ten bytes")


def _unpacked(batch: RecordBatch) -> bytes:
    codec = _CODECS.get(batch.codec)
    if codec is None:
        raise MalformedRecord(f"the batch at offset {batch.base} has the unknown codec {batch.codec}")
    name, installed, unpack = codec
    if not installed():
        raise KgroupError(f"could not be decoded: libraries for {name} compression are not installed")
    try:
        return bytes(unpack(batch.body))
    except Exception as error:  # each codec raises its own types
        raise MalformedRecord(f"the batch at offset {batch.base} cannot be unpacked ({name}): {error}") from error


def _legacy(data: bytes, magic: int) -> RecordBatch:
    """A message from before Kafka 0.11; or several compressed into one, which has the offset of the last one."""
    try:
        records = list(LegacyRecordBatch(data, magic))
    except KafkaError as error:
        raise KgroupError(f"could not be decoded: {error}") from error
    except Exception as error:  # AssertionError, and what each codec raises
        raise MalformedRecord(f"a message of format {magic} cannot be decoded: {error}") from error
    if not records:
        raise MalformedRecord(f"a message of format {magic} holds nothing")
    raw = tuple(
        RawRecord(
            record.offset, -1 if record.timestamp is None else record.timestamp, record.key or b"", record.value, None
        )
        for record in records
    )
    base, end = records[0].offset, records[-1].offset + 1
    newest = max((record.timestamp_ms for record in raw), default=-1)
    return RecordBatch(base, end, newest, newest, None, _PLAIN, False, False, -1, len(records), b"", raw)


def _of_legacy(
    records: Collection[RawRecord], start: int, end: int, heads: Collection[bytes], expected: int
) -> BatchMatches:
    counted, gap_until = 0, None
    entries: list[LogEntry] = []
    for record in records:
        if start <= record.offset < end:
            counted += 1
            if record.offset != expected:
                gap_until = record.offset
            expected = record.offset + 1
            if key_head(record.key) in heads:
                entries.append(record)
    return BatchMatches(counted, expected, gap_until, entries)


def key_head(key: bytes) -> bytes:
    """The start of a key with type and group, as made by ``key_prefix``."""
    return key[: _KEY_HEAD_BYTES + int.from_bytes(key[_TYPE_BYTES:_KEY_HEAD_BYTES])]
