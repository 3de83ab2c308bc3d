"""What a target topic has lost: tables, without a broker."""

from __future__ import annotations

import pytest

from kgroup.catchup.service.target_topic import TargetBounds, TargetLoss, difference, find_loss
from kgroup.groups.catchup.model import Chunk, ChunkProgress, Delivery, Order, PlanSnapshot, TargetTopic
from kgroup.model.records import OffsetRange
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.catchup.plans import gap_range, ledgered, make_plan

BEFORE = TargetTopic("id", (5, 0))
SAME = TargetBounds("id", (5, 0), (50, 40))
CHUNKS = (Chunk("orders", 0, 70, 90, 0), Chunk("orders", 0, 90, 120, 1))
PLACE = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (SAME, None),
        (TargetBounds("id", (0, 0), (5, 0)), None),
        (TargetBounds("id", (5, 0, 0), (50, 40, 3)), None),
        (None, "copy was deleted"),
        (TargetBounds("other", (0, 0), (50, 40)), "copy was deleted and recreated"),
        (TargetBounds("id", (0,), (50,)), "copy was deleted and recreated"),
        (TargetBounds("id", (0, 0), (4, 0)), "copy was deleted and recreated"),
        (TargetBounds("id", (6, 0), (50, 40)), "records of copy were deleted: the log start of copy:0 moved to 6"),
        (
            TargetBounds("id", (5, 0, 1), (50, 40, 3)),
            "records of copy were deleted: the log start of copy:2 moved to 1",
        ),
    ],
)
def test_what_makes_a_difference(now: TargetBounds | None, why: str | None) -> None:
    assert difference("copy", BEFORE, now) == why


def delivered(*rows: ChunkProgress) -> PlanSnapshot:
    delivery = Delivery("topic", Order.PARTITION, (), {"topic": "copy"}, target=BEFORE)
    return ledgered(make_plan(gap_range(), chunks=CHUNKS), progress=rows, delivery=delivery)


def counted(chunk: int, delivered_to: int, records: int) -> ChunkProgress:
    return ChunkProgress(chunk, delivered_to, records, 0, 0, 0, 5, 1)


def loss(before: PlanSnapshot, *spans: tuple[int, int], only_beginnings: bool = True) -> TargetLoss:
    there = {PLACE: [OffsetRange(*PLACE, *span) for span in spans]}
    return find_loss(before, there, "why", only_beginnings=only_beginnings)


def test_what_is_there_is_not_lost() -> None:
    found = loss(delivered(counted(0, 90, 15), counted(1, 100, 5)), (70, 85), (95, 100))

    assert (found.gone, found.records) == ((), 0)


def test_the_beginning_of_a_chunk_is_gone() -> None:
    """Offset 84 holds no record: it is behind the first that is left, so it is not gone."""
    found = loss(delivered(counted(0, 90, 19), counted(1, 100, 10)), (80, 84), (85, 90), (90, 100))

    assert (found.gone, found.records) == ((OffsetRange("orders", 0, 70, 80),), 10)


def test_scattered_records_are_kept_one_by_one() -> None:
    found = loss(delivered(counted(0, 90, 20)), (80, 90), (72, 73), only_beginnings=False)

    assert found.gone == (OffsetRange("orders", 0, 70, 72), OffsetRange("orders", 0, 73, 80))


@pytest.mark.parametrize("only_beginnings", [True, False])
def test_all_is_gone_with_the_topic(only_beginnings: bool) -> None:
    """Nothing above what was delivered."""
    found = loss(delivered(counted(0, 90, 20), counted(1, 100, 10)), only_beginnings=only_beginnings)

    assert (found.gone, found.records) == ((OffsetRange("orders", 0, 70, 100),), 30)


def test_what_was_filtered_out_or_is_dead_is_not_lost() -> None:
    assert loss(delivered(ChunkProgress(0, 90, 20, 15, 5, 0, 5, 1))).gone == ()
