"""Batches as Arrow, in the columns of Spark's own Kafka source. pyarrow is imported only on use."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kgroup.cluster.reader.batches import Batch

if TYPE_CHECKING:
    import pyarrow

DDL = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int, "
    "headers array<struct<key:string,value:binary>>"
)
"""The same columns as a schema string for Spark."""

_NO_TIME = 0
_KIND, _MS = itemgetter(0), itemgetter(1)


def schema() -> pyarrow.Schema:
    """The schema of every record batch; timestamps are in microseconds, UTC."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("topic", pa.string()),
            pa.field("partition", pa.int32()),
            pa.field("offset", pa.int64()),
            pa.field("timestamp", pa.timestamp("us", tz="UTC")),
            pa.field("timestampType", pa.int32()),
            pa.field("headers", _headers_type()),
        ]
    )


def _headers_type() -> Any:
    import pyarrow as pa

    return pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def record_batch(batch: Batch) -> pyarrow.RecordBatch:
    """The batch as Arrow."""
    import pyarrow as pa

    number, (stamps, kinds) = len(batch), _times(batch.timestamps())
    return pa.RecordBatch.from_arrays(
        [
            pa.array(batch.keys(), pa.binary()),
            pa.array(batch.values(), pa.binary()),
            pa.repeat(batch.topic, number),
            pa.repeat(pa.scalar(batch.partition, pa.int32()), number),
            pa.Array.from_buffers(pa.int64(), number, [None, pa.py_buffer(array("q", batch.offsets()))]),
            stamps,
            kinds,
            _headers(batch),
        ],
        schema=schema(),
    )


def _times(timestamps: Sequence[tuple[int, int]]) -> tuple[Any, Any]:
    """The columns ``timestamp`` and ``timestampType``. Fast path: all records have the same timestamp type."""
    import pyarrow as pa

    kinds, stamp = set(map(_KIND, timestamps)), pa.timestamp("us", tz="UTC")
    if len(kinds) == 1 and _NO_TIME not in kinds:
        ms = pa.Array.from_buffers(pa.int64(), len(timestamps), [None, pa.py_buffer(array("q", map(_MS, timestamps)))])
        # Converts ms to us without a loop in Python.
        stamps = ms.view(pa.timestamp("ms", tz="UTC")).cast(stamp)
        return stamps, pa.repeat(pa.scalar(kinds.pop() - 1, pa.int32()), len(timestamps))
    stamps = pa.array([None if kind == _NO_TIME else 1000 * ms for kind, ms in timestamps], stamp)
    return stamps, pa.array([kind - 1 for kind, _ in timestamps], pa.int32())


def _headers(batch: Batch) -> Any:
    import pyarrow as pa

    headers = batch.headers()
    if not any(headers):
        return pa.nulls(len(headers), _headers_type())
    rows = [None if had is None else [{"key": key, "value": value} for key, value in had] for had in headers]
    return pa.array(rows, _headers_type())
