"""Topics and logs: which partitions there are, who leads them, where they begin and end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from kgroup.cluster.broker_errors import NO_LEADER, NONE, UNKNOWN_TOPIC_OR_PARTITION, of_topic
from kgroup.cluster.coordinator.client import RETRY_PAUSE_S, Client
from kgroup.cluster.deadline import Deadline
from kgroup.errors import KgroupError, Unreachable
from kgroup.model import LogRange

TopicPartition = tuple[str, int]
Cause = Callable[[], KgroupError]
"""Says why a partition failed; asked only when it is reported, since finding out may open a connection."""

_EARLIEST, _LATEST = -2, -1
_CONSUMER_REPLICA = -1
_READ_UNCOMMITTED = 0
_LEADER_NOT_AVAILABLE = 5


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """The leaders of a topic's partitions, by partition; None where a partition has no leader now."""

    leaders: Mapping[int, int | None]


async def topic_layouts(client: Client, topics: Iterable[str]) -> dict[str, TopicLayout | KgroupError]:
    """The layouts of the named topics in one request; nothing is created. Raises where no broker answers."""
    names = sorted(set(topics))
    if not names:
        return {}
    answer = await client.send_any(
        MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
            max_version=12,
        )
    )
    return {topic.name: _layout(topic) for topic in answer.topics}


def _layout(topic: Any) -> TopicLayout | KgroupError:
    if topic.error_code != NONE:
        return of_topic(topic.error_code, topic.name)
    return TopicLayout(
        {item.partition_index: item.leader_id if item.leader_id >= 0 else None for item in topic.partitions}
    )


async def log_ranges(
    client: Client,
    layouts: Mapping[str, TopicLayout | KgroupError],
    wanted: Iterable[TopicPartition],
    deadline: Deadline | None = None,
) -> dict[TopicPartition, LogRange | KgroupError]:
    """[log start, high watermark) of every wanted partition: two requests a leader (ListOffsets).

    Leaders that move are looked up again until ``deadline``, by default the connection's.
    """
    deadline = deadline or client.deadline
    results: dict[TopicPartition, LogRange | KgroupError] = {}
    pending = sorted(set(wanted))
    while pending:
        by_leader: dict[int, list[TopicPartition]] = {}
        failed: dict[TopicPartition, Cause] = {}
        for partition in pending:
            leader = _leader(layouts, partition)
            if isinstance(leader, KgroupError):
                results[partition] = leader
            elif leader is None:
                failed[partition] = partial(of_topic, _LEADER_NOT_AVAILABLE, partition[0])
            else:
                by_leader.setdefault(leader, []).append(partition)
        found, lost = await _ask_leaders(client, by_leader, deadline.left_ms)
        results |= found
        failed |= lost
        pending = list(failed)
        if not pending:
            break
        await client.sleep(RETRY_PAUSE_S)
        if deadline.passed:
            return results | {partition: cause() for partition, cause in failed.items()}
        with suppress(Unreachable):
            layouts = await topic_layouts(client, {topic for topic, _ in pending})
    return results


def _leader(layouts: Mapping[str, TopicLayout | KgroupError], partition: TopicPartition) -> int | KgroupError | None:
    topic, number = partition
    layout = layouts.get(topic)
    if isinstance(layout, KgroupError):
        return layout
    if layout is None or number not in layout.leaders:
        return of_topic(UNKNOWN_TOPIC_OR_PARTITION, topic)
    return layout.leaders[number]


async def _ask_leaders(
    client: Client, by_leader: Mapping[int, list[TopicPartition]], patience_ms: int
) -> tuple[dict[TopicPartition, LogRange | KgroupError], dict[TopicPartition, Cause]]:
    """(what is known now, what may be known when asked again) of the partitions of each leader."""
    requests = [
        (leader, _list_offsets(partitions, timestamp))
        for leader, partitions in by_leader.items()
        for timestamp in (_EARLIEST, _LATEST)
    ]
    answers = await client.send_all(requests, patience_ms)
    found: dict[TopicPartition, LogRange | KgroupError] = {}
    failed: dict[TopicPartition, Cause] = {}
    offsets: dict[TopicPartition, list[int]] = {}
    for (leader, _), answer in zip(requests, answers, strict=True):
        if isinstance(answer, BaseException):
            cause = cache(partial(client.failure, answer, leader))
            failed |= dict.fromkeys(by_leader[leader], cause)
            continue
        for topic in answer.topics:
            for row in topic.partitions:
                partition = (topic.name, row.partition_index)
                if row.error_code in NO_LEADER:
                    failed[partition] = partial(of_topic, row.error_code, topic.name)
                elif row.error_code != NONE:
                    found[partition] = of_topic(row.error_code, topic.name)
                else:
                    offsets.setdefault(partition, []).append(row.offset)
    found |= {partition: LogRange(*pair) for partition, pair in offsets.items() if len(pair) == 2}
    return found, failed


def _list_offsets(partitions: Iterable[TopicPartition], timestamp: int) -> Any:
    topics: dict[str, list[Any]] = {}
    for topic, number in partitions:
        row = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=number, current_leader_epoch=-1, timestamp=timestamp
        )
        topics.setdefault(topic, []).append(row)
    return ListOffsetsRequest(
        replica_id=_CONSUMER_REPLICA,
        isolation_level=_READ_UNCOMMITTED,
        topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=rows) for topic, rows in topics.items()],
    )
