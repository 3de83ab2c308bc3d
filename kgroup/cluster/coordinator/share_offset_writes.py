"""Requests that change share groups: set start offsets (API 91), delete those of whole topics (API 92).

Kafka 4.1 may answer success without a row and do nothing (4.1.2, seen), and no version checks the bounds of the log
(4.4.0, seen). So a partition without a row counts as failed, and the caller checks the bounds and reads back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kafka.protocol.api_message import ApiMessage

from kgroup.cluster.broker_errors import UNKNOWN_SERVER_ERROR
from kgroup.cluster.coordinator import schemas
from kgroup.model.commit import Commit
from kgroup.model.topic_partition import TopicPartition


class AlterShareGroupOffsetsRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """API 91 (KIP-932). On an unknown group it creates a share group (4.3.1 and 4.4.0, seen)."""


class AlterShareGroupOffsetsResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """The response of API 91."""


class DeleteShareGroupOffsetsRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """API 92 (KIP-932)."""


class DeleteShareGroupOffsetsResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """The response of API 92."""


def start_request(group: str, starts: Mapping[TopicPartition, Commit]) -> Any:
    """Set start offsets; the delivery states of these partitions are deleted."""
    entry = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
    row = entry.AlterShareGroupOffsetsRequestPartition
    topics: dict[str, list[Any]] = {}
    for (topic, number), start in starts.items():
        topics.setdefault(topic, []).append(row(partition_index=number, start_offset=start.offset))
    return AlterShareGroupOffsetsRequest(
        group_id=group, topics=[entry(topic_name=topic, partitions=rows) for topic, rows in topics.items()]
    )


def start_rows(answer: Any, partitions: Iterable[TopicPartition]) -> Iterator[tuple[TopicPartition, int]]:
    """The error code of each partition; one without a row was perhaps not changed."""
    codes = {
        TopicPartition(topic.topic_name, row.partition_index): row.error_code
        for topic in answer.responses
        for row in topic.partitions
    }
    yield from ((tp, answer.error_code or codes.get(tp, UNKNOWN_SERVER_ERROR)) for tp in partitions)


def deletion_request(group: str, partitions: Iterable[TopicPartition]) -> Any:
    """Delete the start offsets and delivery states of all partitions of these topics."""
    entry = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
    topics = dict.fromkeys(tp.topic for tp in partitions)
    return DeleteShareGroupOffsetsRequest(group_id=group, topics=[entry(topic_name=topic) for topic in topics])


def deletion_rows(answer: Any, partitions: Iterable[TopicPartition]) -> Iterator[tuple[TopicPartition, int]]:
    """The error code of each partition's topic."""
    codes = {topic.topic_name: topic.error_code for topic in answer.responses}
    yield from ((tp, answer.error_code or codes.get(tp.topic, UNKNOWN_SERVER_ERROR)) for tp in partitions)
