"""Records as a table: every byte can be seen, and none moves the cursor."""

from __future__ import annotations

from typing import Any

import pytest

from kgroup.model.blocks import Table, Text
from kgroup.model.json_lines import ValueFormat
from kgroup.model.records import ConsumerRecord, Headers
from kgroup.output.pages.records import bytes_text, headers_text, records_blocks, value_text


def record(**changes: Any) -> ConsumerRecord:
    fields: dict[str, Any] = {
        "topic": "payments",
        "partition": 3,
        "offset": 17,
        "timestamp_ms": 1_795_229_931_123,
        "key": b"ord-5521",
        "value": b'{"amount": \xff\xfe}',
        "headers": (),
    }
    return ConsumerRecord(**(fields | changes))


def table_of(*records: ConsumerRecord, **options: Any) -> Table:
    table = records_blocks(records, **options)[0]
    assert isinstance(table, Table)
    return table


def test_a_record_is_a_row() -> None:
    table = table_of(record())

    assert [column.title for column in table.columns] == ["OFFSET", "AT", "TIME (UTC)", "KEY", "SIZE", "VALUE"]
    assert table.rows == [(17, None, "2026-11-21T02:58:51Z", "ord-5521", "22 B", r'{"amount": \xff\xfe}')]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"", '""'),
        (b"plain", "plain"),
        ("größe €".encode(), "größe €"),
        (b"\x00\xff", r"\x00\xff"),
        (b"a\x1b[31m\x07", r"a\x1b[31m\x07"),
        (b"two\nlines\r\n\t", r"two\nlines\r\n\t"),
        ("\u202e\u2028\x9b".encode(), r"\u202e\u2028\x9b"),
        (b"\xed\xa0\x80", r"\xed\xa0\x80"),
        (b"back\\slash", r"back\slash"),
    ],
)
def test_bytes_are_text_with_escapes(raw: bytes, shown: str) -> None:
    assert bytes_text(raw) == shown
    assert shown.isprintable()


@pytest.mark.parametrize(
    ("form", "shown"), [(ValueFormat.HEX, "00ff41"), (ValueFormat.BASE64, "AP9B"), (ValueFormat.JSON, r"\x00\xffA")]
)
def test_bytes_in_another_format(form: ValueFormat, shown: str) -> None:
    assert bytes_text(b"\x00\xffA", form) == shown


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b'{"a": 1.50,\n "b": "\\n"}', '{"a": 1.50,  "b": "\\n"}'),
        (b"not JSON \xff", r"not JSON \xff"),
        (b"", '""'),
        ('"\u202e"'.encode(), r'"\u202e"'),
    ],
)
def test_a_value_as_json(raw: bytes, shown: str) -> None:
    assert value_text(raw, ValueFormat.JSON) == shown


@pytest.mark.parametrize("form", list(ValueFormat))
@pytest.mark.parametrize("raw", [b"x" * 1_000_000, "€".encode() * 100_000, b"\xff" * 100_000])
def test_a_long_value_is_cut(raw: bytes, form: ValueFormat) -> None:
    text = value_text(raw, form, 50)

    assert (len(text), text[-1]) == (50, "…")
    assert value_text(raw, form).startswith(text[:-1])


@pytest.mark.parametrize("length", [49, 50, 51])
def test_a_value_is_cut_only_where_it_is_longer(length: int) -> None:
    assert (bytes_text(b"x" * length, width=50) == "x" * length) == (length <= 50)


@pytest.mark.parametrize(
    ("headers", "shown"),
    [
        ((), None),
        ((("a", b"1"), ("a", None), ("b", b"")), "a=1 a=null b="),
        ((("trace", b"\x00\x01"),), r"trace=\x00\x01"),
        ((("e\x1b", b"1"),), r"e\x1b=1"),
    ],
)
def test_headers(headers: Headers, shown: str | None) -> None:
    assert headers_text(headers) == shown


def test_headers_are_below_the_table() -> None:
    _, one = records_blocks([record(headers=(("type", b"refund"),))])
    _, two = records_blocks([record(), record(partition=4, headers=(("type", b"refund"),))])

    assert one == Text(("HEADERS of 17: type=refund",))
    assert two == Text(("HEADERS of payments:4 offset 17: type=refund",))
    assert len(records_blocks([record()])) == 1


def test_a_tombstone_an_empty_value_and_no_key() -> None:
    tombstone, empty = table_of(record(key=None, value=None), record(key=b"", value=b"")).rows

    assert [str(getattr(cell, "text", cell)) for cell in tombstone[-3:]] == ["None", "0 B", "null"]
    assert empty[-3:] == ('""', "0 B", '""')


def test_the_committed_record_is_marked_among_others() -> None:
    rows = table_of(record(offset=16), record(offset=17), committed=17).rows

    assert [row[1] for row in rows] == [None, "committed"]
    assert [row[1] for row in table_of(record(offset=17), record(offset=18), committed=17).rows] == [None, None]


def test_the_partition_is_a_column_if_there_are_several() -> None:
    table = table_of(record(), record(partition=4))

    assert table.columns[0].title == "PARTITION"
    assert [row[0] for row in table.rows] == ["payments:3", "payments:4"]
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_the_size_counts_key_value_and_headers() -> None:
    assert record(key=b"12", value=b"345", headers=(("ab", b"c"), ("d", None))).size == 9
    assert record(key=None, value=None).size == 0
    (row,) = table_of(record(value=b"x" * 626_700)).rows
    assert row[4] == "612 KiB"
