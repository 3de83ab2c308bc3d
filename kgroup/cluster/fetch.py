"""Raw Fetch requests: one request per leader for any number of partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer import FetchRequest

from kgroup.model.topic_partition import TopicPartition

_WAIT_MS = 100
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1


def fetch_request(
    positions: Mapping[TopicPartition, int], partition_max_bytes: int, *, read_committed: bool = False
) -> Any:
    """A Fetch from these offsets. ``read_committed`` ends it at the last stable offset and lists aborted transactions.

    A broker returns at most ``partition_max_bytes`` per partition. If a partition's first batch is longer, the broker
    returns nothing for that partition. The first partition that has data is the exception: it returns one whole batch.
    """
    topics: dict[str, list[Any]] = {}
    for (topic, number), offset in positions.items():
        row = FetchRequest.FetchTopic.FetchPartition(
            partition=number,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=partition_max_bytes,
        )
        topics.setdefault(topic, []).append(row)
    # From version 13 on, topics are identified by id instead of name.
    return FetchRequest(
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=partition_max_bytes * len(positions),
        isolation_level=_READ_COMMITTED if read_committed else _READ_UNCOMMITTED,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=rows) for topic, rows in topics.items()],
        max_version=12,
    )
