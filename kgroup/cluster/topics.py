"""Topics and their logs: partitions, leaders, racks, log start and end offsets, and the offset of a timestamp."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any
from uuid import UUID

import msgspec
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from kgroup.cluster.broker_errors import NO_LEADER, NONE, UNKNOWN_TOPIC_OR_PARTITION, topic_error
from kgroup.cluster.byte_reader import raw_topic_id, topic_id
from kgroup.cluster.coordinator.client import RETRY_PAUSE_S, CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.model.groups import LogRange, Position, Positions
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, Unreachable

_Cause = Callable[[], KgroupError]
"""Returns why a partition failed. Called only when the error is reported, because it may open a connection."""

_Listed = tuple[int, int, int]
"""Offset, leader epoch and timestamp as in the protocol: -1 is none."""

_Query = tuple[int, int]
"""A ListOffsets timestamp and the isolation level."""

_CONSUMER_REPLICA = -1
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_EARLIEST, _LATEST = (-2, _READ_UNCOMMITTED), (-1, _READ_UNCOMMITTED)
_LAST_STABLE = (-1, _READ_COMMITTED)
_MAX_TIMESTAMP = -3
_LEADER_NOT_AVAILABLE = 5


class TopicLayout(msgspec.Struct, frozen=True):
    """The leaders of a topic's partitions, by partition; None for a partition that has no leader now.

    ``id`` is the topic's id as Kafka prints it, None if the broker returns none. A recreated topic has another id.
    """

    leaders: Mapping[int, int | None]
    id: str | None = None


Layouts = Mapping[str, TopicLayout | KgroupError]
"""By topic; the error of a topic that cannot be read."""


class TopicShape(msgspec.Struct, frozen=True):
    """A topic as an assignor needs it.

    ``id`` is the topic's Uuid as a 128-bit number, None if the broker returns none. ``replica_racks`` holds the racks
    of each partition's replicas; None if no broker has a rack.
    """

    name: str
    partitions: int
    id: int | None
    replica_racks: tuple[frozenset[str], ...] | None


class ListedTopic(msgspec.Struct, frozen=True):
    """A topic's name; ``internal`` for Kafka's own topics (``__consumer_offsets``)."""

    name: str
    internal: bool


async def list_topics(client: CoordinatorClient) -> tuple[ListedTopic, ...]:
    """All topics that this user may see, sorted by name. Raises KgroupError if no broker answers."""
    answer = await client.send_any(metadata_request(None))
    topics = (ListedTopic(topic.name, bool(topic.is_internal)) for topic in answer.topics if topic.error_code == NONE)
    return tuple(sorted(topics, key=lambda topic: topic.name))


async def topic_layouts(client: CoordinatorClient, topics: Iterable[str]) -> dict[str, TopicLayout | KgroupError]:
    """Read the named topics in one Metadata request; it creates none. Raises KgroupError if no broker answers."""
    names = sorted(set(topics))
    if not names:
        return {}
    answer = await client.send_any(metadata_request(names))
    return {topic.name: _layout(topic) for topic in answer.topics}


async def offsets_topic_layout(client: CoordinatorClient) -> TopicLayout | KgroupError:
    """The layout of ``__consumer_offsets``, or its error. Raises KgroupError if no broker answers."""
    return (await topic_layouts(client, {OFFSETS_TOPIC}))[OFFSETS_TOPIC]


async def topic_shapes(client: CoordinatorClient, topics: Iterable[str]) -> dict[str, TopicShape | KgroupError]:
    """Read the named topics in one Metadata request; it creates none. Raises KgroupError if no broker answers."""
    names = sorted(set(topics))
    if not names:
        return {}
    answer = await client.send_any(metadata_request(names))
    racks = {broker.node_id: broker.rack or None for broker in answer.brokers}
    shapes: dict[str, TopicShape | KgroupError] = {}
    for topic in answer.topics:
        if topic.error_code != NONE:
            shapes[topic.name] = topic_error(topic.error_code, topic.name)
            continue
        replicas = [item.replica_nodes for item in sorted(topic.partitions, key=lambda item: item.partition_index)]
        raw = getattr(topic, "topic_id", None)
        shapes[topic.name] = TopicShape(
            topic.name,
            len(replicas),
            raw.int or None if raw else None,
            tuple(frozenset(rack for node in nodes if (rack := racks.get(node))) for nodes in replicas)
            if any(racks.values())
            else None,
        )
    return shapes


async def names_of_topics(client: CoordinatorClient, ids: Collection[str]) -> dict[str, str]:
    """Topic id -> name, for topics that exist and that this user may see. Raises KgroupError if no broker answers."""
    if not ids:
        return {}
    row = MetadataRequest.MetadataRequestTopic
    topics = [row(topic_id=UUID(bytes=raw_topic_id(each)), name=None) for each in sorted(ids)]
    answer = await client.send_any(MetadataRequest(topics=topics, allow_auto_topic_creation=False, max_version=12))
    return {
        name: topic.name
        for topic in answer.topics
        if topic.error_code == NONE and (name := topic_id(topic.topic_id.bytes)) is not None
    }


def metadata_request(topics: Iterable[str] | None, *, operations: bool = False) -> Any:
    """A Metadata request for these topics, or for all (None). It creates no topic.

    ``operations`` also requests what this user may do to each topic.
    """
    row = MetadataRequest.MetadataRequestTopic
    rows = None if topics is None else [row(name=name) for name in topics]
    return MetadataRequest(
        topics=rows,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=operations,
        max_version=12,
    )


def _layout(topic: Any) -> TopicLayout | KgroupError:
    if topic.error_code != NONE:
        # Metadata needs only DESCRIBE, but the records of this topic are needed too, so report the right READ.
        return topic_error(topic.error_code, topic.name, "Read" if topic.name == OFFSETS_TOPIC else "Describe")
    leaders = {item.partition_index: item.leader_id if item.leader_id >= 0 else None for item in topic.partitions}
    raw = getattr(topic, "topic_id", None)
    return TopicLayout(leaders, topic_id(raw.bytes) if raw else None)


async def log_ranges(
    client: CoordinatorClient, layouts: Layouts, partitions: Iterable[TopicPartition], deadline: Deadline | None = None
) -> dict[TopicPartition, LogRange | KgroupError]:
    """[log start, high watermark) of each wanted partition: two ListOffsets requests per leader.

    If a leader moved, Metadata is read again until ``deadline``, by default the connection's.
    """
    answers = await _listed_offsets(client, layouts, partitions, (_EARLIEST, _LATEST), deadline or client.deadline)
    return {
        tp: answer if isinstance(answer, KgroupError) else LogRange(answer[0][0], answer[1][0])
        for tp, answer in answers.items()
    }


async def log_positions(
    client: CoordinatorClient, layouts: Layouts, partitions: Iterable[TopicPartition], timestamp_ms: int | None
) -> dict[TopicPartition, Positions | KgroupError]:
    """Log start and high watermark with leader epochs, and the first record at or after ``timestamp_ms``."""
    timed = () if timestamp_ms is None else ((timestamp_ms, _READ_UNCOMMITTED),)
    queries = (_EARLIEST, _LATEST, *timed)
    answers = await _listed_offsets(client, layouts, partitions, queries, client.deadline)
    return {tp: answer if isinstance(answer, KgroupError) else _positions(answer) for tp, answer in answers.items()}


def _positions(answer: Sequence[_Listed]) -> Positions:
    start, end, *timed = (Position(offset, epoch if epoch >= 0 else None) for offset, epoch, _ in answer)
    return Positions(start, end, timed[0] if timed and timed[0].offset >= 0 else None)


class LogView(msgspec.Struct, frozen=True):
    """A log's bounds, for a reader that reads at most to the last stable offset.

    ``end`` is the high watermark. ``leader_epoch`` is the leader's, None if it returned none. ``at_times`` are the
    offsets of the first record at or after each requested moment; None if there is no such record.
    """

    start: int
    end: int
    last_stable: Position
    at_times: tuple[int | None, ...]
    leader_epoch: int | None = None


async def log_views(
    client: CoordinatorClient, layouts: Layouts, partitions: Iterable[TopicPartition], moments_ms: Sequence[int]
) -> dict[TopicPartition, LogView | KgroupError]:
    """The views of all wanted partitions: one request per leader for each bound, and for each moment."""
    queries = (_EARLIEST, _LATEST, _LAST_STABLE, *((moment, _READ_UNCOMMITTED) for moment in moments_ms))
    answers = await _listed_offsets(client, layouts, partitions, queries, client.deadline)
    return {tp: answer if isinstance(answer, KgroupError) else _view(answer) for tp, answer in answers.items()}


def _view(answer: Sequence[_Listed]) -> LogView:
    (start, *_), (end, latest, _), (stable, epoch, _), *timed = answer
    # The end comes from another request, and may be slightly older.
    return LogView(
        start,
        max(end, stable),
        Position(stable, epoch if epoch >= 0 else None),
        tuple(offset if offset >= 0 else None for offset, *_ in timed),
        latest if latest >= 0 else None,
    )


async def _listed_offsets(
    client: CoordinatorClient,
    layouts: Layouts,
    partitions: Iterable[TopicPartition],
    queries: Sequence[_Query],
    deadline: Deadline,
) -> dict[TopicPartition, list[_Listed] | KgroupError]:
    """What is listed of each wanted partition, for each of ``queries``."""
    results: dict[TopicPartition, list[_Listed] | KgroupError] = {}
    pending = sorted(set(partitions))
    while pending:
        by_leader: dict[int, list[TopicPartition]] = {}
        causes: dict[TopicPartition, _Cause] = {}
        for partition in pending:
            leader = leader_of(layouts, partition)
            if isinstance(leader, KgroupError):
                results[partition] = leader
            elif leader is None:
                causes[partition] = partial(topic_error, _LEADER_NOT_AVAILABLE, partition[0])
            else:
                by_leader.setdefault(leader, []).append(partition)
        listed, unlisted = await _ask_leaders(client, by_leader, queries, deadline.left_ms)
        results |= listed
        causes |= unlisted
        pending = list(causes)
        if not pending:
            break
        await client.sleep(RETRY_PAUSE_S)
        if deadline.passed:
            return results | {partition: cause() for partition, cause in causes.items()}
        with suppress(Unreachable):
            layouts = await topic_layouts(client, {topic for topic, _ in pending})
    return results


def leader_of(layouts: Layouts, partition: TopicPartition) -> int | KgroupError | None:
    """The partition's leader; None if it has none now, an error if the topic cannot be read or lacks the partition."""
    topic, number = partition
    layout = layouts.get(topic)
    if isinstance(layout, KgroupError):
        return layout
    if layout is None or number not in layout.leaders:
        return topic_error(UNKNOWN_TOPIC_OR_PARTITION, topic)
    return layout.leaders[number]


async def _ask_leaders(
    client: CoordinatorClient,
    by_leader: Mapping[int, list[TopicPartition]],
    queries: Sequence[_Query],
    patience_ms: int,
) -> tuple[dict[TopicPartition, list[_Listed] | KgroupError], dict[TopicPartition, _Cause]]:
    """(results, errors to retry) for the partitions of each leader."""
    requests = [
        (leader, _list_offsets(partitions, *query)) for leader, partitions in by_leader.items() for query in queries
    ]
    answers = await client.send_all(requests, patience_ms)
    results: dict[TopicPartition, list[_Listed] | KgroupError] = {}
    causes: dict[TopicPartition, _Cause] = {}
    offsets: dict[TopicPartition, list[_Listed]] = {}
    for (leader, _), answer in zip(requests, answers, strict=True):
        if isinstance(answer, BaseException):
            cause = cache(partial(client.failure, answer, leader))
            causes |= dict.fromkeys(by_leader[leader], cause)
            continue
        for topic in answer.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                if row.error_code in NO_LEADER:
                    causes[partition] = partial(topic_error, row.error_code, topic.name)
                elif row.error_code != NONE:
                    results[partition] = topic_error(row.error_code, topic.name)
                else:
                    offsets.setdefault(partition, []).append((row.offset, row.leader_epoch, row.timestamp))
    results |= {partition: listed for partition, listed in offsets.items() if len(listed) == len(queries)}
    return results, causes


def behind_request(partitions: Iterable[TopicPartition]) -> Any:
    """A request that shows which of these partitions are behind, see ``partitions_behind``."""
    return _list_offsets(partitions, *_LATEST)


def partitions_behind(answers: Iterable[Any]) -> set[TopicPartition]:
    """The partitions whose leader's high watermark is still below the start of its epoch (KIP-207), or that moved.

    Such a leader does not show its latest records yet. ``answers`` are responses to ``behind_request``, or errors.
    """
    return {
        TopicPartition(topic.name, row.partition_index)
        for answer in answers
        if not isinstance(answer, BaseException)
        for topic in answer.topics
        for row in topic.partitions
        if row.error_code in NO_LEADER
    }


async def newest_timestamps(
    client: CoordinatorClient, layouts: Layouts, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The newest record timestamp of each partition that has a record (KIP-734), -1: none of them has one.

    Partitions that cannot be read at once are left out. A broker older than 3.0 returns that of the first record.
    """
    by_leader: dict[int, list[TopicPartition]] = {}
    for tp in sorted(partitions):
        if isinstance(leader := leader_of(layouts, tp), int):
            by_leader.setdefault(leader, []).append(tp)
    query = (_MAX_TIMESTAMP, _READ_UNCOMMITTED)
    answers, _ = await _ask_leaders(client, by_leader, (query,), client.deadline.left_ms)
    return {tp: rows[0][2] for tp, rows in answers.items() if not isinstance(rows, KgroupError) and rows[0][0] >= 0}


async def newest_timestamp(client: CoordinatorClient, topic: str, layout: TopicLayout | KgroupError) -> int | None:
    """The newest record timestamp in ms, over the partitions that answer (KIP-734); None if none does."""
    if isinstance(layout, KgroupError):
        return None
    times_ms = await newest_timestamps(client, {topic: layout}, (TopicPartition(topic, n) for n in layout.leaders))
    return max((at_ms for at_ms in times_ms.values() if at_ms >= 0), default=None)


def _list_offsets(partitions: Iterable[TopicPartition], timestamp: int, isolation: int) -> Any:
    topics: dict[str, list[Any]] = {}
    for topic, number in partitions:
        row = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=number, current_leader_epoch=-1, timestamp=timestamp
        )
        topics.setdefault(topic, []).append(row)
    return ListOffsetsRequest(
        replica_id=_CONSUMER_REPLICA,
        isolation_level=isolation,
        topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=rows) for topic, rows in topics.items()],
    )
