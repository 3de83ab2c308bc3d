"""Raw fetches: one request a leader for any number of partitions, and when their first unread records were written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka.errors import KafkaError
from kafka.protocol.consumer import FetchRequest
from kafka.record.memory_records import MemoryRecords

from kgroup.cluster.broker_errors import NONE, of_topic
from kgroup.cluster.coordinator.client import Client
from kgroup.cluster.logs import TopicLayout, TopicPartition, topic_layouts
from kgroup.errors import KgroupError, Unreachable
from kgroup.model import LogRange

_WAIT_MS = 100
_READ_UNCOMMITTED = 0
_LITTLE_BYTES = 16 * 1024
_PARTITIONS_PER_REQUEST = 500


def fetch_request(positions: Mapping[TopicPartition, int], partition_max_bytes: int) -> Any:
    """Fetch from these offsets on, read uncommitted.

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
        isolation_level=_READ_UNCOMMITTED,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=rows) for topic, rows in topics.items()],
        max_version=12,
    )


async def first_timestamps(
    client: Client, wanted: Mapping[TopicPartition, LogRange]
) -> dict[TopicPartition, int | KgroupError | None]:
    """When the first record of each range was written, in ms since 1970, by the record's own timestamp.

    None where the range holds no record: transaction markers alone, or all was compacted away. A batch in a
    codec that this client lacks tells the timestamp of its first record, which may lie a little before the
    range. A KgroupError is a partition that could not be read, or whose records carry no time.
    """
    layouts = await topic_layouts(client, {topic for topic, _ in wanted})
    results: dict[TopicPartition, int | KgroupError | None] = {}
    by_leader: dict[int, dict[TopicPartition, LogRange]] = {}
    for place, span in wanted.items():
        leader = _leader(layouts.get(place[0]), place)
        if isinstance(leader, KgroupError):
            results[place] = leader
        else:
            by_leader.setdefault(leader, {})[place] = span
    batches = [
        (leader, dict(part))
        for leader, spans in by_leader.items()
        for part in _parts(list(spans.items()), _PARTITIONS_PER_REQUEST)
    ]
    for found in await client.gather(_first_of_leader(client, leader, spans) for leader, spans in batches):
        results |= found
    return {place: results.get(place, Unreachable("was left out of the answer")) for place in wanted}


def _leader(layout: TopicLayout | KgroupError | None, place: TopicPartition) -> int | KgroupError:
    if isinstance(layout, KgroupError):
        return layout
    leader = layout.leaders.get(place[1]) if layout else None
    return Unreachable("has no leader that answers", code="no-leader") if leader is None else leader


async def _first_of_leader(
    client: Client, leader: int, spans: Mapping[TopicPartition, LogRange]
) -> dict[TopicPartition, int | KgroupError | None]:
    """All partitions in one small fetch; those of which it brought nothing one by one, until they have told."""
    results: dict[TopicPartition, int | KgroupError | None] = {}
    left = dict(spans)
    alone = len(spans) == 1
    while left:
        groups = [{place: span} for place, span in left.items()] if alone else [left]
        requests = [
            (leader, fetch_request({place: span.start for place, span in group.items()}, _LITTLE_BYTES))
            for group in groups
        ]
        answers = await client.send_all(requests, client.deadline.left_ms)
        rest: dict[TopicPartition, LogRange] = {}
        for group, answer in zip(groups, answers, strict=True):
            if isinstance(answer, BaseException):
                results |= dict.fromkeys(group, client.failure(answer, leader))
                continue
            for topic in answer.responses:
                for row in topic.partitions:
                    place = (topic.topic, row.partition_index)
                    told = _told(row, topic.topic, group[place])
                    if not isinstance(told, LogRange):
                        results[place] = told
                    elif alone and (told == group[place] or client.deadline.passed):
                        results[place] = Unreachable("gave no record in time", code="timed-out")
                    else:
                        rest[place] = told
        left, alone = rest, True
    return results


def _told(row: Any, topic: str, span: LogRange) -> int | KgroupError | LogRange | None:
    """What one partition's answer tells; a LogRange is what remains to be read before it tells anything."""
    if row.error_code != NONE:
        return of_topic(row.error_code, topic, operation="Read")
    position = span.start
    try:
        for batch in MemoryRecords(row.records or b""):
            if getattr(batch, "is_control_batch", False):
                position = max(position, batch.next_offset)
                continue
            for offset, timestamp_ms in _times(batch, span):
                if offset >= span.end:
                    return None
                if offset >= span.start:
                    return timestamp_ms if timestamp_ms >= 0 else KgroupError("its records carry no time")
                position = max(position, offset + 1)
            position = max(position, getattr(batch, "next_offset", position))
    except KafkaError as error:
        return KgroupError(f"could not be decoded: {error}")
    return LogRange(position, span.end) if position < span.end else None


def _times(batch: Any, span: LogRange) -> Iterable[tuple[int, int]]:
    """(offset, timestamp) of the batch's records; where they can't be unpacked, one for all that lie in the range."""
    try:
        records = iter(batch)
    except KafkaError:  # a codec that is not installed
        if getattr(batch, "first_timestamp", None) is None:  # a format older than Kafka 0.11
            raise
        last = max(batch.base_offset, min(batch.next_offset, span.end) - 1)
        return [(last, batch.max_timestamp if batch.timestamp_type else batch.first_timestamp)]
    return ((record.offset, -1 if record.timestamp is None else record.timestamp) for record in records)


def _parts(items: list[tuple[TopicPartition, LogRange]], size: int) -> Iterable[list[tuple[TopicPartition, LogRange]]]:
    return (items[at : at + size] for at in range(0, len(items), size))
