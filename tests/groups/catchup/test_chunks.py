"""Chunks tile the ranges exactly, and tasks hold every chunk once, whatever the gap looks like."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from kgroup.groups.catchup.chunks import (
    CHUNK_BYTES,
    CHUNK_RECORDS,
    MOST_CHUNKS,
    TRANSACTION_S,
    RateLimit,
    assign_to_tasks,
    cut_into_chunks,
    group_chunks,
)
from kgroup.groups.catchup.model import Chunk, GapRange, Order
from tests.helpers.catchup.plans import gap_range
from tests.helpers.for_each import for_each

MIB = 1024 * 1024


def sizes(*ranges: GapRange, parallelism: int = 1, rate: RateLimit | None = None) -> list[int]:
    return [chunk.end - chunk.start for chunk in cut_into_chunks(ranges, parallelism=parallelism, rate=rate)]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (gap_range(start=70, end=120), [50]),
        (gap_range(start=120, end=120), []),
        (gap_range(start=0, end=1_000_000), [250_000] * 4),
        (gap_range(start=0, end=1_000_001), [200_000] * 4 + [200_001]),
        (gap_range(start=0, end=1_000_000, size=100_000_000), [250_000] * 4),
        (gap_range(start=0, end=1_000_000, size=1_000_000_000), [100_000] * 10),
        # Half of it is holes.
        (gap_range(start=0, end=1_000_000, records=500_000), [500_000] * 2),
        (gap_range(start=0, end=1_000_000, records=0), [1_000_000]),
        # Three records of 1 GB: a chunk has an offset at least.
        (gap_range(start=0, end=3, size=3_000_000_000), [1, 1, 1]),
        # 850 MiB in one partition.
        (gap_range(start=41_203_377, end=42_073_621, size=850 * MIB), [96_693] * 2 + [96_694] * 7),
    ],
)
def test_how_a_range_is_cut(item: GapRange, expected: list[int]) -> None:
    assert sorted(sizes(item)) == sorted(expected)


def test_a_small_gap_is_still_enough_work_for_all() -> None:
    one = gap_range(start=0, end=200_000)

    assert sizes(one) == [200_000]
    assert sizes(one, parallelism=4) == [12_500] * 16
    assert sizes(gap_range(start=0, end=20_000), parallelism=4) == [10_000] * 2


@pytest.mark.parametrize(
    ("rate", "parallelism", "most"),
    [
        (RateLimit(records_per_s=100.0), 1, 100 * TRANSACTION_S),
        (RateLimit(records_per_s=100.0), 8, 100 * TRANSACTION_S / 8),
        (RateLimit(bytes_per_s=10_000.0), 1, 10_000 * TRANSACTION_S / 100),
        (RateLimit(records_per_s=0.001), 1, 1_000_000 / MOST_CHUNKS * 2),
    ],
)
def test_a_chunk_is_read_within_a_transaction_under_a_rate(rate: RateLimit, parallelism: int, most: float) -> None:
    found = sizes(gap_range(start=0, end=1_000_000, size=100_000_000), parallelism=parallelism, rate=rate)

    assert max(found) <= most
    assert len(found) <= MOST_CHUNKS
    assert sum(found) == 1_000_000


def random_ranges(pick: random.Random) -> list[GapRange]:
    ranges = []
    for number in range(pick.randrange(1, 12)):
        offset = pick.randrange(10**9)
        for _ in range(pick.choice([1, 1, 1, 2])):
            length = pick.choice([0, 1, pick.randrange(1_000), pick.randrange(3_000_000)])
            records = pick.choice([None, length, pick.randrange(length + 1)])
            size = pick.choice([None, pick.randrange(10**9)])
            topic = pick.choice(["a", "b"])
            ranges.append(gap_range(number, offset, offset + length, topic=topic, records=records, size=size))
            offset += length + pick.randrange(100)
    return ranges


@for_each("seed", range(60))
def test_chunks_tile_the_ranges_exactly(seed: int) -> None:
    pick = random.Random(seed)
    ranges = random_ranges(pick)
    rate = pick.choice([None, RateLimit(records_per_s=pick.uniform(0.1, 10_000)), RateLimit(bytes_per_s=10**5)])
    parallelism = pick.choice([1, 2, 16])

    chunks = cut_into_chunks(ranges, parallelism=parallelism, rate=rate)

    assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
    left = list(chunks)
    for item in ranges:
        at = item.start
        while at < item.end:
            chunk = left.pop(0)
            assert (chunk.topic, chunk.partition, chunk.start) == (item.topic, item.partition, at)
            assert chunk.end > chunk.start
            at = chunk.end
        assert at == item.end
    assert left == []
    assert len(chunks) <= MOST_CHUNKS
    assert chunks == cut_into_chunks(ranges, parallelism=parallelism, rate=rate)


@for_each("seed", range(60))
def test_tasks_hold_every_chunk_once_and_in_order(seed: int) -> None:
    pick = random.Random(seed)
    ranges = random_ranges(pick)
    chunks = cut_into_chunks(ranges)
    order, parallelism = pick.choice(list(Order)), pick.randrange(1, 20)

    tasks = assign_to_tasks(ranges, chunks, order, parallelism)

    assert sorted(number for task in tasks for number in task.chunks) == [chunk.number for chunk in chunks]
    assert [task.number for task in tasks] == list(range(len(tasks)))
    assert all(task.chunks for task in tasks)
    by_number = {chunk.number: chunk for chunk in chunks}
    for task in tasks:
        held = [by_number[number] for number in task.chunks]
        for one, other in pairwise(held):
            assert one.end <= other.start or one.tp != other.tp
    partitions = {chunk.tp for chunk in chunks}
    if order is Order.NONE:
        assert len(tasks) <= parallelism
    else:
        assert len(tasks) == min(len(partitions), 4 * parallelism)
        taken = [tp for task in tasks for tp in {by_number[number].tp for number in task.chunks}]
        assert sorted(taken) == sorted(partitions), "a partition is in one task"
    assert tasks == assign_to_tasks(ranges, chunks, order, parallelism)


def test_without_order_a_skewed_gap_is_dealt_out_evenly() -> None:
    ranges = [gap_range(0, 0, 9_000_000), *(gap_range(number, 0, 100_000) for number in range(1, 10))]
    chunks = cut_into_chunks(ranges)
    length = {chunk.number: chunk.end - chunk.start for chunk in chunks}

    loads = [sum(length[number] for number in task.chunks) for task in assign_to_tasks(ranges, chunks, Order.NONE, 4)]

    assert len(loads) == 4
    assert max(loads) - min(loads) <= CHUNK_RECORDS


def test_the_heaviest_partition_is_begun_first() -> None:
    ranges = [gap_range(0, 0, 10), gap_range(1, 0, 1_000_000, size=1), gap_range(2, 0, 500_000)]
    chunks = cut_into_chunks(ranges)

    def first_places(order: Order) -> list[int]:
        return [chunks[task.chunks[0]].partition for task in assign_to_tasks(ranges, chunks, order, 2)]

    assert first_places(Order.PARTITION) == [1, 2, 0]
    assert first_places(Order.KEY) == [1, 2, 0]


def test_bytes_count_where_they_are_known() -> None:
    ranges = [gap_range(0, 0, 10, size=9 * CHUNK_BYTES), gap_range(1, 0, 1_000, size=10)]
    chunks = cut_into_chunks(ranges)

    assert [chunks[task.chunks[0]].partition for task in assign_to_tasks(ranges, chunks, Order.PARTITION, 1)] == [0, 1]


def test_no_chunks_are_no_tasks() -> None:
    assert assign_to_tasks([], [], Order.NONE, 4) == ()
    assert (
        assign_to_tasks([gap_range(start=5, end=5)], cut_into_chunks([gap_range(start=5, end=5)]), Order.PARTITION, 4)
        == ()
    )


def test_ranges_of_one_partition_make_one_task_by_offset() -> None:
    late, early = gap_range(0, 200, 300, None), gap_range(0, 70, 120, None)
    chunks = cut_into_chunks([late, early])

    assert chunks == (Chunk("orders", 0, 200, 300, 0), Chunk("orders", 0, 70, 120, 1))
    (task,) = assign_to_tasks([late, early], chunks, Order.PARTITION, 8)
    assert task.chunks == (1, 0)


@pytest.mark.parametrize(
    ("size", "groups"),
    [
        (3, [(0, 2, 5), (1, 3, 4)]),
        (4, [(0, 2, 5, 1), (3, 4)]),
        (9, [(0, 2, 5, 1, 3, 4)]),
    ],
)
def test_groups_have_the_first_chunk_of_every_partition_before_the_second_of_any(
    size: int, groups: list[tuple[int, ...]]
) -> None:
    starts = [(0, 0), (0, 10), (1, 0), (1, 10), (1, 20), (2, 0)]
    chunks = [Chunk("t", partition, start, start + 10, number) for number, (partition, start) in enumerate(starts)]

    assert [(task.number, task.chunks) for task in group_chunks(chunks, size)] == list(enumerate(groups))
