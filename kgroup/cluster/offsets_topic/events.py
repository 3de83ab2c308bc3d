"""Convert raw records of a group's log to the events of a history. Pure; undecodable records become Unreadable.

Transactional commits get their transaction's outcome from the markers among the entries. The topic is read
uncommitted, so a hanging transaction hides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kgroup.cluster.byte_reader import MalformedRecord
from kgroup.cluster.consumer_protocol import decode_assignment, decode_subscription
from kgroup.cluster.offsets_topic import records
from kgroup.cluster.offsets_topic.decode import decode, usual_commit
from kgroup.cluster.offsets_topic.record_batches import Marker, RawRecord
from kgroup.model.group_log import (
    CommitWritten,
    EpochWritten,
    Event,
    ForeignGroupWritten,
    GenerationMember,
    GenerationWritten,
    GroupDeleted,
    MemberAssignment,
    MemberAssignmentWritten,
    MemberDetails,
    MemberWritten,
    Partitions,
    PatternResolved,
    RebalanceProtocol,
    TargetEpochWritten,
    TargetWritten,
    TransactionEnd,
    Unreadable,
)
from kgroup.model.topic_partition import TopicPartition

TYPES = (
    records.RecordType.LEGACY_OFFSET_COMMIT,
    records.RecordType.OFFSET_COMMIT,
    records.RecordType.GROUP_METADATA,
    records.RecordType.CONSUMER_GROUP_METADATA,
    records.RecordType.CONSUMER_GROUP_MEMBER,
    records.RecordType.TARGET_ASSIGNMENT_METADATA,
    records.RecordType.TARGET_ASSIGNMENT_MEMBER,
    records.RecordType.CURRENT_MEMBER_ASSIGNMENT,
    records.RecordType.REGULAR_EXPRESSION,
    *records.FOREIGN,
)
"""The record types that a reader must select with ``key_prefix``."""

WITH_TOPIC_IDS = frozenset({records.RecordType.TARGET_ASSIGNMENT_MEMBER, records.RecordType.CURRENT_MEMBER_ASSIGNMENT})
"""Record types that identify topics by id."""

_FOREIGN: Mapping[int | None, str] = {kind.value: of for kind, of in records.FOREIGN.items()}


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
    """The event of one record; None for types that do not matter here (partition metadata, members of share groups).

    ``ended_ms`` is when its transaction ended.
    """
    at, time = raw.offset, raw.timestamp_ms
    if raw.value is not None and (usual := usual_commit(raw.key, raw.value)) is not None:
        topic, partition, offset, epoch, metadata, topic_id = usual
        return CommitWritten(
            at, time, topic, partition, offset, metadata, topic_id, raw.producer_id, ending, epoch, ended_ms
        )
    if (foreign := _FOREIGN.get(_type_of(raw.key))) is not None:
        return ForeignGroupWritten(at, time, foreign, raw.value is not None)
    try:
        record = decode(raw.key, raw.value)
    except MalformedRecord as error:
        return Unreadable(at, time, error.message, _type_of(raw.key))
    match record:
        case None:
            return None
        case records.OffsetCommit(topic=topic, partition=partition, value=commit):
            if commit is None:
                return CommitWritten(
                    at, time, topic, partition, None, "", None, raw.producer_id, ending, ended_ms=ended_ms
                )
            return CommitWritten(
                at,
                time,
                topic,
                partition,
                commit.offset,
                commit.metadata,
                commit.topic_id,
                raw.producer_id,
                ending,
                commit.leader_epoch,
                ended_ms,
            )
        case records.GroupMetadata(value=None):
            return GroupDeleted(at, time, RebalanceProtocol.CLASSIC)
        case records.GroupMetadata(value=records.GroupMetadataValue() as group):
            return _generation(at, time, group)
        case records.UnknownVersion(record_type=kind, version=version):
            why = f"a record of type {kind.value} has version {version}, newer than this program"
            return Unreadable(at, time, why, kind.value)
    return _of_consumers(at, time, record, topics)


def _type_of(key: bytes) -> int | None:
    return int.from_bytes(key[:2], signed=True) if len(key) >= 2 else None


def _of_consumers(at: int, time: int, record: records.Record, topics: Mapping[str, str]) -> Event | None:
    match record:
        case records.ConsumerGroupMetadata(value=None):
            return GroupDeleted(at, time, RebalanceProtocol.CONSUMER)
        case records.ConsumerGroupMetadata(value=records.ConsumerGroupMetadataValue() as epoch):
            return EpochWritten(at, time, epoch.epoch, epoch.metadata_hash)
        case records.ConsumerGroupMember(member_id=member, value=description):
            return MemberWritten(at, time, member, None if description is None else _details(description))
        case records.TargetAssignmentMetadata(value=target):
            return TargetEpochWritten(at, time, None if target is None else target.epoch)
        case records.TargetAssignmentMember(member_id=member, value=assignment):
            partitions = None if assignment is None else _with_topic_names(assignment.partitions, topics)
            return TargetWritten(at, time, member, partitions)
        case records.CurrentMemberAssignment(member_id=member, value=current):
            return MemberAssignmentWritten(at, time, member, None if current is None else _assignment(current, topics))
        case records.RegularExpression(pattern=pattern, value=resolved):
            return PatternResolved(at, time, pattern, None if resolved is None else frozenset(resolved.topics))
    return None


def _generation(log_offset: int, at_ms: int, group: records.GroupMetadataValue) -> GenerationWritten:
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


def _details(description: records.ConsumerGroupMemberValue) -> MemberDetails:
    return MemberDetails(
        description.instance_id,
        description.client_id,
        description.client_host.removeprefix("/"),
        frozenset(description.topics),
        description.topic_regex or None,
        description.rebalance_timeout_ms,
        None if description.classic is None else description.classic.session_timeout_ms,
    )


def _assignment(current: records.CurrentMemberAssignmentValue, topics: Mapping[str, str]) -> MemberAssignment:
    return MemberAssignment(
        current.member_epoch,
        current.state is records.MemberState.STABLE,
        _with_topic_names(current.assigned, topics),
        _with_topic_names(current.pending_revocation, topics),
    )


def _with_topic_names(assigned: Sequence[records.AssignedPartitions], topics: Mapping[str, str]) -> Partitions:
    """Partitions by topic name; by topic id if the cluster does not know the topic (any more)."""
    return frozenset(
        TopicPartition(topics.get(topic.topic_id, topic.topic_id) if topic.topic_id is not None else "", partition)
        for topic in assigned
        for partition in topic.partitions
    )
