"""``kgroup peek``: the records at committed offsets, through the command line; nothing is committed."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.terminals import Terminal

Name = Callable[[str], str]
PILL = b'{"amount": \xff\xfe\x1b[31m}'
START_MS = 1_795_229_931_123


@dataclass(frozen=True)
class Shop:
    """A topic of two partitions and ten records each; the group has read all of 0, and is at 4 in 1: the pill."""

    topic: str
    group: str


@pytest.fixture
def shop(world: KafkaWorld, bootstrap: str, name: Name) -> Shop:
    topic, group = world.topic(name("pay"), partitions=2), name("svc")
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(2):
        for offset in range(10):
            pill = (number, offset) == (1, 4)
            producer.produce(
                topic,
                PILL if pill else b'{"amount": 1.50}',
                f"ord-{offset}",
                number,
                timestamp=START_MS + offset,
                headers=[("trace", b"\x00\x1b"), ("type", b"refund"), ("none", None)] if pill else None,
            )
    assert producer.flush(30) == 0
    world.commit(group, {(topic, 0): 10, (topic, 1): 4})
    return Shop(topic, group)


def offsets(lines: str) -> list[int]:
    return [json.loads(line)["offset"] for line in lines.splitlines()]


# What it shows


def test_a_pipe_gets_a_line_of_json_per_record(kgroup: CommandLine, shop: Shop) -> None:
    result = kgroup("peek", shop.group, "-n", "2")

    pill, after = map(json.loads, result.stdout.splitlines())
    assert pill == {
        "topic": shop.topic,
        "partition": 1,
        "offset": 4,
        "timestamp": "2026-11-21T02:58:51.127Z",
        "timestamp_ms": START_MS + 4,
        "key": "ord-4",
        "value": {"base64": "eyJhbW91bnQiOiD//htbMzFtfQ=="},
        "headers": [
            {"key": "trace", "value": "\x00\x1b"},
            {"key": "type", "value": "refund"},
            {"key": "none", "value": None},
        ],
    }
    assert (after["offset"], after["value"]) == (5, '{"amount": 1.50}')


def test_a_terminal_gets_a_table_without_a_raw_byte(kgroup: CommandLine, shop: Shop) -> None:
    with Terminal.kgroup("peek", shop.group, "-n", "1", columns=120) as terminal:
        shown = terminal.ends(0)

    assert "OFFSET" in shown
    assert r'{"amount": \xff\xfe\x1b[31m}' in shown
    assert r"HEADERS of 4: trace=\x00\x1b type=refund none=null" in shown
    assert "\x1b[31m" not in terminal.raw
    assert "committed 4, log 0 to 10" in shown


def test_which_records(kgroup: CommandLine, shop: Shop) -> None:
    expected = {
        "--before 2 -n 1": [2, 3, 4],
        "--before 9 -n 1": [0, 1, 2, 3, 4],
        "--offset 7": [7, 8, 9],
        "--offset 7 -n 100": [7, 8, 9],
        "--offset earliest -n 2": [0, 1],
        "--offset latest -n 2": [8, 9],
        "--offset latest --before 1": [9],
        "--offset 10": [],
    }
    words = ("peek", shop.group, "--topic", f"{shop.topic}:1")
    assert {options: offsets(kgroup(*words, *options.split()).stdout) for options in expected} == expected


def test_a_partition_without_a_group(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    groups = set(world.groups())

    last = kgroup("peek", f"{shop.topic}:0")
    assert (offsets(last.stdout), last.stderr) == ([7, 8, 9], "")
    assert offsets(kgroup("peek", f"{shop.topic}:0,1", "-n", "1").stdout) == [9, 9]
    (one,) = kgroup("peek", f"{shop.topic}:1", "--offset", "4", "-n", "1", "-o", "json").data
    assert (one["group"], one["committed"], one["offset"]) == (None, None, 4)
    assert set(world.groups()) == groups


def test_nothing_is_committed(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    before, groups = world.exact(shop.group), set(world.groups())
    kgroup("peek", shop.group, "--before", "2", "-n", "5")
    assert world.exact(shop.group) == before
    assert set(world.groups()) == groups


@pytest.mark.parametrize(
    ("form", "pill", "other"),
    [
        ("text", {"base64": "eyJhbW91bnQiOiD//htbMzFtfQ=="}, '{"amount": 1.50}'),
        ("json", {"base64": "eyJhbW91bnQiOiD//htbMzFtfQ=="}, {"amount": 1.5}),
        ("hex", {"hex": PILL.hex()}, {"hex": b'{"amount": 1.50}'.hex()}),
        ("base64", {"base64": "eyJhbW91bnQiOiD//htbMzFtfQ=="}, {"base64": "eyJhbW91bnQiOiAxLjUwfQ=="}),
    ],
)
def test_value_formats(kgroup: CommandLine, shop: Shop, form: str, pill: object, other: object) -> None:
    result = kgroup("peek", shop.group, "-n", "2", "--value-format", form)

    assert [json.loads(line)["value"] for line in result.stdout.splitlines()] == [pill, other]
    assert ("not JSON, written as text: the value at offset 4" in result.stderr) == (form == "json")
    document = kgroup("peek", shop.group, "-n", "2", "--value-format", form, "-o", "json")
    assert [record["value"] for record in document.data[0]["records"]] == [pill, other]


def test_records_in_a_file(kgroup: CommandLine, shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    shown = kgroup("peek", shop.group, "--to", str(file)).stdout
    assert f"3 records written to {file}." in shown
    assert offsets(file.read_text()) == [4, 5, 6]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "is there already" in kgroup("peek", shop.group, "--to", str(file), exit_code=2).stderr
    assert "-o jsonl" in kgroup("peek", shop.group, "--to", "-", exit_code=2).stderr
    assert offsets(file.read_text()) == [4, 5, 6]


# Which partitions


def test_a_group_that_has_read_everything(kgroup: CommandLine, world: KafkaWorld, shop: Shop, name: Name) -> None:
    done = name("done")
    world.commit(done, {(shop.topic, 0): 10})
    result = kgroup("peek", done)
    assert result.stdout == ""
    assert "has read all records" in result.stderr
    table = kgroup("peek", done, "--topic", shop.topic + ":0", "-o", "table", "--before", "1").stdout
    assert "No record is at offset 10 yet" in table
    assert "ord-9" in table


# Errors


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "name a group or a partition"),
        (("svc", "--group", "other"), "mutually exclusive"),
        (("orders:1", "--topic", "orders"), "--topic requires a group"),
        (("svc", "--offset", "x"), "is not an offset"),
        (("orders:1,2", "--offset", "5", "-b", "127.0.0.1:1"), None),
        (("svc", "-n", "0"), "-n"),
        (("svc", "--before", "-1"), "--before"),
        (("svc", "--value-format", "xml"), "--value-format"),
    ],
)
def test_what_makes_no_sense(kgroup_cli: CommandLine, words: tuple[str, ...], text: str | None) -> None:
    result = kgroup_cli("peek", *words, "--timeout", "1s", exit_code=None)
    assert result.exit_code == (3 if text is None else 2)
    assert text is None or text in result.stderr


def test_what_does_not_exist(kgroup: CommandLine, world: KafkaWorld, shop: Shop, name: Name) -> None:
    assert "no group" in kgroup("peek", name("none"), exit_code=5).stderr
    topic = kgroup("peek", shop.topic, exit_code=5).stderr
    assert f"kgroup peek {shop.topic}:0" in topic
    missing = kgroup("peek", f"{name('none')}:0", "-o", "json", exit_code=5)
    assert [error["code"] for error in missing.json["errors"]] == ["unknown-topic"]
    assert f"{shop.topic} is a topic" in kgroup("peek", f"{shop.topic}:0-1", exit_code=5).stderr
    (error,) = kgroup("peek", f"{shop.topic}:9", "-o", "json", exit_code=5).json["errors"]
    assert (error["partition"], error["code"]) == (9, "unknown-partition")
    assert error["message"] == f"there is no such partition; {shop.topic} has 2"
    uncommitted = kgroup("peek", shop.group, "--topic", f"{shop.topic}:9", "-o", "json", exit_code=5)
    assert uncommitted.json["errors"][0]["topic"] == shop.topic


def test_one_offset_is_for_one_partition(kgroup: CommandLine, shop: Shop) -> None:
    assert "requires one partition" in kgroup("peek", f"{shop.topic}:0,1", "--offset", "5", exit_code=2).stderr


def test_values_are_not_logged(kgroup: CommandLine, shop: Shop, tmp_path: Path) -> None:
    log = tmp_path / "debug.log"
    kgroup("peek", shop.group, "--before", "2", "--debug", str(log), "-o", "table")
    assert log.stat().st_size > 0
    logged = log.read_bytes()
    for part in (b"amount", b"ord-4", b"refund", PILL):
        assert part not in logged
