"""The types of records in ``__consumer_offsets``, and the one that ``decode`` does not make an event of."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import msgspec


class RecordType(IntEnum):
    """The int16 at the start of a key.

    Of share groups (10-15) and streams groups (17-23) only the record that shows that the group exists is listed here,
    see ``FOREIGN``. ``decode`` has no layout for it. Type 4, the subscribed topics, has values only in Kafka 4.0.
    """

    LEGACY_OFFSET_COMMIT = 0
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
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
