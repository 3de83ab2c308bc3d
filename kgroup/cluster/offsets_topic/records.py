"""The types of records in ``__consumer_offsets``, and the one that ``decode`` does not make an event of."""

from __future__ import annotations

from enum import IntEnum

import msgspec


class RecordType(IntEnum):
    """The int16 at the start of a key. Type 4, the subscribed topics, has values only in Kafka 4.0."""

    LEGACY_OFFSET_COMMIT = 0
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_MEMBER = 5
    TARGET_ASSIGNMENT_METADATA = 6
    TARGET_ASSIGNMENT_MEMBER = 7
    CURRENT_MEMBER_ASSIGNMENT = 8
    SHARE_GROUP_MEMBER = 10
    SHARE_GROUP_METADATA = 11
    SHARE_TARGET_ASSIGNMENT_METADATA = 12
    SHARE_TARGET_ASSIGNMENT_MEMBER = 13
    SHARE_CURRENT_MEMBER_ASSIGNMENT = 14
    SHARE_STATE_PARTITIONS = 15
    REGULAR_EXPRESSION = 16
    STREAMS_GROUP_METADATA = 17
    STREAMS_GROUP_MEMBER = 19
    STREAMS_TARGET_ASSIGNMENT_METADATA = 20
    STREAMS_TARGET_ASSIGNMENT_MEMBER = 21
    STREAMS_CURRENT_MEMBER_ASSIGNMENT = 22
    STREAMS_TOPOLOGY = 23


GROUP_STATES = frozenset(
    {
        RecordType.GROUP_METADATA,
        RecordType.CONSUMER_GROUP_METADATA,
        RecordType.SHARE_GROUP_METADATA,
        RecordType.STREAMS_GROUP_METADATA,
    }
)
"""The record of each type of group that exists as long as the group, or until it changes its type."""

MEMBER_RECORDS = (
    (
        RecordType.CONSUMER_GROUP_MEMBER,
        RecordType.TARGET_ASSIGNMENT_MEMBER,
        RecordType.CURRENT_MEMBER_ASSIGNMENT,
    ),
    (
        RecordType.SHARE_GROUP_MEMBER,
        RecordType.SHARE_TARGET_ASSIGNMENT_MEMBER,
        RecordType.SHARE_CURRENT_MEMBER_ASSIGNMENT,
    ),
    (
        RecordType.STREAMS_GROUP_MEMBER,
        RecordType.STREAMS_TARGET_ASSIGNMENT_MEMBER,
        RecordType.STREAMS_CURRENT_MEMBER_ASSIGNMENT,
    ),
)
"""A present member of a consumer, share or streams group has one record of each of these types."""


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


class GroupMetadata(msgspec.Struct, frozen=True):
    """A generation of a classic group, of which most readers need only a part: its members' bytes are not decoded.

    ``protocol_type`` is empty for a group that never had members. ``protocol`` (the assignor) and ``leader`` are None
    while the group is empty. ``state_timestamp_ms`` is the last change of state; None before version 2.
    """

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int | None
    members: tuple[ClassicMember, ...]
