"""A record as a line of JSON: the one form of ``peek``, ``--save-skipped``, ``--to-files`` and ``--to-command``.

``{"topic": "orders", "partition": 3, "offset": 17, "timestamp": "2026-11-21T02:58:51.123Z",
"timestamp_ms": 1795229931123, "key": "ord-5521", "value": {"base64": "AAEC/w=="},
"headers": [{"key": "type", "value": "refund"}]}``

Bytes are a string if they are UTF-8 (encoding it again gives the same bytes), otherwise an object with the one field
``base64``, and null if there are none. ``timestamp`` is null if the record has none, or one outside the calendar.
"""

from __future__ import annotations

import json
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, NoReturn

import msgspec

from kgroup.model.numbers import NonNegativeInt64
from kgroup.model.records import ConsumerRecord
from kgroup.support.instants import rfc3339
from kgroup.support.json_types import Bytes, Count, EpochMs, Instant, Offset

_string = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps would make an encoder for each string


_NO_HEADERS = '"headers": []'

JsonRow = tuple[int, int | None, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]] | None]
"""Offset, timestamp in ms, key, value, headers of a record."""


class ValueFormat(StrEnum):
    """How bytes are written.

    As text; the value as the JSON that it is; or all bytes as ``{"hex": ...}`` or ``{"base64": ...}``.
    """

    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    BASE64 = "base64"


class RecordHeader(msgspec.Struct, frozen=True):
    """A header of a record in a document."""

    key: Annotated[str, "The header's name."]
    value: Annotated[Any, "As a record's key."]


class RecordDocument(msgspec.Struct, frozen=True):
    """What ``json_line`` writes, as part of a larger document and with the size."""

    topic: Annotated[str, "The topic."]
    partition: Annotated[Count, "The partition."]
    offset: Annotated[Offset, "The record's offset."]
    timestamp: Annotated[Instant | None, "The record's time; null if it has none, or one outside the calendar."]
    timestamp_ms: Annotated[EpochMs | None, "The record's time; null if it has none."]
    key: Annotated[
        Any, 'A string if the bytes are UTF-8, {"base64"} if not, null without a key. --value-format changes it.'
    ]
    value: Annotated[Any, "As the key. With --value-format json the JSON value itself."]
    headers: Annotated[tuple[RecordHeader, ...], "Headers in their order."]
    size_bytes: Annotated[Bytes, "Size of the key, the value and the headers."]


class NotWritable(ValueError):
    """A record does not have the requested format; a retry is useless."""


def json_line(
    record: ConsumerRecord, form: ValueFormat = ValueFormat.TEXT, *, maybe_processed: bool | None = None
) -> bytes:
    """The record with its line end; ``maybe_processed`` is one more field. Raises NotWritable.

    With ``JSON`` the value is copied unchanged, with every digit of its numbers.
    """
    quoted = _QUOTED.get(form, _text)
    value = json_value(record.value) if form is ValueFormat.JSON else quoted(record.value)
    more = "" if maybe_processed is None else f', "maybe_processed": {_string(maybe_processed)}'
    return (
        f"{_partition(record.topic, record.partition)}{record.offset}, {_times(record.timestamp_ms)}, "
        f'"key": {quoted(record.key)}, "value": {value}, {_headers(record.headers, quoted)}{more}}}\n'
    ).encode()


def record_document(record: ConsumerRecord, form: ValueFormat = ValueFormat.TEXT) -> RecordDocument:
    """Raises NotWritable. Numbers within a JSON value may lose digits here."""
    return RecordDocument(**json.loads(json_line(record, form)), size_bytes=record.size)


def writable_format(record: ConsumerRecord, form: ValueFormat) -> ValueFormat:
    """``form``; TEXT instead of JSON for a record whose value is not JSON."""
    if form is not ValueFormat.JSON:
        return form
    try:
        json_value(record.value)
    except NotWritable:
        return ValueFormat.TEXT
    return form


def json_lines(topic: str, partition: int, rows: Iterable[JsonRow]) -> list[bytes]:
    """What ``json_line`` writes as text, for many records of a partition and twice as fast."""
    head = _partition(topic, partition)
    return [
        f'{head}{offset}, {_times(timestamp_ms)}, "key": {_text(key)}, "value": {_text(value)}, '
        f"{_headers(headers, _text) if headers else _NO_HEADERS}}}\n".encode()
        for offset, timestamp_ms, key, value, headers in rows
    ]


class _Line(msgspec.Struct, frozen=True):
    topic: str
    partition: NonNegativeInt64
    offset: NonNegativeInt64
    timestamp_ms: int | None
    key: Any
    value: Any
    headers: list[RecordHeader]


def parse_json_line(line: bytes) -> ConsumerRecord:
    """What ``json_line`` wrote as text, hex or base64, with the same bytes. Raises ValueError."""
    read = msgspec.json.decode(line, type=_Line)
    headers = tuple((header.key, _bytes(header.value)) for header in read.headers)
    return ConsumerRecord(
        read.topic, read.partition, read.offset, read.timestamp_ms, _bytes(read.key), _bytes(read.value), headers
    )


def _bytes(value: Any) -> bytes | None:
    match value:
        case None:
            return None
        case str():
            return value.encode()
        case {"base64": str() as text, **rest} if not rest:
            return a2b_base64(text, strict_mode=True)
        case {"hex": str() as text, **rest} if not rest:
            return bytes.fromhex(text)
    raise ValueError("a key, value or header is neither a string nor base64 or hex")


def _partition(topic: str, partition: int) -> str:
    return f'{{"topic": {_string(topic)}, "partition": {partition}, "offset": '


def _headers(headers: Iterable[tuple[str, bytes | None]], quoted: Callable[[bytes | None], str]) -> str:
    words = ", ".join([f'{{"key": {_string(key)}, "value": {quoted(raw)}}}' for key, raw in headers])
    return f'"headers": [{words}]'


def _times(timestamp_ms: int | None) -> str:
    if timestamp_ms is None:
        return '"timestamp": null, "timestamp_ms": null'
    second = _second(timestamp_ms // 1000)
    time = "null" if second is None else f'"{second}.{timestamp_ms % 1000:03}Z"'
    return f'"timestamp": {time}, "timestamp_ms": {timestamp_ms}'


@lru_cache(maxsize=1024)  # neighbours in a log have the same second
def _second(timestamp_s: int) -> str | None:
    text = rfc3339(timestamp_s * 1000, "seconds")
    return text and text.removesuffix("Z")


def _text(raw: bytes | None) -> str:
    try:
        return "null" if raw is None else _string(raw.decode())
    except UnicodeDecodeError:
        return _base64(raw)


def _base64(raw: bytes | None) -> str:
    return "null" if raw is None else f'{{"base64": "{b2a_base64(raw, newline=False).decode()}"}}'


def _hex(raw: bytes | None) -> str:
    return "null" if raw is None else f'{{"hex": "{raw.hex()}"}}'


_QUOTED = {ValueFormat.HEX: _hex, ValueFormat.BASE64: _base64}


def json_value(raw: bytes | None) -> str:
    """A value that is JSON, unchanged but on one line; ``null`` for a tombstone. Raises NotWritable."""
    if raw is None:
        return "null"
    try:
        text = raw.decode()
        json.loads(text, parse_constant=_no_constant, parse_int=str, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise NotWritable(f"its value is not JSON: {error}") from error
    # Raw line ends in JSON are only between tokens: inside strings they are escaped.
    return text.replace("\n", " ").replace("\r", " ").strip()


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is none of JSON's")
