"""Raw fetches: one request a leader for any number of partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer import FetchRequest

from kgroup.cluster.topics import TopicPartition

_WAIT_MS = 100
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1


def fetch_request(
    positions: Mapping[TopicPartition, int], partition_max_bytes: int, *, read_committed: bool = False
) -> Any:
    """Fetch from these offsets on; ``read_committed`` ends at the last stable offset, and names what was aborted.

    A broker cuts each partition's answer off after ``partition_max_bytes``, and gives nothing of one whose first
    batch is longer, but for the first partition that has anything: of that it gives one batch whatever its size.
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
    # From version 13 on, topics are named by id.
    return FetchRequest(
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=partition_max_bytes * len(positions),
        isolation_level=_READ_COMMITTED if read_committed else _READ_UNCOMMITTED,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=rows) for topic, rows in topics.items()],
        max_version=12,
    )
