"""What ``kgroup peek`` reads: tables of cases."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from kgroup.groups.peek import (
    LogEdge,
    PeekedPartition,
    PeekRequest,
    PeekTarget,
    ReadableLog,
    ReadWindow,
    empty_ranges,
    lines_of,
    parse_partitions,
    parse_peek_offset,
    resolve_offset,
    select_partitions,
    windows_before,
)
from kgroup.groups.reset_targets import TopicChoice
from kgroup.groups.stuck_record import StuckRecord
from kgroup.model.commit import Commit
from kgroup.model.groups import LogRange, Partition, RowError
from kgroup.model.json_lines import ValueFormat
from kgroup.model.records import ConsumerRecord
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import ExitCode, UsageError
from kgroup.support.json_line import one_line_json

LOG = ReadableLog(100, 200, 180)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        (None, None),
        ("0", 0),
        ("4711", 4711),
        ("9223372036854775807", 2**63 - 1),
        ("earliest", LogEdge.EARLIEST),
        ("latest", LogEdge.LATEST),
    ],
)
def test_offsets(text: str | None, offset: Any) -> None:
    assert parse_peek_offset(text) == offset


@pytest.mark.parametrize("text", ["", "-", "x", "1.5", "\u0661", "9223372036854775808", "end", "1,2"])
def test_no_offsets(text: str) -> None:
    with pytest.raises(UsageError, match="is not an offset"):
        parse_peek_offset(text)


def test_the_last_records_as_kcat_names_them() -> None:
    with pytest.raises(UsageError) as raised:
        parse_peek_offset("-5")
    assert raised.value.hint == "The last records: --offset latest --before 5"


@pytest.mark.parametrize(
    ("word", "partitions"),
    [
        ("orders:3", [("orders", 3)]),
        ("a.b_c-d:0,2", [("a.b_c-d", 0), ("a.b_c-d", 2)]),
        ("orders", None),
        ("orders:", None),
        (":3", None),
        ("orders:x", None),
        ("my group:3", None),
        ("a:b:3", None),
        ("größe:3", None),
    ],
)
def test_a_partition_and_a_group(word: str, partitions: list[tuple[str, int]] | None) -> None:
    found = parse_partitions(word)
    assert (None if found is None else list(found)) == partitions


def partition(number: int, committed: int | None, end: int = 200, topic: str = "orders") -> Partition:
    commit = None if committed is None else Commit(committed, None, "")
    return Partition(TopicPartition(topic, number), commit, LogRange(100, end), None, None)


PARTITIONS = [
    partition(0, 200),
    partition(1, 190),
    partition(2, 150),
    partition(3, None),
    partition(4, 300),
    partition(0, 150, topic="audit"),
]


@pytest.mark.parametrize(
    ("topics", "stuck", "names"),
    [
        (None, [], ["audit:0", "orders:2", "orders:1", "orders:4"]),
        (None, [("orders", 1), ("audit", 0)], ["orders:1", "audit:0"]),
        ([TopicChoice("audit", None)], [("orders", 1)], ["audit:0"]),
        ([TopicChoice("orders", (3, 0, 9))], [], ["orders:0", "orders:3"]),
        ([TopicChoice("none", None)], [], []),
    ],
)
def test_which_partitions(topics: list[TopicChoice] | None, stuck: list[tuple[str, int]], names: list[str]) -> None:
    found = select_partitions(PARTITIONS, topics, [TopicPartition(*tp) for tp in stuck])
    assert [str(p.tp) for p in found] == names


@pytest.mark.parametrize(
    ("offset", "committed", "resolved"),
    [
        (None, 150, 150),
        (None, 100, 100),
        (None, 200, 200),
        (None, None, "no-commit"),
        (None, 99, "below-log-start"),
        (None, 201, "above-log-end"),
        (99, 150, "below-log-start"),
        (201, None, "above-log-end"),
        (120, None, 120),
        (LogEdge.EARLIEST, 99, 100),
        (LogEdge.LATEST, 150, 180),
    ],
)
def test_where_it_reads(offset: Any, committed: int | None, resolved: int | str) -> None:
    found = resolve_offset(PeekTarget("orders", 3, "svc", committed), LOG, PeekRequest(offset))
    if isinstance(resolved, int):
        assert found == resolved
    else:
        assert isinstance(found, RowError)
        assert (found.code, found.group, found.topic, found.partition) == (resolved, "svc", "orders", 3)
        assert found.exit_code is ExitCode.NOT_FOUND
        assert found.hint is not None
        assert "--offset" in found.hint


@pytest.mark.parametrize(
    ("request_", "before"),
    [
        (PeekRequest(count=3), 0),
        (PeekRequest(before=2, count=3), 2),
        (PeekRequest(LogEdge.LATEST, count=3), 3),
        (PeekRequest(LogEdge.LATEST, before=1, count=3), 1),
        (PeekRequest(LogEdge.EARLIEST, count=3), 0),
    ],
)
def test_how_many_records_before(request_: PeekRequest, before: int) -> None:
    assert request_.records_before == before


@pytest.mark.parametrize(
    ("committed", "offset", "before", "shown"),
    [(100, 100, True, 1), (100, 100, False, 0), (100, 105, True, 1), (100, 90, True, 11), (100, 20, True, 20)],
)
def test_it_begins_where_the_group_may_be_stuck(committed: int, offset: int, before: bool, shown: int) -> None:
    target = PeekTarget("orders", 3, "svc", committed, record=StuckRecord("orders", 3, offset, before, later=True))
    assert target.records_before(PeekRequest()) == shown
    assert target.records_before(PeekRequest(before=30)) == 30
    assert target.records_before(PeekRequest(LogEdge.EARLIEST)) == 0


@pytest.mark.parametrize(
    ("committed", "latest", "shown"), [(100, None, 3), (100, 101, 3), (100, 112, 13), (100, 900, 20), (112, 112, 3)]
)
def test_it_ends_where_the_group_may_be_stuck(committed: int, latest: int | None, shown: int) -> None:
    stuck = StuckRecord("orders", 3, 100, before=True, later=True, latest=latest)
    target = PeekTarget("orders", 3, "svc", committed, record=stuck)
    assert target.records_from(PeekRequest(count=3)) == shown
    assert target.records_from(PeekRequest(count=30)) == 30
    assert target.records_from(PeekRequest(LogEdge.EARLIEST, count=3)) == 3


def record(offset: int, value: bytes = b"1") -> ConsumerRecord:
    return ConsumerRecord("orders", 3, offset, None, None, value, ())


@pytest.mark.parametrize(
    ("start", "stop", "offsets", "empty"),
    [
        (3, 8, (3, 4, 5, 6, 7), []),
        (3, 8, (4, 7), [(3, 4), (5, 7)]),
        (3, 8, (), [(3, 8)]),
        (3, 3, (), []),
        (3, 8, (3,), [(4, 8)]),
        (0, 5_000_001, (5_000_000,), [(0, 5_000_000)]),
    ],
)
def test_offsets_without_a_record(
    start: int, stop: int, offsets: tuple[int, ...], empty: list[tuple[int, int]]
) -> None:
    window = ReadWindow(start, start, stop, tuple(map(record, offsets)))
    assert list(empty_ranges(window)) == [LogRange(*each) for each in empty]


@pytest.mark.parametrize(
    ("log_start", "offset", "count", "windows"),
    [
        (0, 100, 0, []),
        (100, 100, 5, []),
        (98, 100, 5, [(98, 100)]),
        (0, 200, 5, [(184, 200), (56, 184), (0, 56)]),
    ],
)
def test_windows_before(log_start: int, offset: int, count: int, windows: list[tuple[int, int]]) -> None:
    assert list(windows_before(log_start, offset, count)) == [LogRange(*each) for each in windows]


@pytest.mark.parametrize("count", [1, 100, 10_000])
def test_windows_before_end(count: int) -> None:
    windows = list(windows_before(0, 10**12, count))
    assert all(later.end == earlier.start for earlier, later in pairwise(windows))
    assert count <= 10**12 - windows[-1].start < 200_000


@pytest.mark.parametrize(
    ("log", "stop", "hidden"),
    [
        (ReadableLog(0, 20, 20), 20, None),
        (ReadableLog(0, 20, 15), 15, (15, 20)),
        (ReadableLog(0, 20, 15), 12, None),  # it ended at enough records, before the transaction
    ],
)
def test_what_an_open_transaction_hides(log: ReadableLog, stop: int, hidden: tuple[int, int] | None) -> None:
    each = PeekedPartition(PeekTarget("orders", 3), log, ReadWindow(10, 10, stop, ()))
    assert each.hidden == (LogRange(*hidden) if hidden else None)


def test_a_document() -> None:
    window = ReadWindow(12, 12, 15, (record(13, b'{"a": 1}'), record(14, b"\xff")))
    each = PeekedPartition(
        PeekTarget("orders", 3, "svc", 12, "STALL 5m"), ReadableLog(0, 20, 18), window, ValueFormat.JSON
    )

    document = json.loads(one_line_json(each.document()))
    assert (document["last_stable_offset"], document["empty_offsets"]) == (18, [{"start": 12, "end": 13}])
    records = [(one["offset"], one["timestamp"], one["value"], one["size_bytes"]) for one in document["records"]]
    assert records == [(13, None, {"a": 1}, 8), (14, None, {"base64": "/w=="}, 1)]
    assert each.not_json == (14,)
    assert each.next_record == window.records[0]
    assert [b'"value": {"a": 1}' in line for line in lines_of([each])] == [True, False]
