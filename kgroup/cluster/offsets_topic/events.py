"""The events of a group's raw records, for its history. Pure; undecodable records become Unreadable.

Transactional commits get their transaction's outcome from the markers among the entries. The topic is read
uncommitted, so a hanging transaction hides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from kgroup.cluster.byte_reader import MalformedRecord
from kgroup.cluster.consumer_protocol import decode_assignment, decode_subscription
from kgroup.cluster.offsets_topic import records
from kgroup.cluster.offsets_topic.decode import decode, usual_commit
from kgroup.cluster.offsets_topic.record_batches import Marker, RawRecord
from kgroup.model.group_log import (
    CommitWritten,
    Event,
    GenerationMember,
    GenerationWritten,
    MemberAssignment,
    MemberAssignmentWritten,
    Partitions,
    TargetWritten,
    TransactionEnd,
    Unreadable,
)
from kgroup.model.topic_partition import TopicPartition

TYPES = tuple(records.RecordType)
"""The record types that a reader must select with ``key_prefix``."""

WITH_TOPIC_IDS = frozenset(
    {
        records.RecordType.TARGET_ASSIGNMENT_MEMBER,
        records.RecordType.CURRENT_MEMBER_ASSIGNMENT,
        records.RecordType.SHARE_TARGET_ASSIGNMENT_MEMBER,
        records.RecordType.SHARE_CURRENT_MEMBER_ASSIGNMENT,
    }
)
"""Record types that identify topics by id."""


def ending_of(raw: RawRecord, end: Marker | None) -> TransactionEnd:
    """How a record's transaction ended. ``end`` is its producer's first marker after it; None: none so far."""
    if raw.producer_id is None:
        return TransactionEnd.PLAIN
    if end is None:
        return TransactionEnd.OPEN
    return TransactionEnd.ABORTED if end.aborted else TransactionEnd.COMMITTED


def topic_ids(raws: Iterable[RawRecord]) -> set[str]:
    """The topic ids in the assignments among these records. Never raises."""
    ids: set[str] = set()
    for raw in raws:
        if _type_of(raw.key) not in WITH_TOPIC_IDS:
            continue
        match event_of(raw, TransactionEnd.PLAIN, {}):
            case TargetWritten(partitions=frozenset() as partitions):
                ids |= {topic for topic, _ in partitions}
            case MemberAssignmentWritten(holding=MemberAssignment(partitions=partitions, pending=pending)):
                ids |= {topic for topic, _ in partitions | pending}
    return ids - {""}


def event_of(
    raw: RawRecord, ending: TransactionEnd, topics: Mapping[str, str], ended_ms: int | None = None
) -> Event | None:
    """The event of one record; None for a type without one. ``ended_ms`` is when its transaction ended."""
    at, time = raw.offset, raw.timestamp_ms
    if raw.value is not None and (usual := usual_commit(raw.key, raw.value)) is not None:
        topic, partition, offset, epoch, metadata, topic_id = usual
        return CommitWritten(
            at, time, topic, partition, offset, metadata, topic_id, raw.producer_id, ending, epoch, ended_ms
        )
    try:
        event = decode(raw.key, raw.value, at, time)
    except MalformedRecord as error:
        return Unreadable(at, time, error.message, _type_of(raw.key))
    match event:
        case CommitWritten():
            return replace(event, producer_id=raw.producer_id, ending=ending, ended_ms=ended_ms)
        case records.GroupMetadata():
            return _generation(at, time, event)
        case TargetWritten(partitions=frozenset() as partitions):
            return replace(event, partitions=_with_topic_names(partitions, topics))
        case MemberAssignmentWritten(holding=MemberAssignment(partitions=partitions, pending=pending) as holding):
            names = _with_topic_names(partitions, topics), _with_topic_names(pending, topics)
            return replace(event, holding=replace(holding, partitions=names[0], pending=names[1]))
    return event


def _type_of(key: bytes) -> int | None:
    return int.from_bytes(key[:2], signed=True) if len(key) >= 2 else None


def _generation(log_offset: int, at_ms: int, group: records.GroupMetadata) -> GenerationWritten:
    return GenerationWritten(
        log_offset,
        at_ms,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader,
        group.state_timestamp_ms,
        tuple(_member(member, group.protocol_type) for member in group.members),
    )


def _member(member: records.ClassicMember, protocol_type: str) -> GenerationMember:
    subscription = decode_subscription(member.subscription, protocol_type)
    assignment = decode_assignment(member.assignment, protocol_type)
    return GenerationMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host.removeprefix("/"),
        member.session_timeout_ms,
        member.rebalance_timeout_ms,
        None if subscription is None else frozenset(subscription.topics),
        None
        if assignment is None
        else frozenset(TopicPartition(t.topic, p) for t in assignment.partitions for p in t.partitions),
    )


def _with_topic_names(partitions: Partitions, topics: Mapping[str, str]) -> Partitions:
    """Partitions by topic name; by topic id if the cluster does not know the topic (any more)."""
    return frozenset(TopicPartition(topics.get(topic, topic), partition) for topic, partition in partitions)
