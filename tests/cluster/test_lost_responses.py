"""What is said of a change that got no answer, or answers after which it may still be stored; no broker does it twice.

The coordinator is a list of answers, of which the last is repeated; what is read back is what stood there before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer import OffsetCommitResponse

from kgroup.cluster.broker_errors import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_ID_NOT_FOUND,
    NOT_COORDINATOR,
    REQUEST_TIMED_OUT,
)
from kgroup.cluster.commit_requests import CommitPart, commit_request
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.lost_responses import NoResponse, send_to_coordinator
from kgroup.cluster.writes import ChangingCluster, DeleteGroupsResponse
from kgroup.model.commit import Commit
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, Unreachable
from tests.helpers.clusters import connected
from tests.helpers.kafka_world import KafkaWorld

PLACE = TopicPartition("orders", 0)
OLD, NEW = Commit(3, None, ""), Commit(12, None, "")
PART = CommitPart("svc", {PLACE: NEW}, {PLACE: OLD})
DELETION = CommitPart("svc", {PLACE: None}, {PLACE: OLD})

SENT = NoResponse(partial(Unreachable, "no answer"), sent=True)
NOT_SENT = NoResponse(partial(Unreachable, "no connection"), sent=False)

CASES: dict[str, tuple[list[NoResponse | int], str]] = {
    "never an answer": ([SENT], "outcome-unknown"),
    "never sent": ([NOT_SENT], "unreachable"),
    "never the coordinator": ([NOT_COORDINATOR], "no-coordinator"),
    "no answer, then not the coordinator any more": ([SENT, NOT_COORDINATOR], "outcome-unknown"),
    "followers are missing": ([COORDINATOR_NOT_AVAILABLE], "outcome-unknown"),
    "followers did not answer": ([REQUEST_TIMED_OUT, NOT_COORDINATOR], "outcome-unknown"),
    "followers were missing, then no connection": ([COORDINATOR_NOT_AVAILABLE, NOT_SENT], "outcome-unknown"),
}


class Answering(ChangingCluster):
    """A cluster with these answers, which is asked again for ``within_s``."""

    def __init__(self, answers: list[Any], within_s: float = 0.05) -> None:
        self._answers = answers
        self._client: Any = SimpleNamespace(deadline=Deadline.after(within_s), sleep=lambda _: asyncio.sleep(0.01))
        self._coordinators: Any = SimpleNamespace(
            invalidate=lambda _: None,
            committed=self._committed,
            client=self._client,
            within=lambda _: self._coordinators,
        )
        self._timeout_s = 0.05

    async def _committed(self, groups: list[str]) -> dict[str, dict[TopicPartition, Commit]]:
        return {group: {PLACE: OLD} for group in groups}

    async def _to_coordinator(self, group: str, request: Any) -> Any:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def commit_answer(given: NoResponse | int) -> Any:
    topic = OffsetCommitResponse.OffsetCommitResponseTopic
    rows = [topic.OffsetCommitResponsePartition(partition_index=0, error_code=given)]
    return (
        given if isinstance(given, NoResponse) else OffsetCommitResponse(topics=[topic(name="orders", partitions=rows)])
    )


def deletion_answer(given: NoResponse | int) -> Any:
    row = DeleteGroupsResponse.DeletableGroupResult
    return (
        given
        if isinstance(given, NoResponse)
        else DeleteGroupsResponse(results=[row(group_id="svc", error_code=given)])
    )


@pytest.mark.parametrize(("given", "code"), CASES.values(), ids=CASES)
def test_of_a_commit(given: list[NoResponse | int], code: str) -> None:
    found = asyncio.run(Answering([commit_answer(one) for one in given])._write(PART))[PLACE]

    assert isinstance(found, KgroupError)
    assert found.code == code


@pytest.mark.parametrize(("given", "code"), CASES.values(), ids=CASES)
def test_of_a_deletion(given: list[NoResponse | int], code: str) -> None:
    found = asyncio.run(Answering([deletion_answer(one) for one in given])._delete(DELETION))

    assert isinstance(found, KgroupError)
    assert found.code == code


@pytest.mark.parametrize(
    ("version", "says"), [(3, "the topology plugin is not there"), (2, "An unexpected server error")]
)
def test_why_a_broker_could_not_delete_a_group(version: int, says: str) -> None:
    """Version 3 (Kafka 4.4) has a message for each group, and an error code that kafka-python does not know."""
    row = DeleteGroupsResponse.DeletableGroupResult(
        group_id="svc", error_code=134, error_message="the topology plugin is not there"
    )
    sent = DeleteGroupsResponse(results=[row], version=version).encode(version=version)
    answer = DeleteGroupsResponse.decode(sent, version=version)

    found = asyncio.run(Answering([answer])._delete(DELETION))

    assert isinstance(found, KgroupError)
    assert found.message.startswith("GROUP_DELETION_FAILED (134): ")
    assert says in found.message


def test_a_group_that_is_gone_after_a_deletion_without_an_answer_is_deleted() -> None:
    """The look in between still saw it: the first request was carried out after that."""
    answers = [deletion_answer(one) for one in (NOT_COORDINATOR, GROUP_ID_NOT_FOUND)]
    sent = [deletion_answer(one) for one in (COORDINATOR_NOT_AVAILABLE, GROUP_ID_NOT_FOUND)]

    refused = asyncio.run(Answering(answers, 60)._delete(DELETION))
    assert isinstance(refused, KgroupError)
    assert refused.code == "not-found", "nothing had been carried out"
    assert asyncio.run(Answering(sent, 60)._delete(DELETION)) is None


@pytest.mark.parametrize("patience_ms", [None, 1])
def test_what_is_sent_just_before_the_deadline_is_answered(
    world: KafkaWorld, name: Callable[[str], str], patience_ms: int | None
) -> None:
    """Of a real coordinator, which has to be found too."""
    group, place = name("svc"), TopicPartition(world.topic(name("orders")), 0)
    with connected(world.bootstrap) as cluster:
        coordinators, request = cluster._coordinators, commit_request(group, {place: NEW})

        now = Deadline.after(0)
        answer = cluster._client.run(send_to_coordinator, coordinators, group, request, patience_ms, deadline=now)

    assert answer.topics[0].partitions[0].error_code == 0
    assert world.exact(group) == {place: (12, "", None)}
