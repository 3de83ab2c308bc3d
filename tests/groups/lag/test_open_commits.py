"""Offsets that an open transaction holds: which of them, since when, and by whom."""

from __future__ import annotations

import pytest

from kgroup.groups.lag.open_commits import OpenCommit, open_commits, with_transactions
from kgroup.model.group_log import CommitWritten, TransactionEnd
from kgroup.model.migration_facts import OpenTransaction
from kgroup.model.topic_partition import TopicPartition

NOW, M = 10_000_000, 60_000


def written(partition: int, offset: int | None, ago_ms: int, producer: int = 4711) -> CommitWritten:
    place = (partition, NOW - ago_ms, "orders", partition)
    return CommitWritten(*place, offset, "", None, producer, TransactionEnd.OPEN)


def held(partition: int, offset: int, ago_ms: int, producer: int = 4711) -> OpenCommit:
    return OpenCommit(TopicPartition("orders", partition), offset, producer, NOW - ago_ms)


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        ([], ()),
        ([written(0, 8, 3 * M), written(0, 9, M), written(1, 4, M)], (held(0, 9, 3 * M), held(1, 4, M))),
        ([written(0, 8, 3 * M), written(0, 9, M, producer=5)], (held(0, 8, 3 * M), held(0, 9, M, producer=5))),
        ([written(0, None, M)], ()),
    ],
)
def test_the_newest_of_each_partition_since_its_first(
    commits: list[CommitWritten], expected: tuple[OpenCommit, ...]
) -> None:
    assert open_commits(commits) == expected


@pytest.mark.parametrize(
    ("ago_ms", "began_ago_ms", "since_ms"),
    [
        (M, None, NOW - M),
        (M - 1, None, None),
        (M - 1, 2 * M, NOW - 2 * M),
        (2 * M, M, NOW - 2 * M),
    ],
)
def test_one_that_is_held_for_a_minute(ago_ms: int, began_ago_ms: int | None, since_ms: int | None) -> None:
    began_ms = None if began_ago_ms is None else NOW - began_ago_ms
    transaction = OpenTransaction("__consumer_offsets", 7, 4711, 0, 1, NOW, True, "pay-tx", began_ms)
    another = OpenTransaction("__consumer_offsets", 7, 5, 0, 1, NOW, True, "other", NOW - 9 * M)

    found = with_transactions([held(0, 9, ago_ms)], [transaction, another], NOW)

    assert [each.since_ms for each in found] == ([] if since_ms is None else [since_ms])
    assert all(each.transaction == transaction for each in found)
