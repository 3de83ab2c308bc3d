"""What Spark lets through of a part: batches, counts, and a reader that forgets only what is committed."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from kgroup.catchup.model import Chunk, LostOffsets
from kgroup.catchup.spark.sifted import SiftedBatch, VisibleCount, runs
from kgroup.catchup.spark.sifting import Feed, Sifted, delivered
from kgroup.catchup.spark.source import _Books, read_lost_offsets
from kgroup.catchup.worker.chunk_counts import ChunkCount
from kgroup.catchup.worker.failure import failure_of
from kgroup.cluster.reader.batches import Batch, LostBatchRange
from kgroup.support.errors import KgroupError, NotFound

CHUNKS = (Chunk(4, "t", 0, 10, 20), Chunk(5, "t", 0, 20, 30), Chunk(2, "t", 1, 0, 5))


def row(chunk: int, offset: int, seen: int, **more: Any) -> dict[str, Any]:
    """A record, with as many visible up to it."""
    place = {4: 0, 5: 0, 2: 1}[chunk]
    return {
        "key": b"k",
        "value": b"v%d" % offset,
        "topic": "t",
        "partition": place,
        "offset": offset,
        "timestamp": 1_700_000_000_123_000,
        "timestampType": 0,
        "_chunk": chunk,
        "_seen": seen,
        "_end": False,
        **more,
    }


def mark(chunk: int, offset: int, seen: int, *lost: tuple[int, int], error: bytes | None = None) -> dict[str, Any]:
    found = [{"start": start, "end": end, "why": "gone"} for start, end in lost]
    empty = {"key": None, "value": None, "timestamp": None, "timestampType": None}
    return row(chunk, offset, seen, _end=True, _lost=found, _error=error, **empty)


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=_Books()._schema)


class Committed:
    """What a run has committed of its chunks; stands in for it."""

    def __init__(self) -> None:
        self.committed = {chunk.number: ChunkCount.of(chunk, None) for chunk in CHUNKS}


def sifted(*batches: pa.RecordBatch, again: bool = True, begun: Mapping[int, int] | None = None) -> Sifted:
    feed = Feed()
    feed._queue.maxsize = 0
    feed.fill(batches, lambda: True)
    reader = Sifted(feed, CHUNKS, begun or {}, {}, timeout_s=1, again=again)
    reader.follow(Committed())  # type: ignore[arg-type]
    return reader


def read(reader: Sifted, chunk: Chunk, start: int | None = None) -> list[Any]:
    """Offsets, positions of empty batches as ``@20``, and what is gone as (start, end)."""
    found: list[Any] = []
    for item in reader.batches(chunk.topic, chunk.partition, chunk.start if start is None else start, chunk.end):
        if isinstance(item, LostBatchRange):
            found.append((item.start, item.end))
        else:
            found.extend(item.offsets() if len(item) else [f"@{item.position}"])
    return found


def test_the_columns_of_a_batch() -> None:
    rows = batch(
        row(4, 10, 1, headers=[{"key": "a", "value": b"1"}, {"key": "a", "value": None}]),
        row(4, 12, 3, key=None, value=None, timestamp=None, timestampType=-1),
    )
    found = SiftedBatch("t", 0, rows, 13)

    assert (found.offsets(), found.keys(), found.values()) == ([10, 12], [b"k", None], [b"v10", None])
    assert found.timestamps() == [(1, 1_700_000_000_123), (0, -1)]
    assert found.headers() == [[("a", b"1"), ("a", None)], None]
    assert (found.size(), found.visible_counts()) == (4, [1, 3])
    assert [(one.offset, one.timestamp_ms, one.value) for one in found.records()] == [
        (10, 1_700_000_000_123, b"v10"),
        (12, None, None),
    ]
    # What was filtered out between its rows is not read by its first part.
    assert [part.position for part in (found.part(0, 1), found.part(1, 2), found.part(0, 0))] == [11, 13, 0]


@pytest.mark.parametrize(
    ("position", "expected"), [(5, (0, 0)), (10, (0, 0)), (11, (1, 1)), (13, (1, 1)), (14, (4, 2)), (20, (9, 2))]
)
def test_what_was_visible_below_an_offset(position: int, expected: tuple[int, int]) -> None:
    seen = VisibleCount(10)
    seen.rows([10, 13], [1, 4])
    seen.mark(20, 9)

    assert seen.at(position) == expected
    seen.drop_below(min(position, 13))
    assert seen.at(max(position, 13)) == (expected if position > 13 else (1, 1))


def test_runs() -> None:
    assert list(runs([5, 5, 7])) == [(5, 0, 2), (7, 2, 3)]
    assert list(runs([])) == []


def test_chunks_are_read_one_after_the_other_and_ends_are_told() -> None:
    reader = sifted(
        batch(row(4, 11, 2), row(4, 15, 5), mark(4, 20, 9), mark(5, 30, 10), row(2, 0, 1)), batch(mark(2, 5, 5))
    )

    assert [read(reader, chunk) for chunk in CHUNKS] == [[11, 15, "@20"], ["@30"], [0, "@5"]]


def test_a_chunk_that_nobody_wants_any_more_is_passed_over() -> None:
    reader = sifted(batch(row(4, 11, 2), mark(4, 20, 9), row(5, 21, 1), mark(5, 30, 10), row(2, 0, 1), mark(2, 5, 5)))

    assert read(reader, CHUNKS[2]) == [0, "@5"]


def test_counts_have_what_was_filtered_out_in_front_of_the_position() -> None:
    reader = sifted(batch(row(4, 11, 2), row(4, 15, 5), mark(4, 20, 9)), begun={4: 100})
    count = ChunkCount.of(CHUNKS[0], None)
    assert reader.sift(count) == count
    known = replace(count, position=10, start=10, records=100, filtered=40)
    reader._committed = lambda: {4: known}

    assert read(reader, CHUNKS[0]) == [11, 15, "@20"]
    first = reader.sift(known.with_records(12, 1, 1, 3))
    assert (first.records, first.filtered, first.visible, first.filtered_now) == (102, 41, 2, 1)
    whole = reader.sift(first.with_records(16, 1, 1, 3).moved(20))
    assert (whole.records, whole.filtered, whole.visible, whole.delivered, whole.filtered_now) == (109, 47, 9, 2, 7)
    assert reader.sift(whole) == whole


def test_a_later_attempt_passes_over_what_the_ledger_has() -> None:
    reader = sifted(batch(row(4, 11, 2), row(4, 15, 5), row(4, 17, 6), mark(4, 20, 9)), begun={4: 100})
    known = replace(ChunkCount.of(CHUNKS[0], None), position=16, start=16, records=105, filtered=43)
    reader._committed = lambda: {4: known}

    assert read(reader, CHUNKS[0], start=16) == [17, "@20"]
    found = reader.sift(known.with_records(18, 1, 1, 3).moved(20))
    assert (found.records, found.filtered, found.visible, found.filtered_now) == (109, 46, 4, 3)


@pytest.mark.parametrize(
    "below",
    [
        [row(4, 11, 1), row(4, 15, 2)],  # compacted: three of those that were filtered out
        [row(4, 11, 1)],  # and the last one that was delivered, too
        [mark(4, 13, 0, (10, 13)), row(4, 15, 2)],
        [mark(4, 16, 0, (10, 16))],
        [],
    ],
)
def test_a_later_attempt_of_which_less_is_there_counts_on(below: list[dict[str, Any]]) -> None:
    """What the first attempt has counted stands in the ledger; what is below there now says nothing of it."""
    seen = below[-1]["_seen"] if below else 0
    later = [row(4, 17, seen + 1), row(4, 18, seen + 3), mark(4, 20, seen + 4)]
    reader = sifted(batch(*below, *later[:1]), batch(*later[1:]), begun={4: 100})
    known = replace(ChunkCount.of(CHUNKS[0], None), position=16, start=16, records=105, filtered=43)
    reader._committed = lambda: {4: known}

    assert [one for one in read(reader, CHUNKS[0], start=16) if isinstance(one, int)] == [17, 18]
    found = reader.sift(known.with_records(19, 2, 2, 6).moved(20))
    assert (found.records, found.filtered, found.visible, found.filtered_now) == (109, 45, 4, 2)


def test_what_is_not_committed_can_be_read_once_more() -> None:
    books = Committed()
    reader = sifted(batch(row(4, 11, 2), row(4, 15, 5), mark(4, 20, 9)), batch(row(5, 21, 1), mark(5, 30, 3)))
    reader.follow(books)  # type: ignore[arg-type]
    assert [read(reader, chunk) for chunk in CHUNKS[:2]] == [[11, 15, "@20"], [21, "@30"]]
    counted = reader.sift(ChunkCount.of(CHUNKS[0], None).with_records(12, 1, 1, 3))
    books.committed[4] = counted

    assert [read(reader, CHUNKS[0], start=12), read(reader, CHUNKS[1])] == [[15, "@20"], [21, "@30"]]
    assert reader.sift(counted.with_records(16, 1, 1, 3).moved(20)).records == 9
    books.committed[4] = counted.moved(20)
    assert read(reader, CHUNKS[1]) == [21, "@30"]
    assert not [piece for piece in reader._kept if piece.chunk == 4]


def test_nothing_is_kept_where_nobody_reads_again() -> None:
    reader = sifted(batch(row(4, 11, 2), mark(4, 20, 9)), again=False)

    assert read(reader, CHUNKS[0]) == [11, "@20"]
    assert not reader._kept


def test_what_is_lost_is_told_once_where_it_was() -> None:
    rows = batch(mark(4, 14, 0, (10, 14)), row(4, 15, 1), mark(4, 20, 2))

    assert read(sifted(rows), CHUNKS[0]) == [(10, 14), "@14", 15, "@20"]
    assert read(sifted(rows), CHUNKS[0], start=14) == ["@14", 15, "@20"]
    assert read_lost_offsets(rows) == [(4, LostOffsets(10, 14, "gone"))]


def test_the_readers_error_comes_behind_what_was_read() -> None:
    error = pickle.dumps(failure_of(NotFound("t is gone", code="no-topic")))
    reader = sifted(batch(row(4, 11, 2), mark(4, 10, 0, error=error)))
    found = reader.batches("t", 0, 10, 20)

    first = next(found)
    assert isinstance(first, Batch)
    assert first.offsets() == [11]
    with pytest.raises(NotFound, match="t is gone") as raised:
        next(found)
    assert raised.value.code == "no-topic"


def test_rows_that_end_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgroup.catchup.spark.sifting._STOP_HEARD_S", 0.05)

    with pytest.raises(KgroupError, match="ended before"):
        read(sifted(batch(row(4, 11, 2))), CHUNKS[0])


def test_delivery_may_end_before_the_rows_do() -> None:
    taken: list[int] = []

    def endless() -> Iterable[pa.RecordBatch]:
        while True:
            taken.append(1)
            yield batch(mark(4, 20, 0))

    assert delivered(endless(), lambda feed: feed.next().num_rows) == 1  # type: ignore[union-attr]
    assert len(taken) < 20
