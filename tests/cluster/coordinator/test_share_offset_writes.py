"""The rows of answers about start offsets: one for each partition that was sent."""

from __future__ import annotations

from kgroup.cluster.broker_errors import NON_EMPTY_GROUP, NONE, UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION
from kgroup.cluster.coordinator.share_offset_writes import (
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponse,
    deletion_request,
    deletion_rows,
    start_request,
    start_rows,
)
from kgroup.model.commit import Commit
from kgroup.model.topic_partition import TopicPartition

FIRST, SECOND, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("audit", 0)


def altered(codes: dict[TopicPartition, int], code: int = NONE) -> AlterShareGroupOffsetsResponse:
    topic = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic
    row = topic.AlterShareGroupOffsetsResponsePartition
    return AlterShareGroupOffsetsResponse(
        error_code=code,
        responses=[
            topic(topic_name=tp.topic, partitions=[row(partition_index=tp.partition, error_code=each)])
            for tp, each in codes.items()
        ],
    )


def test_start_offsets_are_sent_by_topic() -> None:
    request = start_request(
        "jobs", {FIRST: Commit(3, None, ""), OTHER: Commit(7, None, ""), SECOND: Commit(4, None, "")}
    )
    sent = {
        (topic.topic_name, row.partition_index): row.start_offset
        for topic in request.topics
        for row in topic.partitions
    }
    assert sent == {FIRST: 3, SECOND: 4, OTHER: 7}
    assert len(request.topics) == 2


def test_a_partition_without_a_row_is_not_done() -> None:
    """Kafka 4.1 answers success with no row at all, and does nothing (4.1.2, seen)."""
    assert dict(start_rows(altered({}), [FIRST, SECOND])) == dict.fromkeys([FIRST, SECOND], UNKNOWN_SERVER_ERROR)
    some = altered({FIRST: NONE, SECOND: UNKNOWN_TOPIC_OR_PARTITION})
    assert dict(start_rows(some, [FIRST, SECOND, OTHER])) == {
        FIRST: NONE,
        SECOND: UNKNOWN_TOPIC_OR_PARTITION,
        OTHER: UNKNOWN_SERVER_ERROR,
    }


def test_an_error_of_the_group_is_one_of_each_partition() -> None:
    refused = altered({}, NON_EMPTY_GROUP)
    assert dict(start_rows(refused, [FIRST, SECOND])) == dict.fromkeys([FIRST, SECOND], NON_EMPTY_GROUP)


def test_start_offsets_are_deleted_by_topic() -> None:
    request = deletion_request("jobs", [FIRST, SECOND, OTHER])
    assert [topic.topic_name for topic in request.topics] == ["orders", "audit"]
    topic = DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic
    answer = DeleteShareGroupOffsetsResponse(error_code=NONE, responses=[topic(topic_name="orders", error_code=NONE)])
    assert dict(deletion_rows(answer, [FIRST, OTHER])) == {FIRST: NONE, OTHER: UNKNOWN_SERVER_ERROR}
