"""Records as lines of JSON: any bytes, or the text or the JSON that they are."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from kgroup.catchup.worker.json_lines import NotWritable, ValueFormat, line
from kgroup.model.records import ConsumerRecord, Headers


def record(key: bytes | None, value: bytes | None, headers: Headers = ()) -> ConsumerRecord:
    return ConsumerRecord("orders", 3, 71, 1_700_000_000_000, key, value, headers)


@pytest.mark.parametrize(
    ("form", "key", "value", "written_key", "written_value"),
    [
        ("base64", b"k", b"\xff\n", "aw==", "/wo="),
        ("base64", None, None, None, None),
        ("base64", b"", b"", "", ""),
        ("text", b"k", 'ü\n"\x00'.encode(), "k", 'ü\n"\x00'),
        ("text", None, None, None, None),
        ("json", b"k", b'{"a": [1, null]}', "k", {"a": [1, None]}),
        ("json", b"k", b"null", "k", None),
        ("json", None, None, None, None),
        ("json", b"k", b'{\r\n "a":\n "b\\n"}\n', "k", {"a": "b\n"}),
    ],
)
def test_keys_and_values(
    form: str, key: bytes | None, value: bytes | None, written_key: object, written_value: object
) -> None:
    made = line(record(key, value), ValueFormat(form))

    assert made.endswith(b"\n")
    assert made.count(b"\n") == 1
    assert b"\r" not in made
    assert json.loads(made) == {
        "topic": "orders",
        "partition": 3,
        "offset": 71,
        "timestamp": 1_700_000_000_000,
        "key": written_key,
        "value": written_value,
        "headers": [],
    }


@pytest.mark.parametrize("number", ["1.10", "12345678901234567890123", "1e400", "-0.0"])
def test_json_keeps_every_digit(number: str) -> None:
    assert f'"value": {{"n": {number}}}'.encode() in line(record(None, f'{{"n": {number}}}'.encode()), ValueFormat.JSON)


def test_headers_are_base64_in_every_format_and_more_can_be_said() -> None:
    headers = (("a", b"\xff"), ("a", None))
    for form in ValueFormat:
        document = json.loads(line(record(None, b"1", headers), form, maybe_processed=True))
        assert document["headers"] == [
            {"key": "a", "value": b64encode(b"\xff").decode()},
            {"key": "a", "value": None},
        ]
        assert document["maybe_processed"] is True


@pytest.mark.parametrize(
    ("form", "key", "value", "why"),
    [
        ("text", b"k", b"\xff", "value is not UTF-8"),
        ("text", b"\xff", b"v", "key is not UTF-8"),
        ("json", b"\xff", b"1", "key is not UTF-8"),
        ("json", b"k", b"", "not JSON"),
        ("json", b"k", b"{'a': 1}", "not JSON"),
        ("json", b"k", b"NaN", "not JSON"),
        ("json", b"k", b"[-Infinity]", "not JSON"),
        ("json", b"k", b"1 2", "not JSON"),
        ("json", b"k", b"\xef\xbb\xbf1", "not JSON"),
        ("json", b"k", b"[" * 100_000, "not JSON"),
    ],
)
def test_what_is_not_in_that_format_is_refused(form: str, key: bytes, value: bytes, why: str) -> None:
    with pytest.raises(NotWritable, match=why):
        line(record(key, value), ValueFormat(form))
