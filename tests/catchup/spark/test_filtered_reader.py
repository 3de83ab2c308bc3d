"""The records that Spark marks as wanted: as batches, exactly counted, and kept until they are committed."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from kgroup.catchup.spark.filtered_reader import ArrowBatch, FilteredReader, runs
from kgroup.catchup.spark.source import WANTED, _Bookkeeping
from kgroup.catchup.worker.chunk_counts import ChunkCount, FilteredOut
from kgroup.catchup.worker.failure import failure_of
from kgroup.cluster.reader.batches import Batch
from kgroup.groups.catchup.model import Chunk
from kgroup.model.records import LostOffsets
from kgroup.support.errors import KgroupError, NotFound

CHUNKS = (Chunk("t", 0, 10, 20, 4), Chunk("t", 0, 20, 30, 5), Chunk("t", 1, 0, 5, 2))


def row(chunk: int, offset: int, *, wanted: bool = True, **more: Any) -> dict[str, Any]:
    """A record."""
    return {
        "key": b"k" if wanted else None,
        "value": b"v%d" % offset if wanted else None,
        "topic": "t",
        "partition": {4: 0, 5: 0, 2: 1}[chunk],
        "offset": offset,
        "timestamp": 1_700_000_000_123_000,
        "timestampType": 0,
        "_chunk": chunk,
        "_end": False,
        WANTED: wanted,
        **more,
    }


def rows(chunk: int, first: int, end: int, *wanted: int) -> list[dict[str, Any]]:
    """A record at each offset of [first, end)."""
    return [row(chunk, offset, wanted=offset in wanted) for offset in range(first, end)]


def mark(chunk: int, offset: int, *lost: tuple[int, int], error: bytes | None = None) -> dict[str, Any]:
    found = [{"start": start, "end": end, "why": "gone"} for start, end in lost]
    empty = {"timestamp": None, "timestampType": None}
    return row(chunk, offset, wanted=False, _end=True, _lost=found, _error=error, **empty)


def batch(*found: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(found), schema=_Bookkeeping()._schema.append(pa.field(WANTED, pa.bool_())))


class Committed:
    """What a run has committed of its chunks; stands in for it."""

    def __init__(self) -> None:
        self.committed = {chunk.number: ChunkCount.of(chunk, None) for chunk in CHUNKS}


def reader_of(*batches: pa.RecordBatch, again: bool = True, ledger: Committed | None = None) -> FilteredReader:
    reader = FilteredReader(batches, CHUNKS, {}, timeout_s=1, again=again)
    reader.follow(ledger or Committed())  # type: ignore[arg-type]
    return reader


def read(reader: FilteredReader, chunk: Chunk, start: int | None = None) -> list[Any]:
    """Offsets, those filtered out negative, positions of empty batches as ``@20``, and what is gone as (start, end)."""
    found: list[Any] = []
    for item in reader.batches(chunk.topic, chunk.partition, chunk.start if start is None else start, chunk.end):
        if isinstance(item, LostOffsets):
            found.append((item.start, item.end))
        elif isinstance(item, FilteredOut):
            found.extend(-offset for offset in item.offsets())
        else:
            found.extend(item.offsets() if len(item) else [f"@{item.position}"])
    return found


def test_the_columns_of_a_batch() -> None:
    rows = batch(
        row(4, 10, headers=[{"key": "a", "value": b"1"}, {"key": "a", "value": None}]),
        row(4, 12, key=None, value=None, timestamp=None, timestampType=-1),
    )
    found = ArrowBatch("t", 0, rows, 13)

    assert (found.offsets(), found.keys(), found.values()) == ([10, 12], [b"k", None], [b"v10", None])
    assert found.timestamps() == [(1, 1_700_000_000_123), (0, -1)]
    assert found.headers() == [[("a", b"1"), ("a", None)], None]
    assert found.size() == 4
    assert [(one.offset, one.timestamp_ms, one.value) for one in found.records()] == [
        (10, 1_700_000_000_123, b"v10"),
        (12, None, None),
    ]
    assert [part.position for part in (found.part(0, 1), found.part(1, 2), found.part(0, 0))] == [12, 13, 10]


def test_runs() -> None:
    assert list(runs([5, 5, 7])) == [(5, 0, 2), (7, 2, 3)]
    assert list(runs([])) == []


def test_chunks_are_read_one_after_the_other_and_each_record_is_wanted_or_filtered_out() -> None:
    reader = reader_of(
        batch(*rows(4, 11, 14, 11, 13), mark(4, 20), *rows(5, 25, 26), mark(5, 30), row(2, 0)), batch(mark(2, 5))
    )

    assert [read(reader, chunk) for chunk in CHUNKS] == [[-12, 11, 13, "@20"], [-25, "@26", "@30"], [0, "@5"]]


def test_a_chunk_that_is_not_asked_for_is_passed_over() -> None:
    reader = reader_of(batch(row(4, 11), mark(4, 20), row(5, 21), mark(5, 30), row(2, 0), mark(2, 5)))

    assert read(reader, CHUNKS[2]) == [0, "@5"]


def test_rows_of_a_later_chunk_may_not_come_first() -> None:
    with pytest.raises(KgroupError, match="chunk 5 came too early"):
        read(reader_of(batch(row(4, 11), row(5, 21))), CHUNKS[0])


def test_a_later_attempt_skips_what_the_ledger_has() -> None:
    found = batch(*rows(4, 10, 18, 11, 17), mark(4, 20))

    assert read(reader_of(found), CHUNKS[0], start=16) == [-16, 17, "@20"]
    assert read(reader_of(batch(*rows(4, 10, 16, 11)), batch(mark(4, 20))), CHUNKS[0], start=16) == ["@20"]


def test_what_is_not_committed_can_be_read_once_more() -> None:
    ledger = Committed()
    first, second = batch(*rows(4, 10, 16, 11, 15), mark(4, 20)), batch(*rows(5, 21, 23, 21), mark(5, 30))
    reader = reader_of(first, second, ledger=ledger)
    whole = [[-10, -12, -13, -14, 11, 15, "@20"], [-22, 21, "@30"]]
    assert [read(reader, chunk) for chunk in CHUNKS[:2]] == whole
    ledger.committed[4] = ledger.committed[4].moved(12)

    assert [read(reader, CHUNKS[0], start=12), read(reader, CHUNKS[1])] == [[-12, -13, -14, 15, "@20"], whole[1]]
    ledger.committed[4] = ledger.committed[4].moved(20)
    assert read(reader, CHUNKS[1]) == whole[1]
    assert not [piece for piece in reader._kept if piece.chunk == 4]


def test_nothing_is_kept_where_nobody_reads_again() -> None:
    reader = reader_of(batch(row(4, 11), mark(4, 20)), again=False)

    assert read(reader, CHUNKS[0]) == [11, "@20"]
    assert not reader._kept


def test_what_is_lost_is_told_once_where_it_was() -> None:
    found = batch(mark(4, 14, (10, 14)), row(4, 15), mark(4, 20))

    assert read(reader_of(found), CHUNKS[0]) == [(10, 14), "@14", 15, "@20"]
    assert read(reader_of(found), CHUNKS[0], start=14) == ["@14", 15, "@20"]


def test_the_readers_error_comes_behind_what_was_read() -> None:
    error = pickle.dumps(failure_of(NotFound("t is gone", code="no-topic")))
    reader = reader_of(batch(row(4, 11), mark(4, 10, error=error)))
    found = reader.batches("t", 0, 10, 20)

    first = next(found)
    assert isinstance(first, Batch)
    assert first.offsets() == [11]
    with pytest.raises(NotFound, match="t is gone") as raised:
        next(found)
    assert raised.value.code == "no-topic"


def test_rows_that_end_too_early() -> None:
    with pytest.raises(KgroupError, match="ended before"):
        read(reader_of(batch(row(4, 11))), CHUNKS[0])
