"""Decode the records of ``__consumer_offsets`` to events: commits, and groups of all types.

Pure, and without a Kafka client. Written by hand instead of using Kafka's JSON schemas, because every read of a
group's past decodes 10^5 records and more per partition. Schema-driven decoding did 55 records per millisecond;
``python -m tests.benchmarks decode_records`` prints the present speed. Commits, nearly all records of a busy topic,
have a fast path, and decoded keys are cached.

Layouts: Kafka's ``group-coordinator/src/main/resources/common/message/*.json``, 4.0-4.4. Bytes after a
complete key or value are ignored, as by Kafka's own reader. Fields that no event has are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from struct import Struct
from typing import Any

import msgspec

from kgroup.cluster.byte_reader import FAULTS, ByteReader, MalformedRecord, topic_id
from kgroup.cluster.offsets_topic.records import ClassicMember, GroupMetadata, RecordType
from kgroup.model.group_log import (
    CommitWritten,
    EpochWritten,
    Event,
    GroupDeleted,
    MemberAssignment,
    MemberAssignmentWritten,
    MemberDetails,
    MemberWritten,
    Partitions,
    PatternResolved,
    RebalanceProtocol,
    ShareStates,
    ShareStatesWritten,
    SpareTasks,
    TargetEpochWritten,
    TargetWritten,
    Topology,
    TopologyWritten,
    TransactionEnd,
    Unreadable,
)
from kgroup.model.streams_group import Subtopology
from kgroup.model.topic_partition import TopicPartition


def decode(key: bytes, value: bytes | None, log_offset: int, at_ms: int) -> Event | GroupMetadata | None:
    """The event of a record; None for types that are not decoded here (type 4, future types).

    A commit counts as one outside of transactions. Assignments have topic ids for names. A value of a newer version is
    Unreadable, never a guess. Raises MalformedRecord.
    """
    try:
        known = _read_key(key)
        if known is None:
            return None
        layout, fields = known
        if value is None:
            return layout.event(log_offset, at_ms, *fields, None)
        version = _VERSION.unpack_from(value)[0]
        if not 0 <= version <= layout.newest:
            kind = layout.record_type.value
            why = f"a record of type {kind} has version {version}, newer than this program"
            return Unreadable(log_offset, at_ms, why, kind)
        return layout.event(log_offset, at_ms, *fields, layout.value(ByteReader(value, 2), version))
    except (MalformedRecord, *FAULTS) as error:
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


def key_prefix(record_type: int, group: str) -> bytes:
    """The start of the keys of a group's records of this type. No other group's keys start so: the length is included.

    For types without members, partitions or patterns it is the whole key; otherwise topic and partition, member id or
    pattern follow. Raises ValueError for an id that no group can have: over 32,767 bytes, or not valid as UTF-8.
    """
    encoded = group.encode()
    if len(encoded) > 32767:
        raise ValueError(f"a group id has at most 32,767 bytes, not {len(encoded):,}")
    return _KEY_HEAD.pack(record_type, len(encoded)) + encoded


_VERSION = Struct(">h")
_KEY_HEAD = Struct(">hh")
_COMMIT_TYPE = int(RecordType.OFFSET_COMMIT)


class _Layout(msgspec.Struct, frozen=True):
    """How to decode a type: its key's fields after the group, the newest known value version, its value.

    ``event`` makes the event of offset, time, the key's fields, and the value; None for a tombstone.
    """

    record_type: RecordType
    event: Callable[..., Event | GroupMetadata]
    rest_of_key: Callable[[ByteReader], tuple[Any, ...]]
    newest: int
    value: Callable[[ByteReader, int], Any]


# A group commits for the same partitions repeatedly, so most keys are in the cache.
@lru_cache(maxsize=8192)
def _read_key(key: bytes) -> tuple[_Layout, tuple[Any, ...]] | None:
    layout = _LAYOUTS.get(_VERSION.unpack_from(key)[0])
    if layout is None:
        return None
    reader = ByteReader(key, 2)
    reader.string()
    return layout, layout.rest_of_key(reader)


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


_Commit = tuple[int, int | None, str, str | None]
"""Offset, leader epoch, metadata, topic id."""


def _offset_commit(reader: ByteReader, version: int) -> _Commit:
    offset = reader.i64()
    epoch = _known(reader.i32()) if version >= 3 else None
    metadata = reader.compact_string() if version >= 4 else reader.string()
    reader.take(2 * _TIME_BYTES if version == 1 else _TIME_BYTES)
    return offset, epoch, metadata, _tagged_id(reader.data[reader.pos :]) if version >= 4 else None


def _commit_event(at: int, time: int, topic: str, partition: int, commit: _Commit | None) -> CommitWritten:
    offset, epoch, metadata, tagged_id = commit or (None, None, "", None)
    plain = TransactionEnd.PLAIN
    return CommitWritten(at, time, topic, partition, offset, metadata, tagged_id, None, plain, epoch)


@lru_cache(maxsize=8192)
def _tagged_id(tags: bytes) -> str | None:
    raw_id = ByteReader(tags).tags().get(0)
    return None if raw_id is None else topic_id(raw_id)


def _group_metadata(reader: ByteReader, version: int) -> GroupMetadata:
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

    group = GroupMetadata(
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


def _group_event(at: int, time: int, group: GroupMetadata | None) -> GroupMetadata | GroupDeleted:
    return GroupDeleted(at, time, RebalanceProtocol.CLASSIC) if group is None else group


def _epoch(reader: ByteReader, _: int) -> tuple[int, int | None]:
    """(group epoch, hash of the topics' metadata). Without tag 0, or with Kafka's default 0 in it, there is no hash."""
    epoch, raw_hash = reader.i32(), reader.tags().get(0)
    return epoch, None if raw_hash is None else ByteReader(raw_hash).i64() or None


def _share_epoch(reader: ByteReader, _: int) -> tuple[int, int | None]:
    epoch, topics_hash = reader.i32(), reader.i64() or None
    reader.tags()
    return epoch, topics_hash


_Settings = tuple[tuple[str, str], ...]


def _streams_epoch(reader: ByteReader, _: int) -> tuple[int, int | None, int | None, _Settings | None]:
    """(group epoch, hash, epoch of the validated topology, settings of the latest assignment)."""
    epoch, topics_hash, tags = reader.i32(), reader.i64() or None, reader.tags()
    topology = None if 0 not in tags else _known(ByteReader(tags[0]).i32())
    if not tags.get(1, b"\0")[0]:
        return epoch, topics_hash, topology, None
    pairs = ByteReader(tags[1])
    return epoch, topics_hash, topology, tuple(sorted(pairs.compact_array(lambda: _pair(pairs))))


def _pair(reader: ByteReader) -> tuple[str, str]:
    pair = reader.compact_string(), reader.compact_string()
    reader.tags()
    return pair


def _epoch_event(protocol: RebalanceProtocol) -> Callable[..., EpochWritten | GroupDeleted]:
    def event(at: int, time: int, fields: tuple[Any, ...] | None) -> EpochWritten | GroupDeleted:
        if fields is None:
            return GroupDeleted(at, time, protocol)
        epoch, topics_hash, *others = fields
        return EpochWritten(at, time, epoch, topics_hash, protocol, *others)

    return event


def _member(reader: ByteReader, _: int) -> MemberDetails:
    instance_id, _rack = reader.nullable_compact_string(), reader.nullable_compact_string()
    client_id, host = reader.compact_string(), reader.compact_string().removeprefix("/")
    topics, pattern = reader.compact_array(reader.compact_string), reader.nullable_compact_string()
    rebalance_timeout_ms, _assignor = _known(reader.i32()), reader.nullable_compact_string()
    session_ms = _classic_session_ms(reader.tags().get(0))
    return MemberDetails(
        instance_id, client_id, host, frozenset(topics), pattern or None, rebalance_timeout_ms, session_ms
    )


def _classic_session_ms(raw: bytes | None) -> int | None:
    reader = ByteReader(raw or b"\0")
    # A nullable struct in a tag starts with a varint, 0 for null; brokers also write the null.
    return reader.i32() if reader.uvarint() else None


def _share_member(reader: ByteReader, _: int) -> MemberDetails:
    _rack, client_id, host = reader.nullable_compact_string(), reader.compact_string(), reader.compact_string()
    topics = frozenset(reader.compact_array(reader.compact_string))
    reader.tags()
    return MemberDetails(None, client_id, host.removeprefix("/"), topics, None, None, None)


def _streams_member(reader: ByteReader, _: int) -> MemberDetails:
    instance_id, _rack = reader.nullable_compact_string(), reader.nullable_compact_string()
    client_id, host = reader.compact_string(), reader.compact_string().removeprefix("/")
    rebalance_timeout_ms, topology_epoch, process_id = _known(reader.i32()), reader.i32(), reader.compact_string()
    if reader.i8() >= 0:  # the endpoint of the application, a nullable struct
        reader.compact_string()
        reader.i16()
        reader.tags()
    reader.compact_array(lambda: _pair(reader))
    reader.tags()
    return MemberDetails(
        instance_id, client_id, host, frozenset(), None, rebalance_timeout_ms, None, process_id, topology_epoch
    )


def _target_epoch(reader: ByteReader, _: int) -> int:
    epoch = reader.i32()
    reader.tags()
    return epoch


def _partitions(reader: ByteReader, name_of: Callable[[ByteReader], str | None] = ByteReader.topic_id) -> Partitions:
    def topic() -> list[TopicPartition]:
        name, numbers = name_of(reader) or "", reader.compact_i32_array()
        reader.tags()
        return [TopicPartition(name, number) for number in numbers]

    return frozenset(tp for topic in reader.compact_array(topic) for tp in topic)


def _tasks(reader: ByteReader) -> Partitions:
    return _partitions(reader, ByteReader.compact_string)


def _target(reader: ByteReader, _: int) -> Partitions:
    partitions = _partitions(reader)
    reader.tags()
    return partitions


def _assignment(reader: ByteReader, _: int) -> MemberAssignment:
    epoch, _previous_epoch, state = reader.i32(), reader.i32(), reader.i8()
    assignment = MemberAssignment(epoch, state == _STABLE, _partitions(reader), _partitions(reader))
    reader.tags()
    return assignment


def _share_assignment(reader: ByteReader, _: int) -> MemberAssignment:
    epoch, _previous_epoch, state = reader.i32(), reader.i32(), reader.i8()
    assignment = MemberAssignment(epoch, state == _STABLE, _partitions(reader), frozenset())
    reader.tags()
    return assignment


def _streams_target(reader: ByteReader, _: int) -> tuple[Partitions, SpareTasks]:
    target = _tasks(reader), SpareTasks(_tasks(reader), _tasks(reader))
    reader.tags()
    return target


def _streams_target_event(
    at: int, time: int, member_id: str, target: tuple[Partitions, SpareTasks] | None
) -> TargetWritten:
    return TargetWritten(at, time, member_id, *(target or (None, None)))


def _streams_assignment(reader: ByteReader, _: int) -> MemberAssignment:
    epoch, _previous_epoch, state = reader.i32(), reader.i32(), reader.i8()
    active, spares, pending = _tasks(reader), SpareTasks(_tasks(reader), _tasks(reader)), _tasks(reader)
    _standby, _warmup = _tasks(reader), _tasks(reader)  # still to be given up
    reader.tags()
    return MemberAssignment(epoch, state == _STREAMS_STABLE, active, pending, spares)


def _share_states(reader: ByteReader, _: int) -> ShareStates:
    def deleted() -> str:
        topic = _topic_name(reader)
        reader.tags()
        return topic

    initializing, initialized = _partitions(reader, _topic_name), _partitions(reader, _topic_name)
    states = ShareStates(initializing, initialized, frozenset(reader.compact_array(deleted)))
    reader.tags()
    return states


def _topic_name(reader: ByteReader) -> str:
    """The name of a topic, of which the id comes first."""
    reader.take(16)
    return reader.compact_string()


def _topology(reader: ByteReader, _: int) -> Topology:
    strings = partial(reader.compact_array, reader.compact_string)

    def topic() -> str:
        name, _partitions_and_replicas = reader.compact_string(), reader.take(6)
        reader.compact_array(lambda: _pair(reader))
        reader.tags()
        return name

    def copartition_group() -> None:
        for _ in range(3):
            reader.compact_array(reader.i16)
        reader.tags()

    def subtopology() -> Subtopology:
        name, sources, _patterns = reader.compact_string(), strings(), strings()
        changelogs, _sinks, repartitioned = reader.compact_array(topic), strings(), reader.compact_array(topic)
        reader.compact_array(copartition_group)
        reader.tags()
        return Subtopology(name, *(tuple(sorted(each)) for each in (sources, repartitioned, changelogs)))

    topology = Topology(reader.i32(), tuple(reader.compact_array(subtopology)))
    reader.tags()
    return topology


def _matched_topics(reader: ByteReader, _: int) -> frozenset[str]:
    topics = frozenset(reader.compact_array(reader.compact_string))
    reader.take(16)  # the version of the metadata, and a time
    reader.tags()
    return topics


_STABLE = 0
"""org.apache.kafka.coordinator.group.modern.MemberState; any other still revokes or waits for partitions."""

_STREAMS_STABLE = 1
"""org.apache.kafka.coordinator.group.streams.MemberState"""

_LAYOUTS: dict[int, _Layout] = {
    layout.record_type.value: layout
    for layout in (
        _Layout(RecordType.LEGACY_OFFSET_COMMIT, _commit_event, _topic_partition, 0, _offset_commit),
        _Layout(RecordType.OFFSET_COMMIT, _commit_event, _topic_partition, 4, _offset_commit),
        _Layout(RecordType.GROUP_METADATA, _group_event, _nothing, 4, _group_metadata),
        _Layout(RecordType.CONSUMER_GROUP_METADATA, _epoch_event(RebalanceProtocol.CONSUMER), _nothing, 0, _epoch),
        _Layout(RecordType.CONSUMER_GROUP_MEMBER, MemberWritten, _text, 0, _member),
        _Layout(RecordType.TARGET_ASSIGNMENT_METADATA, TargetEpochWritten, _nothing, 0, _target_epoch),
        _Layout(RecordType.TARGET_ASSIGNMENT_MEMBER, TargetWritten, _text, 0, _target),
        _Layout(RecordType.CURRENT_MEMBER_ASSIGNMENT, MemberAssignmentWritten, _text, 0, _assignment),
        _Layout(RecordType.SHARE_GROUP_MEMBER, MemberWritten, _text, 0, _share_member),
        _Layout(RecordType.SHARE_GROUP_METADATA, _epoch_event(RebalanceProtocol.SHARE), _nothing, 0, _share_epoch),
        _Layout(RecordType.SHARE_TARGET_ASSIGNMENT_METADATA, TargetEpochWritten, _nothing, 0, _target_epoch),
        _Layout(RecordType.SHARE_TARGET_ASSIGNMENT_MEMBER, TargetWritten, _text, 0, _target),
        _Layout(RecordType.SHARE_CURRENT_MEMBER_ASSIGNMENT, MemberAssignmentWritten, _text, 0, _share_assignment),
        _Layout(RecordType.SHARE_STATE_PARTITIONS, ShareStatesWritten, _nothing, 0, _share_states),
        _Layout(RecordType.REGULAR_EXPRESSION, PatternResolved, _text, 0, _matched_topics),
        _Layout(
            RecordType.STREAMS_GROUP_METADATA, _epoch_event(RebalanceProtocol.STREAMS), _nothing, 0, _streams_epoch
        ),
        _Layout(RecordType.STREAMS_GROUP_MEMBER, MemberWritten, _text, 0, _streams_member),
        _Layout(RecordType.STREAMS_TARGET_ASSIGNMENT_METADATA, TargetEpochWritten, _nothing, 0, _target_epoch),
        _Layout(RecordType.STREAMS_TARGET_ASSIGNMENT_MEMBER, _streams_target_event, _text, 0, _streams_target),
        _Layout(RecordType.STREAMS_CURRENT_MEMBER_ASSIGNMENT, MemberAssignmentWritten, _text, 0, _streams_assignment),
        _Layout(RecordType.STREAMS_TOPOLOGY, TopologyWritten, _nothing, 0, _topology),
    )
}
