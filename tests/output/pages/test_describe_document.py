"""The JSON of a described group."""

from __future__ import annotations

from kgroup.model.commit import Commit
from kgroup.model.groups import Coordinator, GroupTotals, LogRange, Partition, TopicPartitions
from kgroup.model.topic_partition import TopicPartition
from kgroup.output.pages.describe_document import DescribedPartition, MemberDocument, described_document
from tests.helpers.cases.described import partition
from tests.model.test_groups import group, member


def test_a_group() -> None:
    owner = member("a", 0, instance_id="i-1", rack="r1")
    coordinator = Coordinator(2, "b2", 9092, None)
    described = group(
        (owner,),
        (Partition(TopicPartition("orders", 0), Commit(70, 3, "note"), LogRange(0, 120), owner, None),),
        coordinator=coordinator,
        generation=112,
        leader="a",
    )
    document = described_document(described, ())

    assert (document.group, document.type, document.coordinator) == ("svc", "classic", coordinator)
    assert (document.generation, document.leader_member_id, document.source) == (112, "a", "coordinator")
    assert document.totals == GroupTotals(1, 0, 1, 0, 50)
    assert document.partitions == (
        DescribedPartition(
            topic="orders",
            partition=0,
            committed=70,
            leader_epoch=3,
            metadata="note",
            log_start=0,
            log_end=120,
            lag=50,
            time_lag_ms=None,
            time_lag_at_most_ms=None,
            last_commit_at=None,
            range_status=None,
            lag_status=None,
            member_id="a",
            client_id="app",
            host=owner.host,
            member_count=1,
            retried_count=None,
            last_attempt_count=None,
            archived_count=None,
            error_code=None,
        ),
    )
    assert document.members == (
        MemberDocument(
            member_id="a",
            instance_id="i-1",
            client_id="app",
            host=owner.host,
            rack="r1",
            member_epoch=None,
            left_temporarily=False,
            protocol=owner.protocol,
            subscription=owner.subscription,
            subscription_regex=None,
            assignment=(TopicPartitions("orders", (0,)),),
            target_assignment=None,
        ),
    )


def test_unknown_is_null_and_never_minus_one() -> None:
    document = described_document(group((member("a", assigned=False),), (partition(0),)), None)

    assert document.partitions == (DescribedPartition("orders", 0, *(None,) * 14, 0, *(None,) * 4),)
    (found,) = document.members or ()
    assert (found.assignment, found.target_assignment, found.member_epoch) == (None, None, None)
    assert (document.coordinator, document.generation, document.leader_member_id) == (None, None, None)
    assert (document.verdict, document.pending_catchups) == (None, None)


def test_an_empty_metadata_and_an_empty_assignment_are_not_null() -> None:
    document = described_document(group((member("a"),), (partition(0, 1, (0, 1)),)), ())

    assert document.partitions[0].metadata == ""
    assert [found.assignment for found in document.members or ()] == [()]
