"""Counts the records that pass through a worker, by chunk. It needs pyarrow alone, and imports it in functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

ChunkSpan = tuple[int, str, int, int, int]
"""A chunk: number, topic, partition, start, end."""

RecordPlace = tuple[str, int, int]
"""Topic, partition, offset."""

Counts = Mapping[int, tuple[int, int]]
"""By number of the chunk: records, and the size of their keys and values in bytes."""


def counter(
    chunks: Sequence[ChunkSpan], counted: Callable[[RecordPlace, Counts], None]
) -> Callable[[Iterable[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    """A function for ``mapInArrow`` that passes all rows on. ``counted`` gets what was in them, and the first record.

    That tells a part which is read again, as a task is tried again, from another part. It is not called if the rows are
    not read to their end, or are none.
    """

    def count(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        first: RecordPlace | None = None
        counts: dict[int, tuple[int, int]] = {}
        for batch in batches:
            if batch.num_rows:
                topic, partition, offset = (batch.column(name)[0].as_py() for name in ("topic", "partition", "offset"))
                first = first or (topic, partition, offset)
                _add(counts, batch, [one for one in chunks if one[1:3] == (topic, partition)])
            yield batch
        if first is not None:
            counted(first, counts)

    return count


def _add(counts: dict[int, tuple[int, int]], batch: pyarrow.RecordBatch, chunks: Sequence[ChunkSpan]) -> None:
    """Count a batch, whose records are of one partition."""
    import pyarrow.compute as compute

    offsets: Any = batch.column("offset")
    for number, _, _, start, end in chunks:
        rows = batch.filter(compute.and_(compute.greater_equal(offsets, start), compute.less(offsets, end)))
        if rows.num_rows:
            size = sum(compute.sum(compute.binary_length(rows.column(name))).as_py() or 0 for name in ("key", "value"))
            records, before = counts.get(number, (0, 0))
            counts[number] = (records + rows.num_rows, before + size)
