"""The bytes inside the group protocol: a member's subscription and its assignment. Pure.

The coordinator does not decode them. Protocol type "consumer" fills them with Kafka's ``ConsumerProtocolSubscription``
and ``ConsumerProtocolAssignment`` (versions 0-3, old dialect). Later versions keep these fields in place, so
they are read as version 3 and the rest is ignored, as Kafka does.
"""

from __future__ import annotations

import msgspec

from kgroup.cluster.byte_reader import FAULTS, ByteReader, MalformedRecord
from kgroup.model.groups import TopicPartitions

CONSUMER_PROTOCOL_TYPE = "consumer"


class Subscription(msgspec.Struct, frozen=True):
    """The subscription that a member sent when it joined.

    ``user_data`` belongs to the assignor, None when absent. ``owned`` needs version 1, ``generation`` version 2,
    ``rack`` version 3. Below that version, or if the member sent none, ``owned`` is empty and the others are None.
    ``version`` is as written.
    """

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None
    owned: tuple[TopicPartitions, ...]
    generation: int | None
    rack: str | None


class ConsumerAssignment(msgspec.Struct, frozen=True):
    """The assignment that the leader gave to a member. ``user_data`` is None when absent; ``version`` is as written."""

    version: int
    partitions: tuple[TopicPartitions, ...]
    user_data: bytes | None


def decode_subscription(data: bytes, protocol_type: str = CONSUMER_PROTOCOL_TYPE) -> Subscription | None:
    """Decode a member's subscription; None if there is none that can be read. Never raises.

    None for: no bytes (an empty group, or one that is still forming); another protocol type (Connect and schema
    registry use formats of their own); or bytes labelled "consumer" that hold something else. The broker accepts the
    last case, and one odd member must not prevent reading its group.
    """
    if not data or protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    try:
        return _subscription(ByteReader(data))
    except (MalformedRecord, *FAULTS):
        return None


def decode_assignment(data: bytes, protocol_type: str = CONSUMER_PROTOCOL_TYPE) -> ConsumerAssignment | None:
    """Decode a member's assignment; None under the same conditions as ``decode_subscription``. Never raises.

    A member without partitions has a ConsumerAssignment with empty ``partitions``, not None.
    """
    if not data or protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    try:
        return _assignment(ByteReader(data))
    except (MalformedRecord, *FAULTS):
        return None


def _version(reader: ByteReader) -> int:
    version = reader.i16()
    if version < 0:
        raise MalformedRecord(f"the consumer protocol has no version {version}")
    return version


def _subscription(reader: ByteReader) -> Subscription:
    version = _version(reader)
    topics = reader.array(reader.string)
    user_data = reader.nullable_bytes()
    owned: tuple[TopicPartitions, ...] = ()
    generation = -1
    rack = None
    # Some clients write version 1 without its field; Sarama's decoder accepts that, and so do we.
    if version >= 1 and not reader.exhausted:
        owned = _topic_partitions(reader)
        generation = reader.i32() if version >= 2 else -1
        rack = reader.nullable_string() if version >= 3 else None
    return Subscription(version, topics, user_data, owned, None if generation == -1 else generation, rack)


def _assignment(reader: ByteReader) -> ConsumerAssignment:
    return ConsumerAssignment(_version(reader), _topic_partitions(reader), reader.nullable_bytes())


def _topic_partitions(reader: ByteReader) -> tuple[TopicPartitions, ...]:
    return reader.array(lambda: TopicPartitions(reader.string(), reader.i32_array()))
