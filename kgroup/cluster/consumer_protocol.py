"""What consumers hide in the group protocol: a member's subscription and its assignment, as bytes. Pure.

The coordinator never looks inside; the "consumer" protocol type fills them with Kafka's
``ConsumerProtocolSubscription`` and ``ConsumerProtocolAssignment`` (versions 0-3, old dialect). Later
versions keep these fields where they are, so they are read as version 3 and what follows is ignored, as Kafka
does.
"""

from __future__ import annotations

from dataclasses import dataclass

from kgroup.cluster.primitives import FAULTS, ByteReader, MalformedRecord
from kgroup.model.groups import TopicPartitions

CONSUMER_PROTOCOL_TYPE = "consumer"


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member told the leader when it joined.

    ``user_data`` belongs to the assignor, None when absent. ``owned`` is empty, ``generation`` and ``rack``
    are None before versions 1, 2 and 3, and where the member had none. ``version`` is as written.
    """

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None
    owned: tuple[TopicPartitions, ...]
    generation: int | None
    rack: str | None


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader gave to a member; ``user_data`` is None when absent. ``version`` is as written."""

    version: int
    partitions: tuple[TopicPartitions, ...]
    user_data: bytes | None


def decode_subscription(data: bytes, protocol_type: str = CONSUMER_PROTOCOL_TYPE) -> Subscription | None:
    """A member's subscription, or None where there is none to be read. Never raises.

    None: no bytes (a member of an empty or just forming group), another protocol type (Connect, schema
    registry: their bytes are their own), or bytes that a client labelled "consumer" but filled with something
    else, which the broker lets pass: one odd member must not cost the view of its group.
    """
    if not data or protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    try:
        return _subscription(ByteReader(data))
    except (MalformedRecord, *FAULTS):
        return None


def decode_assignment(data: bytes, protocol_type: str = CONSUMER_PROTOCOL_TYPE) -> Assignment | None:
    """A member's assignment; None under the same conditions as ``decode_subscription``. Never raises.

    A member that has no partitions is not None: it has an Assignment with empty ``partitions``.
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
    # Some clients write version 1 and stop before its field; Sarama's decoder and ours let them.
    if version >= 1 and not reader.exhausted:
        owned = _topic_partitions(reader)
        generation = reader.i32() if version >= 2 else -1
        rack = reader.nullable_string() if version >= 3 else None
    return Subscription(version, topics, user_data, owned, None if generation == -1 else generation, rack)


def _assignment(reader: ByteReader) -> Assignment:
    return Assignment(_version(reader), _topic_partitions(reader), reader.nullable_bytes())


def _topic_partitions(reader: ByteReader) -> tuple[TopicPartitions, ...]:
    return reader.array(lambda: TopicPartitions(reader.string(), reader.i32_array()))
