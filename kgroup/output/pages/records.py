"""Records as a table: of ``kgroup peek``, and of what a reset skips. No byte of a record reaches the terminal raw."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence

from kgroup.model.blocks import Block, Cell, Column, Styled, Table, Text
from kgroup.model.json_lines import NotWritable, ValueFormat, json_value
from kgroup.model.records import ConsumerRecord, Headers
from kgroup.support.instants import rfc3339
from kgroup.support.quoting import visible
from kgroup.support.units import human_bytes

VALUE_WIDTH = 200
"""The characters of a value, a key or all headers that a page shows; SIZE has the size of all of it."""

_COLUMNS = (
    Column("PARTITION", fold=True),
    Column("OFFSET", right=True),
    Column("AT"),
    Column("TIME (UTC)"),
    Column("KEY", fold=True),
    Column("SIZE", right=True),
    Column("VALUE", fold=True),
)
_OF_SHARES = {"AT": Column("DELIVERIES")}
_SPARSE = frozenset({"AT", "KEY"})
_MOST_BYTES_PER_CHARACTER = 4


def records_blocks(
    records: Sequence[ConsumerRecord],
    form: ValueFormat = ValueFormat.TEXT,
    *,
    committed: int | None = None,
    width: int | None = VALUE_WIDTH,
    deliveries: Mapping[int, str] | None = None,
) -> tuple[Block, ...]:
    """A table with one row per record, and below it the headers, for which a row has no room.

    The partition is a column if there are several. ``committed`` marks the record at that offset, unless it is the
    first one. ``width`` None shows whole values. ``deliveries`` are words by offset, of a share group's records.
    """
    marks = dict(deliveries or {})
    if committed is not None and records and records[0].offset != committed:
        marks[committed] = "committed"
    rows = [_row(record, form, marks.get(record.offset), width) for record in records]
    several = len({record.tp for record in records}) > 1
    first = 0 if several else 1
    columns = _COLUMNS if deliveries is None else tuple(_OF_SHARES.get(each.title, each) for each in _COLUMNS)
    table = Table(columns[first:], [row[first:] for row in rows], sparse=_SPARSE)
    headers = tuple(
        f"HEADERS of {f'{record.tp} offset ' if several else ''}{record.offset}: {text}"
        for record in records
        if (text := headers_text(record.headers, form, width)) is not None
    )
    return (table, Text(headers)) if headers else (table,)


def bytes_text(raw: bytes, form: ValueFormat = ValueFormat.TEXT, width: int | None = None) -> str:
    """Printable text: UTF-8 with escapes for all other bytes (``\\xff``) and unprintable characters (``\\n``).

    A backslash stays as it is; hex and base64 are exact. Nothing is ``""``, so that it is visible.
    """
    if raw == b"":
        return '""'
    # Not all of a megabyte, of which a line is shown.
    part = raw if width is None else raw[: (width + 1) * _MOST_BYTES_PER_CHARACTER]
    match form:
        case ValueFormat.HEX:
            text = part.hex()
        case ValueFormat.BASE64:
            text = b64encode(part).decode()
        case _:
            text = visible(part.decode(errors="backslashreplace"))
    return _cut(text, width)


def value_text(raw: bytes, form: ValueFormat, width: int | None = None) -> str:
    """A value as text for the terminal, at most so wide: as JSON on one line where it is JSON."""
    if form is ValueFormat.JSON:
        try:
            return _cut(visible(json_value(raw)), width)
        except NotWritable:
            pass
    return bytes_text(raw, form, width)


def headers_text(headers: Headers, form: ValueFormat = ValueFormat.TEXT, width: int | None = None) -> str | None:
    """``type=refund trace=null``; None without headers."""
    words = [
        f"{visible(name)}={'null' if raw is None else '' if raw == b'' else bytes_text(raw, form, width)}"
        for name, raw in headers
    ]
    return _cut(" ".join(words), width) if words else None


def _row(record: ConsumerRecord, form: ValueFormat, mark: str | None, width: int | None) -> tuple[Cell, ...]:
    return (
        f"{record.tp}",
        record.offset,
        mark,
        rfc3339(record.timestamp_ms, "seconds"),
        None if record.key is None else bytes_text(record.key, form, width),
        human_bytes(record.size),
        Styled("null", "dim") if record.value is None else value_text(record.value, form, width),
    )


def _cut(text: str, width: int | None) -> str:
    return text if width is None or len(text) <= width else text[: width - 1] + "…"
