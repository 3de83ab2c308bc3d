"""Decode the records of ``__consumer_offsets``: commits, classic groups, consumer groups.

Pure, and without a Kafka client. Written by hand instead of using Kafka's JSON schemas, because every read of a
group's past decodes 10^5 records and more per partition. Schema-driven decoding did 55 records per millisecond;
``python -m tests.benchmarks decode_records`` prints the present speed. Commits, nearly all records of a busy topic,
have a fast path, and decoded keys are cached.

Layouts: Kafka's ``group-coordinator/src/main/resources/common/message/*.json``, 4.0-4.4. Bytes after a
complete key or value are ignored, as by Kafka's own reader.

A reader filters raw keys with ``key_prefix`` or ``group_of`` first, then::

    match decode(key, value):
        case None: ...                                   # of a share or streams group, or an unknown type
        case OffsetCommit(value=None) as gone: ...       # the commit was deleted or expired
        case OffsetCommit(topic=topic, partition=partition, value=commit): ...
        case UnknownVersion(record_type=kind): ...       # a newer version than this program knows
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any

import msgspec

from kgroup.cluster.byte_reader import FAULTS, ByteReader, MalformedRecord, topic_id
from kgroup.cluster.offsets_topic.records import (
    AssignedPartitions,
    ClassicMember,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMember,
    ConsumerGroupMemberValue,
    ConsumerGroupMetadata,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupPartitionMetadataValue,
    CurrentMemberAssignment,
    CurrentMemberAssignmentValue,
    GroupMetadata,
    GroupMetadataValue,
    MemberState,
    OffsetCommit,
    OffsetCommitValue,
    PartitionRacks,
    Record,
    RecordType,
    RegularExpression,
    RegularExpressionValue,
    TargetAssignmentMember,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadata,
    TargetAssignmentMetadataValue,
    TopicMetadata,
    UnknownVersion,
)
from kgroup.model.topic_partition import TopicPartition


def decode(key: bytes, value: bytes | None) -> Record | None:
    """Decode a record; None for types that are not decoded here (share and streams groups, future types).

    A value of a newer version is an UnknownVersion, never a guess. Raises MalformedRecord.
    """
    try:
        known = _read_key(key)
        if known is None:
            return None
        layout, fields = known
        if value is None:
            return layout.record(*fields, None)
        version = _VERSION.unpack_from(value)[0]
        if not 0 <= version <= layout.newest:
            return UnknownVersion(layout.record_type, fields[0], version)
        return layout.record(*fields, layout.value(value, version))
    except FAULTS as error:
        raise MalformedRecord(f"a record with key {key[:80].hex()} cannot be decoded: {error}") from error


def usual_commit(key: bytes, value: bytes) -> tuple[str, int, int, int | None, str, str | None] | None:
    """(topic, partition, offset, leader epoch, metadata, topic id) of a commit, without the objects of ``decode``.

    None for any other record, for versions that current brokers do not write, and for a broken record: then call
    ``decode``. Nearly all records of a busy partition are commits, so this must cost little.
    """
    try:
        record_type, size = _KEY_HEAD.unpack_from(key)
        end = _KEY_HEAD.size + size
        if record_type != _COMMIT_TYPE or size < 0 or not _is_text(key[_KEY_HEAD.size : end]):
            return None
        topic, partition = _partition_in(key[end:])
        # In version 4 the metadata's length + 1 is a varint, one byte if it is short.
        version, offset, epoch, size = _COMMIT.unpack_from(value)
        if version == 3 and size >= 0:
            begin, end, tagged_id = _COMMIT.size, _COMMIT.size + size, None
        elif version == 4 and 0 < (size := size >> 8 & 255) < 128:
            begin, end = _COMMIT.size - 1, _COMMIT.size - 2 + size
            tagged_id = _tagged_id(value[end + _TIME_BYTES :])
        else:
            return None
        if len(value) < end + _TIME_BYTES:
            return None
        metadata = value[begin:end].decode() if begin < end else ""
    except (*FAULTS, MalformedRecord):
        return None
    return topic, partition, offset, None if epoch == -1 else epoch, metadata, tagged_id


def group_of(key: bytes) -> str | None:
    """The group that a record belongs to; None for types that ``decode`` skips. Raises MalformedRecord."""
    try:
        known = _read_key(key)
    except FAULTS as error:
        raise MalformedRecord(f"the key {key[:80].hex()} cannot be decoded: {error}") from error
    return None if known is None else str(known[1][0])


def key_prefix(record_type: int, group: str) -> bytes:
    """The start of the keys of a group's records of this type. No other group's keys start so: the length is included.

    For types 2, 3, 4 and 6 it is the whole key; otherwise topic and partition, member id or pattern follow. Raises
    ValueError for an id that no group can have: over 32,767 bytes, or not valid as UTF-8.
    """
    encoded = group.encode()
    if len(encoded) > 32767:
        raise ValueError(f"a group id has at most 32,767 bytes, not {len(encoded):,}")
    return _KEY_HEAD.pack(record_type, len(encoded)) + encoded


_VERSION = Struct(">h")
_KEY_HEAD = Struct(">hh")
_COMMIT_TYPE = int(RecordType.OFFSET_COMMIT)


class _Layout(msgspec.Struct, frozen=True):
    """How to decode a type: its key's fields after the group, the newest known value version, its value."""

    record_type: RecordType
    record: Callable[..., Record]
    rest_of_key: Callable[[ByteReader], tuple[Any, ...]]
    newest: int
    value: Callable[[bytes, int], Any]


# A group commits for the same partitions repeatedly, so most keys are in the cache.
@lru_cache(maxsize=8192)
def _read_key(key: bytes) -> tuple[_Layout, tuple[Any, ...]] | None:
    layout = _LAYOUTS.get(_VERSION.unpack_from(key)[0])
    if layout is None:
        return None
    reader = ByteReader(key, 2)
    return layout, (reader.string(), *layout.rest_of_key(reader))


# Many groups commit to the same topics, so these entries serve many keys.
@lru_cache(maxsize=8192)
def _partition_in(rest_of_key: bytes) -> TopicPartition:
    return _topic_partition(ByteReader(rest_of_key))


@lru_cache(maxsize=8192)
def _is_text(group: bytes) -> bool:
    """Check that the id is UTF-8: returns True or raises."""
    return group.decode() is not None


def _nothing(reader: ByteReader) -> tuple[()]:
    return ()


def _text(reader: ByteReader) -> tuple[str]:
    return (reader.string(),)


def _topic_partition(reader: ByteReader) -> TopicPartition:
    return TopicPartition(reader.string(), reader.i32())


_COMMIT = Struct(">hqih")
_TIME_BYTES = 8


def _known(number: int) -> int | None:
    return None if number == -1 else number


def _offset_commit(data: bytes, version: int) -> OffsetCommitValue:
    reader = ByteReader(data, 2)
    offset = reader.i64()
    epoch = _known(reader.i32()) if version >= 3 else None
    metadata = reader.compact_string() if version >= 4 else reader.string()
    committed_ms = reader.i64()
    expire_ms = _known(reader.i64()) if version == 1 else None
    tagged_id = _tagged_id(data[reader.pos :]) if version >= 4 else None
    return OffsetCommitValue(offset, epoch, metadata, committed_ms, expire_ms, tagged_id)


@lru_cache(maxsize=8192)
def _tagged_id(tags: bytes) -> str | None:
    raw_id = ByteReader(tags).tags().get(0)
    return None if raw_id is None else topic_id(raw_id)


def _group_metadata(data: bytes, version: int) -> GroupMetadataValue:
    reader = ByteReader(data, 2)
    flexible = version >= 4
    string = reader.compact_string if flexible else reader.string
    nullable_string = reader.nullable_compact_string if flexible else reader.nullable_string
    bytes_ = reader.compact_bytes if flexible else reader.bytes_

    def member() -> ClassicMember:
        result = ClassicMember(
            string(),
            nullable_string() if version >= 3 else None,
            string(),
            string(),
            _known(reader.i32()) if version >= 1 else None,
            reader.i32(),
            bytes_(),
            bytes_(),
        )
        if flexible:
            reader.tags()
        return result

    group = GroupMetadataValue(
        string(),
        reader.i32(),
        nullable_string(),
        nullable_string(),
        _known(reader.i64()) if version >= 2 else None,
        reader.compact_array(member) if flexible else reader.array(member),
    )
    if flexible:
        reader.tags()
    return group


def _consumer_group_metadata(data: bytes, version: int) -> ConsumerGroupMetadataValue:
    reader = ByteReader(data, 2)
    return ConsumerGroupMetadataValue(reader.i32(), _tagged_i64(reader))


def _tagged_i64(reader: ByteReader) -> int | None:
    """The int64 of tag 0; None if absent, which is also how Kafka writes its default, 0."""
    raw = reader.tags().get(0)
    return None if raw is None else ByteReader(raw).i64() or None


def _partition_metadata(data: bytes, version: int) -> ConsumerGroupPartitionMetadataValue:
    reader = ByteReader(data, 2)

    def racks() -> PartitionRacks:
        partition = PartitionRacks(reader.i32(), reader.compact_array(reader.compact_string))
        reader.tags()
        return partition

    def topic() -> TopicMetadata:
        metadata = TopicMetadata(reader.topic_id(), reader.compact_string(), reader.i32(), reader.compact_array(racks))
        reader.tags()
        return metadata

    topics = reader.compact_array(topic)
    reader.tags()
    return ConsumerGroupPartitionMetadataValue(topics)


def _consumer_group_member(data: bytes, version: int) -> ConsumerGroupMemberValue:
    reader = ByteReader(data, 2)
    return ConsumerGroupMemberValue(
        reader.nullable_compact_string(),
        reader.nullable_compact_string(),
        reader.compact_string(),
        reader.compact_string(),
        reader.compact_array(reader.compact_string),
        reader.nullable_compact_string(),
        _known(reader.i32()),
        reader.nullable_compact_string(),
        _classic_metadata(reader.tags().get(0)),
    )


def _classic_metadata(raw: bytes | None) -> ClassicMemberMetadata | None:
    if raw is None:
        return None
    reader = ByteReader(raw)
    # A nullable struct in a tag starts with a varint, 0 for null; brokers also write the null.
    if reader.uvarint() == 0:
        return None

    def protocol() -> ClassicProtocol:
        result = ClassicProtocol(reader.compact_string(), reader.compact_bytes())
        reader.tags()
        return result

    classic = ClassicMemberMetadata(reader.i32(), reader.compact_array(protocol))
    reader.tags()
    return classic


def _target_metadata(data: bytes, version: int) -> TargetAssignmentMetadataValue:
    reader = ByteReader(data, 2)
    return TargetAssignmentMetadataValue(reader.i32(), _tagged_i64(reader))


def _assigned_partitions(reader: ByteReader) -> tuple[AssignedPartitions, ...]:
    def topic() -> AssignedPartitions:
        name = reader.topic_id()
        partitions = reader.compact_i32_array()
        raw = reader.tags().get(0)
        epochs = None if raw is None else ByteReader(raw).nullable_compact_i32_array()
        return AssignedPartitions(name, partitions, epochs or None)

    return reader.compact_array(topic)


def _target_member(data: bytes, version: int) -> TargetAssignmentMemberValue:
    reader = ByteReader(data, 2)
    partitions = _assigned_partitions(reader)
    reader.tags()
    return TargetAssignmentMemberValue(partitions)


def _current_assignment(data: bytes, version: int) -> CurrentMemberAssignmentValue:
    reader = ByteReader(data, 2)
    assignment = CurrentMemberAssignmentValue(
        reader.i32(),
        _known(reader.i32()),
        MemberState(reader.i8()),
        _assigned_partitions(reader),
        _assigned_partitions(reader),
    )
    reader.tags()
    return assignment


def _regular_expression(data: bytes, version: int) -> RegularExpressionValue:
    reader = ByteReader(data, 2)
    resolved = RegularExpressionValue(reader.compact_array(reader.compact_string), reader.i64(), reader.i64())
    reader.tags()
    return resolved


_LAYOUTS: dict[int, _Layout] = {
    layout.record_type.value: layout
    for layout in (
        _Layout(RecordType.LEGACY_OFFSET_COMMIT, OffsetCommit, _topic_partition, 0, _offset_commit),
        _Layout(RecordType.OFFSET_COMMIT, OffsetCommit, _topic_partition, 4, _offset_commit),
        _Layout(RecordType.GROUP_METADATA, GroupMetadata, _nothing, 4, _group_metadata),
        _Layout(RecordType.CONSUMER_GROUP_METADATA, ConsumerGroupMetadata, _nothing, 0, _consumer_group_metadata),
        _Layout(
            RecordType.CONSUMER_GROUP_PARTITION_METADATA,
            ConsumerGroupPartitionMetadata,
            _nothing,
            0,
            _partition_metadata,
        ),
        _Layout(RecordType.CONSUMER_GROUP_MEMBER, ConsumerGroupMember, _text, 0, _consumer_group_member),
        _Layout(RecordType.TARGET_ASSIGNMENT_METADATA, TargetAssignmentMetadata, _nothing, 0, _target_metadata),
        _Layout(RecordType.TARGET_ASSIGNMENT_MEMBER, TargetAssignmentMember, _text, 0, _target_member),
        _Layout(RecordType.CURRENT_MEMBER_ASSIGNMENT, CurrentMemberAssignment, _text, 0, _current_assignment),
        _Layout(RecordType.REGULAR_EXPRESSION, RegularExpression, _text, 0, _regular_expression),
    )
}
