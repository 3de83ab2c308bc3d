"""The records of ``__consumer_offsets``: commits, classic groups, consumer groups. ``decode`` makes them of bytes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TypeAlias

import msgspec


class RecordType(IntEnum):
    """The int16 at the start of a key.

    Of share groups (10-15) and streams groups (17-23) only the record that shows that the group exists is listed here,
    see ``FOREIGN``. ``decode`` has no layout for it.
    """

    LEGACY_OFFSET_COMMIT = 0
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    CONSUMER_GROUP_MEMBER = 5
    TARGET_ASSIGNMENT_METADATA = 6
    TARGET_ASSIGNMENT_MEMBER = 7
    CURRENT_MEMBER_ASSIGNMENT = 8
    SHARE_GROUP_METADATA = 11
    REGULAR_EXPRESSION = 16
    STREAMS_GROUP_METADATA = 17


FOREIGN: Mapping[RecordType, str] = {
    RecordType.SHARE_GROUP_METADATA: "share",
    RecordType.STREAMS_GROUP_METADATA: "streams",
}
"""The group type of these record types. A record without a value: the group was deleted or changed its type."""


class MemberState(IntEnum):
    """A consumer group member's progress in its reconciliation; an unknown number is UNKNOWN."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class OffsetCommitValue(msgspec.Struct, frozen=True):
    """A committed offset.

    ``leader_epoch`` is None if the client gave none, and before value version 3. ``expire_timestamp_ms`` is None if the
    broker's retention applies (always, except in version 1). ``topic_id`` is None before version 4 (Kafka 4.1), and if
    the coordinator did not know it. ``commit_timestamp_ms`` is by the broker's clock.
    """

    offset: int
    leader_epoch: int | None
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None
    topic_id: str | None


class OffsetCommit(msgspec.Struct, frozen=True):
    """Types 0 and 1: a group's commit for a partition; ``value`` is None if it was deleted or expired."""

    group: str
    topic: str
    partition: int
    value: OffsetCommitValue | None


class ClassicMember(msgspec.Struct, frozen=True):
    """A member of a classic group. ``subscription`` and ``assignment`` can only be decoded for consumers.

    ``instance_id`` is None for a dynamic member, ``rebalance_timeout_ms`` in version 0, which did not store it.
    ``client_host`` is as Kafka writes it, with a slash (``/10.0.0.1``). Both byte fields may be empty; decode them with
    ``kgroup.cluster.consumer_protocol``.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int | None
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupMetadataValue(msgspec.Struct, frozen=True):
    """A generation of a classic group.

    ``protocol_type`` is empty for a group that never had members. ``protocol`` (the assignor) and ``leader`` are None
    while the group is empty. ``state_timestamp_ms`` is the last change of state; None before version 2.
    """

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int | None
    members: tuple[ClassicMember, ...]


class GroupMetadata(msgspec.Struct, frozen=True):
    """Type 2: a classic group; ``value`` is None if it was deleted or became a consumer group."""

    group: str
    value: GroupMetadataValue | None


class ConsumerGroupMetadataValue(msgspec.Struct, frozen=True):
    """The group epoch. ``metadata_hash``, of the subscribed topics, is None if unset or before Kafka 4.1."""

    epoch: int
    metadata_hash: int | None


class ConsumerGroupMetadata(msgspec.Struct, frozen=True):
    """Type 3: a consumer group and its epoch; ``value`` is None if it was deleted or became a classic group."""

    group: str
    value: ConsumerGroupMetadataValue | None


class PartitionRacks(msgspec.Struct, frozen=True):
    partition: int
    racks: tuple[str, ...]


class TopicMetadata(msgspec.Struct, frozen=True):
    """A consumer group's metadata of a subscribed topic; ``racks`` may be empty."""

    topic_id: str | None
    topic: str
    partitions: int
    racks: tuple[PartitionRacks, ...]


class ConsumerGroupPartitionMetadataValue(msgspec.Struct, frozen=True):
    topics: tuple[TopicMetadata, ...]


class ConsumerGroupPartitionMetadata(msgspec.Struct, frozen=True):
    """Type 4: the subscribed topics. Only Kafka 4.0 writes values; later versions write None."""

    group: str
    value: ConsumerGroupPartitionMetadataValue | None


class ClassicProtocol(msgspec.Struct, frozen=True):
    """An assignor that a classic member offers, with its embedded subscription."""

    name: str
    metadata: bytes


class ClassicMemberMetadata(msgspec.Struct, frozen=True):
    """The metadata of a member that uses the classic protocol in a consumer group (online upgrade)."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]


class ConsumerGroupMemberValue(msgspec.Struct, frozen=True):
    """A consumer group member's description of itself.

    None: ``instance_id`` of a dynamic member, ``rack`` and ``server_assignor`` if not given, ``topic_regex`` without a
    pattern, ``rebalance_timeout_ms`` if unset, ``classic`` of a member that uses the consumer protocol.
    """

    instance_id: str | None
    rack: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    topic_regex: str | None
    rebalance_timeout_ms: int | None
    server_assignor: str | None
    classic: ClassicMemberMetadata | None


class ConsumerGroupMember(msgspec.Struct, frozen=True):
    """Type 5: a member of a consumer group; ``value`` is None if it left or was fenced."""

    group: str
    member_id: str
    value: ConsumerGroupMemberValue | None


class TargetAssignmentMetadataValue(msgspec.Struct, frozen=True):
    """The epoch of the target assignment. ``timestamp_ms``, when it was computed, is None before Kafka 4.3."""

    epoch: int
    timestamp_ms: int | None


class TargetAssignmentMetadata(msgspec.Struct, frozen=True):
    """Type 6: a consumer group's assignment epoch; ``value`` is None if the group was deleted."""

    group: str
    value: TargetAssignmentMetadataValue | None


class AssignedPartitions(msgspec.Struct, frozen=True):
    """Partitions of one topic. ``epochs`` has the epoch of each partition's assignment; None if not stored."""

    topic_id: str | None
    partitions: tuple[int, ...]
    epochs: tuple[int, ...] | None = None


class TargetAssignmentMemberValue(msgspec.Struct, frozen=True):
    partitions: tuple[AssignedPartitions, ...]


class TargetAssignmentMember(msgspec.Struct, frozen=True):
    """Type 7: a member's target assignment; ``value`` is None if it left."""

    group: str
    member_id: str
    value: TargetAssignmentMemberValue | None


class CurrentMemberAssignmentValue(msgspec.Struct, frozen=True):
    """The partitions that a member owns, and those that it still must release.

    ``member_epoch`` -2: a static member that left and may return. ``previous_member_epoch`` is None if there was none.
    """

    member_epoch: int
    previous_member_epoch: int | None
    state: MemberState
    assigned: tuple[AssignedPartitions, ...]
    pending_revocation: tuple[AssignedPartitions, ...]


class CurrentMemberAssignment(msgspec.Struct, frozen=True):
    """Type 8: a member's current assignment; ``value`` is None if it left or was fenced."""

    group: str
    member_id: str
    value: CurrentMemberAssignmentValue | None


class RegularExpressionValue(msgspec.Struct, frozen=True):
    """The topics that a pattern matched, at ``version`` of the cluster's metadata."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


class RegularExpression(msgspec.Struct, frozen=True):
    """Type 16: a subscribed pattern as the broker resolved it; ``value`` is None if no member uses it any more."""

    group: str
    pattern: str
    value: RegularExpressionValue | None


class UnknownVersion(msgspec.Struct, frozen=True):
    """A record of a known type whose value has a version that is unknown here."""

    record_type: RecordType
    group: str
    version: int


Record: TypeAlias = (
    OffsetCommit
    | GroupMetadata
    | ConsumerGroupMetadata
    | ConsumerGroupPartitionMetadata
    | ConsumerGroupMember
    | TargetAssignmentMetadata
    | TargetAssignmentMember
    | CurrentMemberAssignment
    | RegularExpression
    | UnknownVersion
)
"""A decoded record: the fields of its key, and ``value``, None for a tombstone."""
