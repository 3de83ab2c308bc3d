"""A record as a line of JSON: any bytes come back as they were, and JSON values with every digit."""

from __future__ import annotations

import json

import pytest

from kgroup.model.json_lines import (
    NotWritable,
    ValueFormat,
    json_line,
    json_lines,
    parse_json_line,
    record_document,
    writable_format,
)
from kgroup.model.records import ConsumerRecord, Headers
from kgroup.support.json_line import plain
from tests.helpers.json_bytes import as_bytes


def record(
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: Headers = (),
    timestamp_ms: int | None = 1_795_229_931_123,
) -> ConsumerRecord:
    return ConsumerRecord("payments", 3, 8812337, timestamp_ms, key, value, headers)


def in_batch(one: ConsumerRecord) -> bytes:
    """The line of ``one`` as ``json_lines`` writes it."""
    row = (one.offset, one.timestamp_ms, one.key, one.value, one.headers)
    (found,) = json_lines(one.topic, one.partition, [row])
    return found


def test_a_line() -> None:
    given = record(b"ord-5521", b"\xff\x00", (("type", b"refund"), ("type", None)))

    assert json_line(given).decode() == (
        '{"topic": "payments", "partition": 3, "offset": 8812337, "timestamp": "2026-11-21T02:58:51.123Z", '
        '"timestamp_ms": 1795229931123, "key": "ord-5521", "value": {"base64": "/wA="}, '
        '"headers": [{"key": "type", "value": "refund"}, {"key": "type", "value": null}]}\n'
    )


BYTES = [
    None,
    b"",
    b"plain",
    "größe €".encode(),
    b'{"base64": "eA=="}',
    b"null",
    b"two\nlines\r\n\x00\x1b[31m\x7f",
    "\u2028\ufeff\U0001f600".encode(),
    b"\xef\xbb\xbfbom",
    b"\xff\xfe",
    b"\xed\xa0\x80",  # a surrogate, which UTF-8 does not have
    b"\xc0\x80",  # overlong
    bytes(range(256)),
]


def test_bytes_as_hex() -> None:
    found = json.loads(json_line(record(b"\xff\x00", None), ValueFormat.HEX))
    assert (found["key"], found["value"]) == ({"hex": "ff00"}, None)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b'{"topic": "t"}',
        json_line(record()).replace(b'"value": "v"', b'"value": 1'),
        json_line(record()).replace(b'"value": "v"', b'"value": {"base64": "x"}'),
        json_line(record()).replace(b'"value": "v"', b'"value": {"base64": "eA==", "b": 1}'),
        json_line(record()).replace(b'"partition": 3', b'"partition": -3'),
    ],
)
def test_what_is_no_line_of_a_record_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_json_line(line)


@pytest.mark.parametrize("form", [ValueFormat.TEXT, ValueFormat.HEX, ValueFormat.BASE64])
@pytest.mark.parametrize("data", BYTES)
def test_every_key_and_value_comes_back_as_it_was(data: bytes | None, form: ValueFormat) -> None:
    given = record(data, data, (("h\n\x00ö", data),))
    written = json_line(given, form)

    assert parse_json_line(written) == given
    assert written.count(b"\n") == 1
    found = json.loads(written)
    assert found["headers"][0]["key"] == "h\n\x00ö"
    assert as_bytes(found["key"]) == as_bytes(found["value"]) == as_bytes(found["headers"][0]["value"]) == data
    if form is ValueFormat.BASE64 and data is not None:
        assert {type(found["key"]), type(found["value"]), type(found["headers"][0]["value"])} == {dict}


@pytest.mark.parametrize("headers", [(), (("h", b"1"), ("h", b"\xff"))])
@pytest.mark.parametrize("timestamp_ms", [None, 0, 1_795_229_931_123])
def test_a_batch_has_the_same_lines(headers: Headers, timestamp_ms: int | None) -> None:
    for data in BYTES:
        one = record(data, data, headers, timestamp_ms)
        assert in_batch(one) == json_line(one)


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (None, None),
        (0, "1970-01-01T00:00:00.000Z"),
        (999, "1970-01-01T00:00:00.999Z"),
        (-1, None),
        (2**63 - 1, None),
        (1_795_229_931_123_000, None),  # microseconds: a frequent mistake
    ],
)
def test_times(timestamp_ms: int | None, text: str | None) -> None:
    found = json.loads(json_line(record(timestamp_ms=timestamp_ms)))

    assert (found["timestamp"], found["timestamp_ms"]) == (text, timestamp_ms)


@pytest.mark.parametrize(
    ("key", "value", "written_key", "written_value"),
    [
        (b"k", b'{"a": [1, null]}', "k", {"a": [1, None]}),
        (b"k", b"null", "k", None),
        (None, None, None, None),
        (b"k", b'{\r\n "a":\n "b\\n"}\n', "k", {"a": "b\n"}),
        (b"\xff", b"1", {"base64": "/w=="}, 1),
    ],
)
def test_json_values(key: bytes | None, value: bytes | None, written_key: object, written_value: object) -> None:
    made = json_line(record(key, value), ValueFormat.JSON, maybe_processed=True)

    assert made.count(b"\n") == 1
    assert b"\r" not in made
    found = json.loads(made)
    assert (found["key"], found["value"], found["maybe_processed"]) == (written_key, written_value, True)


@pytest.mark.parametrize("number", ["1.10", "12345678901234567890123", "1e400", "-0.0"])
def test_json_keeps_every_digit(number: str) -> None:
    given = record(None, f'{{"n": {number}}}'.encode())

    assert f'"value": {{"n": {number}}}'.encode() in json_line(given, ValueFormat.JSON)


@pytest.mark.parametrize(
    "value", [b"", b"\xff", b"{'a': 1}", b"NaN", b"[-Infinity]", b"1 2", b"\xef\xbb\xbf1", b"[" * 100_000]
)
def test_a_value_that_is_not_json_is_refused(value: bytes) -> None:
    with pytest.raises(NotWritable, match="not JSON"):
        json_line(record(b"k", value), ValueFormat.JSON)


@pytest.mark.parametrize("form", list(ValueFormat))
def test_a_document_has_the_fields_of_a_line_and_the_size(form: ValueFormat) -> None:
    given = record(value=b'{"a": [1]}', headers=(("type", b"x"),))
    assert plain(record_document(given, form)) == json.loads(json_line(given, form)) | {"size_bytes": 16}


@pytest.mark.parametrize(
    ("value", "written"),
    [(b'{"a": 1}', ValueFormat.JSON), (b"{", ValueFormat.TEXT), (b"\xff", ValueFormat.TEXT), (None, ValueFormat.JSON)],
)
def test_a_value_that_is_not_json_can_be_written_as_text(value: bytes | None, written: ValueFormat) -> None:
    assert writable_format(record(value=value), ValueFormat.JSON) is written
    assert writable_format(record(value=value), ValueFormat.HEX) is ValueFormat.HEX
