"""What is counted of the rows that pass through, and of rows that do not."""

from __future__ import annotations

from itertools import islice

import pyarrow as pa
import pytest

from kgroup.catchup.worker.record_counter import ChunkSpan, Counts, RecordPlace, counter

CHUNKS: tuple[ChunkSpan, ...] = ((0, "orders", 0, 10, 20), (1, "orders", 0, 20, 30), (2, "orders", 1, 10, 20))


def batch(topic: str, partition: int, offsets: range, value: bytes | None = b"four") -> pa.RecordBatch:
    rows = [
        {"key": b"k", "value": value, "topic": topic, "partition": partition, "offset": offset} for offset in offsets
    ]
    schema = {"key": pa.binary(), "value": pa.binary(), "topic": pa.string(), "partition": pa.int32()}
    return pa.RecordBatch.from_pylist(rows, pa.schema([*schema.items(), ("offset", pa.int64())]))


@pytest.mark.parametrize(
    ("batches", "first", "counts"),
    [
        ([batch("orders", 0, range(10, 20))], ("orders", 0, 10), {0: (10, 50)}),
        (
            [batch("orders", 0, range(15, 25)), batch("orders", 0, range(25, 30))],
            ("orders", 0, 15),
            {0: (5, 25), 1: (10, 50)},
        ),
        ([batch("orders", 1, range(10, 12), None)], ("orders", 1, 10), {2: (2, 2)}),
        ([batch("orders", 0, range(0)), batch("orders", 0, range(19, 20))], ("orders", 0, 19), {0: (1, 5)}),
    ],
)
def test_each_record_is_counted_in_its_chunk(batches: list[pa.RecordBatch], first: RecordPlace, counts: Counts) -> None:
    told: list[tuple[RecordPlace, Counts]] = []

    passed = list(counter(CHUNKS, lambda *one: told.append(one))(batches))

    assert (passed, told) == (batches, [(first, counts)])


@pytest.mark.parametrize("batches", [[], [batch("orders", 0, range(0))]])
def test_no_rows_are_no_count(batches: list[pa.RecordBatch]) -> None:
    told: list[tuple[RecordPlace, Counts]] = []

    assert list(counter(CHUNKS, lambda *one: told.append(one))(batches)) == batches
    assert told == []


def test_rows_that_are_not_read_to_their_end_are_no_count() -> None:
    """As Spark does with a limit."""
    told: list[tuple[RecordPlace, Counts]] = []
    rows = counter(CHUNKS, lambda *one: told.append(one))(iter([batch("orders", 0, range(10, 20))] * 2))

    assert len(list(islice(rows, 1))) == 1
    del rows
    assert told == []
