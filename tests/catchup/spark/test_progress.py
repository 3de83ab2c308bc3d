"""Totals, rates and time left, from the ledger."""

from __future__ import annotations

from kgroup.catchup.spark.progress import ProgressBoard, TopicTotals
from kgroup.groups.catchup.model import Chunk, ChunkProgress

CHUNKS = {
    0: (Chunk("orders", 0, 100, 200, 0), Chunk("orders", 0, 200, 300, 1)),
    1: (Chunk("payments", 0, 0, 50, 2),),
}


def board(*begun: ChunkProgress) -> ProgressBoard:
    return ProgressBoard(CHUNKS, {one.chunk: one for one in begun}, now_s=1000.0)


def progress(chunk: int, to: int, records: int) -> ChunkProgress:
    return ChunkProgress(chunk, to, records, 1, 0, 10 * records, 0, 7)


def written(one: ProgressBoard, *rows: ChunkProgress) -> None:
    one.ledger({row.chunk: row for row in rows})


def test_nothing_was_committed() -> None:
    found = board().totals(1000.5)

    assert (found.offsets, found.offsets_total, found.chunks, found.chunks_total, found.records) == (0, 250, 0, 3, 0)
    assert (found.records_per_s, found.left_s, found.moved) == (None, None, False)
    assert found.topics == (TopicTotals("orders", 0, 200), TopicTotals("payments", 0, 50))


def test_chunks_are_summed_by_topic_and_none_goes_back() -> None:
    one = board(progress(0, 200, 80))
    assert (one.totals(1000.0).offsets, one.totals(1000.0).moved) == (100, False)
    written(one, progress(0, 200, 80), progress(1, 250, 40), progress(2, 50, 45))
    written(one, progress(1, 210, 10))  # read earlier, came later

    found = one.totals(1005.0)

    assert (found.offsets, found.chunks, found.records, found.filtered, found.size) == (200, 2, 165, 3, 1650)
    assert found.moved
    assert found.topics == (TopicTotals("orders", 150, 200), TopicTotals("payments", 50, 50))


def test_rates_and_time_left_are_of_the_last_half_minute() -> None:
    one = board()
    for second in range(1, 61):
        position = 100 + second if second <= 30 else 130 + 2 * (second - 30)
        written(one, progress(0, position, 2 * (position - 100)))
        found = one.totals(1000.0 + second)

    assert (found.offsets, found.offsets_total) == (90, 250)
    assert (found.records_per_s, found.bytes_per_s) == (4.0, 40.0)
    assert found.left_s == 160 / 2


def test_the_slowest_task_decides_the_time_left() -> None:
    one = board()
    written(one, progress(0, 110, 10), progress(2, 40, 40))

    assert one.totals(1010.0).left_s == 190 / 1  # and not 200 / 5


def test_the_time_left_is_unknown_where_nothing_moves_and_nothing_at_the_end() -> None:
    one = board()
    assert one.totals(1005.0).left_s is None
    written(one, progress(0, 200, 9), progress(1, 300, 9), progress(2, 50, 9))
    assert one.totals(1006.0).left_s == 0.0
