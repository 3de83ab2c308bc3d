"""What of a group goes into one request: as much as fits into one batch of the log, and nothing twice."""

from __future__ import annotations

import pytest

from kgroup.cluster.commit_requests import parts_of
from kgroup.model.commit import Commit
from kgroup.model.topic_partition import TopicPartition

LARGEST_BATCH = 1024 * 1024
"""What a broker appends to __consumer_offsets at a time, by its defaults."""

OF_A_RECORD = 40
"""Bytes that a commit takes in the log at least, beside its names and its metadata."""


@pytest.mark.parametrize(
    ("group", "topic", "metadata", "count", "parts"),
    [
        ("g", "t", "", 1, 1),
        ("g", "t", "", 10_000, 1),
        ("g" * 40, "t" * 40, "", 5_000, 1),
        ("g" * 40, "t" * 40, "", 10_000, 2),
        # 85 kB on the wire: the names stand beside each commit in the log alone.
        ("g" * 232, "t" * 232, "", 2_600, 2),
        ("g" * 7_000, "t", "", 200, 2),
        ("g", "t" * 249, "", 4_000, 2),
        ("ü" * 232, "t", "", 2_600, 2),
        ("g", "t", "m" * 4_096, 300, 2),
        ("g", "t", "€" * 4_096, 300, 5),
        # Larger than any batch by itself: the broker refuses it, and not the others with it.
        ("g", "t", "m" * 1_000_000, 2, 2),
    ],
)
def test_no_part_is_larger_than_a_batch(group: str, topic: str, metadata: str, count: int, parts: int) -> None:
    writes = {TopicPartition(topic, number): Commit(number, None, metadata) for number in range(count)}
    old = {TopicPartition(topic, number): Commit(1, None, "") for number in range(1, count)}

    found = list(parts_of(group, writes, old))

    assert len(found) == parts
    each = sum(len(text.encode()) for text in (group, topic, metadata)) + OF_A_RECORD
    assert all(len(part.writes) == 1 or len(part.writes) * each <= LARGEST_BATCH for part in found)
    assert {part.group for part in found} == {group}
    assert [place for part in found for place in part.writes] == sorted(writes)
    assert {place: commit for part in found for place, commit in part.writes.items()} == writes
    assert all(part.old == {place: old.get(place) for place in part.writes} for part in found)


def test_deletions_have_names_too() -> None:
    writes = {TopicPartition("t" * 249, number): None for number in range(4_000)}

    assert [len(part.writes) for part in parts_of("g" * 249, writes, {})][:-1] != []


def test_nothing() -> None:
    assert list(parts_of("g", {}, {})) == []
