"""Commits are decoded from the bytes that kafka-python makes of the same response. Without a broker."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.parser import KafkaProtocol

from kgroup.cluster.broker_errors import GROUP_AUTHORIZATION_FAILED, UNSTABLE_OFFSET_COMMIT
from kgroup.cluster.coordinator.offset_fetch import NEWEST, OLDEST, CommitsOfGroup, CommitsRequest, decode_commits
from kgroup.model.commit import Commit
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, Refused

Group = OffsetFetchResponse.OffsetFetchResponseGroup
Topic = Group.OffsetFetchResponseTopics
Row = Topic.OffsetFetchResponsePartitions


def row(partition: int, offset: int, epoch: int = -1, metadata: str | None = "", error_code: int = 0) -> Any:
    return Row(
        partition_index=partition,
        committed_offset=offset,
        committed_leader_epoch=epoch,
        metadata=metadata,
        error_code=error_code,
    )


def encoded(*groups: Any, version: int = NEWEST, throttle_ms: int = 0) -> bytes:
    made = OffsetFetchResponse(version=version, throttle_time_ms=throttle_ms, groups=list(groups))
    return bytes(made.encode(version=version))


def group_of(rows: Sequence[Any], topic: str = "orders") -> Any:
    return Group(group_id="svc", topics=[Topic(name=topic, partitions=list(rows))], error_code=0)


def only(body: bytes) -> CommitsOfGroup:
    (found,) = decode_commits(body).groups
    return found


@pytest.mark.parametrize("version", range(OLDEST, NEWEST + 1))
def test_commits_of_several_groups_and_topics(version: int) -> None:
    one = Group(
        group_id="one",
        topics=[
            Topic(name="orders", partitions=[row(0, 7, 3), row(11, 2**40, metadata="näher")]),
            Topic(name="pay", partitions=[row(2, 0, 0, None)]),
        ],
        error_code=0,
    )
    none = Group(group_id="none", topics=[], error_code=0)
    closed = Group(group_id="closed", topics=[], error_code=GROUP_AUTHORIZATION_FAILED)

    found = decode_commits(encoded(one, none, closed, version=version, throttle_ms=250))

    assert found.throttle_time_ms == 250
    assert found.groups == (
        CommitsOfGroup(
            "one",
            0,
            {
                TopicPartition("orders", 0): Commit(7, 3, ""),
                TopicPartition("orders", 11): Commit(2**40, None, "näher"),
                TopicPartition("pay", 2): Commit(0, 0, ""),
            },
        ),
        CommitsOfGroup("none", 0, {}),
        CommitsOfGroup("closed", GROUP_AUTHORIZATION_FAILED, {}),
    )


@pytest.mark.parametrize("length", [1, 125, 126, 127, 128, 16_382, 16_383, 32_767])
def test_metadata_of_every_length(length: int) -> None:
    """Its length is a varint of one to three bytes; the partitions around it are found where they are."""
    found = only(encoded(group_of([row(0, 1), row(1, 2, 5, "x" * length), row(2, 3)])))

    assert found.committed == {
        TopicPartition("orders", 0): Commit(1, None, ""),
        TopicPartition("orders", 1): Commit(2, 5, "x" * length),
        TopicPartition("orders", 2): Commit(3, None, ""),
    }


def test_a_partition_without_a_commit_is_left_out_and_one_with_an_error_has_it() -> None:
    found = only(encoded(group_of([row(0, -1), row(1, -1, error_code=UNSTABLE_OFFSET_COMMIT), row(2, 5)])))

    assert list(found.committed) == [TopicPartition("orders", 1), TopicPartition("orders", 2)]
    error = found.committed[TopicPartition("orders", 1)]
    assert isinstance(error, Refused)
    assert error.code == "pending-transaction"
    assert found.committed[TopicPartition("orders", 2)] == Commit(5, None, "")


def test_tagged_fields_of_a_later_version_are_skipped() -> None:
    plain = encoded(group_of([row(0, 5), row(1, 6)]))
    at = plain.index(b"orders") + len(b"orders") + 1  # after the number of partitions
    tagged = plain[: at + 19] + b"\x01\x07\x03abc" + plain[at + 20 :]

    assert only(tagged).committed == only(plain).committed
    assert len(only(plain).committed) == 2


def test_a_response_that_is_cut_off_anywhere_is_refused() -> None:
    """kafka-python closes the connection at a ValueError, and the request fails."""
    whole = encoded(group_of([row(0, 5), row(1, 6, 2, "kept")]))
    for size in range(len(whole)):
        with pytest.raises(ValueError, match="no response to OffsetFetch"):
            decode_commits(whole[:size])


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
ROWS = st.lists(
    st.builds(
        row,
        st.integers(0, 2**31 - 1),
        st.integers(-1, 2**63 - 1),
        st.integers(-1, 2**31 - 1),
        st.none() | TEXT,
        st.sampled_from([0, 0, 0, UNSTABLE_OFFSET_COMMIT]),
    ),
    max_size=8,
)


@given(TEXT.filter(bool), ROWS)
def test_the_same_as_kafka_python_decodes(topic: str, rows: list[Any]) -> None:
    body = encoded(group_of(rows, topic))
    theirs = OffsetFetchResponse[NEWEST].decode(io.BytesIO(body)).groups[0].topics[0]
    expected = {
        (theirs.name, one.partition_index): None
        if one.error_code
        else (one.committed_offset, one.committed_leader_epoch, one.metadata or "")
        for one in theirs.partitions
        if one.error_code or one.committed_offset >= 0
    }

    found = only(body).committed

    assert {
        tp: None
        if isinstance(commit, KgroupError)
        else (commit.offset, -1 if commit.leader_epoch is None else commit.leader_epoch, commit.metadata)
        for tp, commit in found.items()
    } == expected


@pytest.mark.parametrize("version", range(OLDEST, NEWEST + 1))
def test_kafka_python_decodes_its_response_with_it_and_others_by_itself(version: int) -> None:
    request, theirs = CommitsRequest(["svc"], stable=True), OffsetFetchRequest(groups=[], version=version)
    for one in (request, theirs):
        one.API_VERSION = version
        one.with_header(correlation_id=1, client_id="x")
    header, body = b"\0\0\0\1\0", encoded(group_of([row(0, 5)]))
    protocol = KafkaProtocol(client_id="x")
    protocol.send_request(request, correlation_id=1)

    ((_, response),) = protocol.receive_bytes(struct.pack(">i", len(header + body)) + header + body)

    assert response == decode_commits(body)
    assert theirs.header.get_response_class() is OffsetFetchResponse[version]


@pytest.mark.parametrize("stable", [True, False])
def test_the_request_asks_for_all_offsets_of_each_group(stable: bool) -> None:
    request = CommitsRequest(["one", "two"], stable=stable)
    made = OffsetFetchRequest[NEWEST].decode(io.BytesIO(request.encode(version=NEWEST)))

    assert [(group.group_id, group.topics) for group in made.groups] == [("one", None), ("two", None)]
    assert made.require_stable is stable
