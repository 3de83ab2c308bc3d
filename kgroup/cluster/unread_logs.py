"""The logs of partitions that a group has not read, through confluent-kafka alone: bounds, topics, the first record.

For applications, which do not have kafka-python's connection.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from confluent_kafka import Consumer, IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import OffsetSpec

from kgroup.cluster.group_partition import OFFSETS_TOPIC, partition_of
from kgroup.cluster.librdkafka import ClientWatch, client, topic_client_error
from kgroup.cluster.reader.batches import REQUIRED
from kgroup.cluster.topic_admin import TopicAdmin
from kgroup.model.kafka_tools import acl_hint
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotAuthorized

_POLL_S = 0.02
_TUNING = {
    "fetch.wait.max.ms": 3,
    # A leader to which no connection is up yet, and its first answer, else cost up to a second.
    "fetch.error.backoff.ms": 10,
    "fetch.queue.backoff.ms": 1,
    "topic.metadata.refresh.fast.interval.ms": 10,
    # One batch of each partition is enough.
    "fetch.message.max.bytes": 4096,
    "queued.min.messages": 1,
    "reconnect.backoff.ms": 10,
}


class UnreadBounds(msgspec.Struct, frozen=True):
    """``last_stable`` is the last stable offset with its leader epoch (None: unknown)."""

    start: int
    last_stable: int
    last_stable_epoch: int | None
    high_watermark: int


def log_bounds(admin: TopicAdmin, partitions: Collection[TopicPartition]) -> dict[TopicPartition, UnreadBounds]:
    """The bounds of these logs; those that cannot be read are left out. Raises as ``TopicAdmin.offsets``."""
    for topic in {tp.topic for tp in partitions}:
        # Without its metadata, a new client's first ListOffsets may wait for 3 s (one in 60, librdkafka 2.16).
        admin.cluster_and_partitions(topic)
    starts = admin.offsets(partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)
    stable = admin.offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
    ends = admin.offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
    return {
        tp: UnreadBounds(starts[tp][0], *stable[tp], ends[tp][0])
        for tp in partitions
        if tp in starts and tp in stable and tp in ends
    }


def end_of_commits(admin: TopicAdmin, group: str) -> tuple[str | None, int]:
    """The cluster's id, and an offset at or before the group's next record in ``__consumer_offsets``.

    Raises NotAuthorized without DESCRIBE on that topic; as ``TopicAdmin.offsets``, and KgroupError.
    """
    cluster_id, count = admin.cluster_and_partitions(OFFSETS_TOPIC)
    if not count:
        raise NotAuthorized(f"no DESCRIBE on Topic {OFFSETS_TOPIC}", hint=acl_hint("Describe", "topic", OFFSETS_TOPIC))
    tp = TopicPartition(OFFSETS_TOPIC, partition_of(group, count))
    ends = admin.offsets([tp], OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
    if tp not in ends:
        raise KgroupError(f"the end of {tp} could not be read", code="broker-error")
    return cluster_id, ends[tp][0]


def first_record_times(
    config: Mapping[str, Any], starts: Mapping[TopicPartition, int], *, within_s: float
) -> dict[TopicPartition, int | None]:
    """When the first visible record from each offset on was written, in ms since 1970; None: none can be read.

    A partition that gives no answer in time is left out. Raises KgroupError.
    """
    watch = ClientWatch(within_s)
    consumer = client(Consumer, {**_TUNING, **config, **REQUIRED, "isolation.level": "read_committed"}, watch)
    times: dict[TopicPartition, int | None] = {}
    try:
        consumer.assign([ClientPartition(*tp, offset) for tp, offset in starts.items()])
        until = time.monotonic() + within_s
        while len(times) < len(starts) and time.monotonic() < until:
            message = consumer.poll(_POLL_S)
            if message is None or message.topic() is None:
                continue
            tp = TopicPartition(message.topic(), message.partition())
            if tp not in times:
                consumer.pause([ClientPartition(*tp)])
                times[tp] = None if message.error() is not None else message.timestamp()[1]
    except KafkaException as raised:
        raise topic_client_error(raised.args[0], "", "the unread records", "Read") from raised
    finally:
        consumer.close()
    return times
