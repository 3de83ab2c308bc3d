"""The rows of a plan about share groups, what is refused, and what an undo restores."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.change_plan import ChangePlan, ChangeRow
from kgroup.groups.reset_plan import reset_row
from kgroup.groups.reset_targets import ShiftBy, ToCurrent, ToEarliest
from kgroup.groups.share_changes import (
    INTERNAL_TOPIC,
    SHARE_READ_ONLY,
    WHOLE_TOPIC,
    note_archived,
    refuse_share_changes,
    restored_start,
    start_row,
    unusual_starts,
)
from kgroup.model.commit import Commit
from kgroup.model.groups import LogRange, Position, Positions
from kgroup.model.share_deliveries import DeliveryBatch, DeliveryState, PartitionDeliveries
from kgroup.model.share_group import BrokerLag
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError
from tests.helpers.share_plans import row, share_group, start


@pytest.mark.parametrize(
    ("old", "new", "lag", "skipped", "repeated"),
    [
        (0, 0, 3, 0, 17),
        (5, 0, 15, 0, 5),
        (5, 0, 3, 0, 17),
        (0, 20, 3, 3, 0),
        (0, 10, 3, 3, 10),
        (0, 10, 15, 10, 5),
        (0, 10, 0, 0, 10),
        (None, 10, None, None, None),
        (5, 0, None, None, None),
    ],
)
def test_what_is_skipped_and_repeated_at_most(
    old: int | None, new: int, lag: int | None, skipped: int | None, repeated: int | None
) -> None:
    each = row(old, new, lag)
    assert (each.skipped, each.repeated) == (skipped, repeated)
    if skipped is not None and repeated is not None and lag is not None:
        assert lag + repeated - skipped >= 20 - new


def test_the_range_that_is_jumped_over_has_what_is_done_too() -> None:
    each = row(2, 10, 3).skipped_range
    assert each is not None
    assert (each.start, each.end) == (2, 10)
    assert row(2, 10, 0).skipped_range is None


def test_a_start_offset_has_no_leader_epoch_and_no_metadata() -> None:
    log = Positions(Position(4, 7), Position(20, 7))
    planned = reset_row("jobs", TopicPartition("orders", 0), ToEarliest(), None, log, {})
    assert planned.new == Commit(4, 7, "")
    assert start_row(planned, None).new == Commit(4, None, "")


def test_words_of_partitions_without_a_start_offset() -> None:
    log, tp = Positions(Position(4, 7), Position(20, 7)), TopicPartition("orders", 0)
    shifted = start_row(reset_row("jobs", tp, ShiftBy(1), None, log, {}), BrokerLag(None))
    assert shifted.error is not None
    assert shifted.error.message == "no start offset is stored yet"
    assert start_row(reset_row("jobs", tp, ToCurrent(), None, log, {}), None).note == "no start offset: the log end"


@pytest.mark.parametrize(
    ("now", "before", "log", "new", "clamped"),
    [
        (9, 3, LogRange(0, 20), 3, None),
        (9, 3, LogRange(5, 20), 5, "3 is below the log start 5"),
        (9, 30, LogRange(5, 20), 20, "30 is above the log end 20"),
    ],
)
def test_an_undo_stays_within_the_log(now: int, before: int, log: LogRange, new: int, clamped: str | None) -> None:
    restored = restored_start(row(now, before, 0, log), BrokerLag(0), None, deleted=False)
    assert restored is not None
    assert (restored.new, restored.clamped, restored.error) == (start(new), clamped, None)


def test_an_undo_that_is_there_already_has_no_row() -> None:
    assert restored_start(row(5, 3, 0, LogRange(5, 20)), BrokerLag(0), None, deleted=False) is None


def test_no_undo_restores_that_there_was_no_start_offset() -> None:
    refused = restored_start(row(9, None, 0), BrokerLag(0), None, deleted=False)
    assert refused is not None
    assert refused.error is not None
    assert refused.error.code == WHOLE_TOPIC
    assert "delete-offsets jobs --topic orders" in str(refused.error.hint)
    deleted = restored_start(row(9, None, 0), BrokerLag(0), None, deleted=True)
    assert deleted is not None
    assert deleted.error is None


def test_an_undo_needs_the_bounds_of_the_log() -> None:
    unread = restored_start(row(9, 3, 0, None), None, KgroupError("no leader"), deleted=False)
    assert unread is not None
    assert unread.error is not None
    assert unread.error.message == "no leader"


@pytest.mark.parametrize(
    ("new", "note"), [(0, "3 archived: delivered again"), (4, "2 archived: delivered again"), (9, None)]
)
def test_archived_offsets_that_are_delivered_again(new: int, note: str | None) -> None:
    deliveries = PartitionDeliveries(
        5,
        (
            DeliveryBatch(3, 4, DeliveryState.ARCHIVED, 5),
            DeliveryBatch(5, 7, DeliveryState.ACKNOWLEDGED, 1),
            DeliveryBatch(8, 8, DeliveryState.ARCHIVING, 2),
        ),
    )
    planned = row(5, new, 3)
    assert note_archived(planned, deliveries).note == note
    assert note_archived(planned, None) == planned


@pytest.mark.parametrize(
    ("rows", "supported", "codes"),
    [
        ([row(0, 5, 1)], True, []),
        ([row(0, 5, 1)], False, [SHARE_READ_ONLY]),
        ([replace(row(0, 5, 1), topic="__consumer_offsets")], True, [INTERNAL_TOPIC]),
        ([row(0, None, 1)], True, [WHOLE_TOPIC]),
        ([row(0, None, 1), row(0, None, 1, number=1)], True, []),
        ([row(0, None, 1), row(0, 5, 1, number=1)], True, [WHOLE_TOPIC]),
    ],
)
def test_what_is_refused(rows: list[ChangeRow], supported: bool, codes: list[str]) -> None:
    plan = ChangePlan((share_group({0: 0, 1: 0, 2: None}),), rows)
    assert [refusal.error.code for refusal in refuse_share_changes(plan, supported=supported)] == codes


def test_a_group_that_is_deleted_needs_no_whole_topics() -> None:
    plan = ChangePlan((share_group({0: 0, 1: 0}),), [row(0, None, 1)], deleted=frozenset({"jobs"}))
    assert list(refuse_share_changes(plan, supported=True)) == []


def test_partitions_of_a_new_group_that_get_no_start_offset_are_named() -> None:
    rows = [row(None, 12, None)]
    topic = rows[0].topic

    (line,) = unusual_starts(rows, {topic: frozenset({0, 1, 2}), "other": frozenset({0})})

    assert line.startswith(f"no start offset for {topic}:1, {topic}:2: share.auto.offset.reset decides")
    assert unusual_starts(rows, {topic: frozenset({0})}) == ()
    assert unusual_starts(rows, {topic: KgroupError("it could not be read")}) == ()
