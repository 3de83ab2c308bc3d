"""The ledger's records: what is written is read back, and what is not ours is an error that names the record."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from kgroup.catchup.ledger.records import (
    RecordKey,
    RecordKind,
    Value,
    decode,
    decode_key,
    decode_plan_head,
    encode,
    key_of,
    plan_of,
)
from kgroup.groups.catchup.model import (
    AppliedRate,
    CatchupPlan,
    Chunk,
    ChunkProgress,
    Delivery,
    ExplainedRange,
    GapRange,
    Order,
    PlanHead,
    PlanState,
    PlanTotals,
    RangeVerification,
    RunnerEpoch,
    StateRecord,
    TargetTopic,
    Task,
    ThrottleRecord,
)
from kgroup.model.commit import Commit
from kgroup.model.records import LostOffsets, OffsetRange
from kgroup.support.errors import KgroupError, Refused, UsageError
from tests.helpers.catchup.plans import PLAN_ID, gap_range, make_plan
from tests.helpers.for_each import for_each
from tests.helpers.places import ROOT

LEDGER = ROOT / "tests" / "contracts" / "files" / "ledger.jsonl"
PLAN = replace(
    make_plan(gap_range(maybe=80), gap_range(1, before=None), abandoned=(ExplainedRange("orders", 0, 60, 70, "why"),)),
    reason="INC-4711",
    chunks=(
        Chunk("orders", 0, 70, 90, 0),
        Chunk("orders", 0, 90, 120, 1),
        Chunk("orders", 1, 70, 120, 2),
        Chunk("orders", 1, 120, 120, 7),
    ),
)
LOST = (ExplainedRange("orders", 1, 70, 75, "log start"),)
REVERSED = {"topic": "orders", "partition": 0, "start": 5, "end": 4}
UNDELIVERED = OffsetRange("orders", 1, 90, 97)
STATE = StateRecord(PlanState.RELEASING, 1, "me@here", 2, 500, note=None)
EVERY: list[Value] = [
    PLAN,
    replace(PLAN, group=None, group_type=None, cluster_id=None, reason="\x00\u2028é", ranges=(), chunks=()),
    STATE,
    replace(
        STATE, state=PlanState.CANCELLING, targets=(("orders", 1, 70),), expected=(("orders", 1, None),), note="so"
    ),
    replace(STATE, log_position=None, expected=(("orders", 1, 120),)),
    RunnerEpoch(3, "me@here", 10, 20),
    Delivery("topic", Order.KEY, (Task(0, (1, 0)), Task(1, ())), {"topic": "t", "": "ü"}, tuning={"rate": "500/s"}),
    ChunkProgress(12, 90, 20, 1, 2, 300, 5, 3, (LostOffsets(70, 75, "log start"),), 4),
    ChunkProgress(0, 0, 0, 0, 0, 0, 0, 0),
    Delivery(
        "topic",
        Order.NONE,
        (Task(0, (4,)),),
        {"topic": "t"},
        target=TargetTopic("id", (7, 0)),
        dead_letters={"d": TargetTopic(None, (1,))},
    ),
    Delivery("topic", Order.NONE, (Task(0, (4,)),), {"topic": "t"}, target=TargetTopic(None, ())),
    PlanTotals(
        (
            RangeVerification("orders", 0, 70, 120, 120, 50, 0, 0, 500, 0, 2, 2, (), (), ()),
            RangeVerification("orders", 1, 70, 97, 90, 20, 1, 2, 300, 4, 3, 1, LOST, (UNDELIVERED,), ("so",)),
        )
    ),
    PlanTotals(()),
    ThrottleRecord({"rate": "5MiB/s", "yield-to": "off"}, 10, "me@here"),
    AppliedRate(3, None, 5e6, 2, 12_000),
    AppliedRate(3, 62.5, None, 0, None),
]


PLANS = [value for value in EVERY if isinstance(value, CatchupPlan)]


@pytest.mark.parametrize("text", [None, "", 'a,"ranges":[{}', '\\","ranges":[', "\x00\u2028é"])
@pytest.mark.parametrize("plan", PLANS)
def test_the_head_of_a_plan_is_read_without_its_ranges(plan: CatchupPlan, text: str | None) -> None:
    plan = replace(plan, group=text, reason=text, who=text or "")
    raw, head = encode(plan), PlanHead(PLAN_ID, text, text or "", plan.created_ms, text, 7)

    assert decode_plan_head(key_of(PLAN_ID, plan), 7, raw) == head
    assert decode_plan_head(key_of(PLAN_ID, plan), 7, raw.replace(b',"ranges":[', b', "ranges": [')) == head


@pytest.mark.parametrize("value", EVERY, ids=lambda value: type(value).__name__)
def test_what_is_written_is_read_back(value: Value) -> None:
    key = key_of(PLAN_ID, value)
    raw = encode(value)

    assert decode(key, raw) == value
    assert decode_key(key.encode()) == key
    assert json.loads(raw)["v"] == 1
    assert b"\x00" not in raw


@pytest.mark.parametrize(
    "metadata", ["", "\x00", "a\x00b", "abc\x00", "é日本\U0001f600", '"\\\n\t\x7f', "x" * 4096, "kgroup no"]
)
def test_the_metadata_of_commits_survives_byte_for_byte(metadata: str) -> None:
    plan = make_plan(gap_range(before=Commit(70, None, metadata)))

    read = decode(RecordKey(PLAN_ID, RecordKind.PLAN), encode(plan))

    assert read == plan
    assert isinstance(read, CatchupPlan)
    (item,) = read.ranges
    assert item.before is not None
    assert item.before.metadata == metadata


@pytest.mark.parametrize(
    ("key", "raw"),
    [
        (RecordKey(PLAN_ID, RecordKind.PLAN), b"cu-7f3a/plan"),
        (RecordKey(PLAN_ID, RecordKind.STATE), b"cu-7f3a/state"),
        (RecordKey(PLAN_ID, RecordKind.EPOCH), b"cu-7f3a/epoch"),
        (RecordKey(PLAN_ID, RecordKind.DELIVERY), b"cu-7f3a/delivery"),
        (RecordKey(PLAN_ID, RecordKind.TOTALS), b"cu-7f3a/totals"),
        (RecordKey(PLAN_ID, RecordKind.THROTTLE), b"cu-7f3a/throttle"),
        (RecordKey(PLAN_ID, RecordKind.APPLIED), b"cu-7f3a/applied"),
        (RecordKey(PLAN_ID, RecordKind.CHUNK, 12), b"cu-7f3a/chunk/12"),
        (RecordKey(PLAN_ID, RecordKind.CHUNK, 0), b"cu-7f3a/chunk/0"),
    ],
)
def test_keys(key: RecordKey, raw: bytes) -> None:
    assert key.encode() == raw
    assert decode_key(raw) == key
    assert plan_of(raw) == PLAN_ID


@pytest.mark.parametrize(
    ("raw", "code", "plan"),
    [
        (None, "ledger-damaged", None),
        (b"", "ledger-damaged", None),
        (b"\xff\xfe", "ledger-damaged", None),
        (b"cu-7f3a", "ledger-damaged", PLAN_ID),
        (b"cu-7f3o/plan", "ledger-damaged", None),
        (b"cu-7f3aa/plan", "ledger-damaged", None),
        (b"ch-7f3a/plan", "ledger-damaged", None),
        (b"cu-7f3a/plan/1", "ledger-damaged", PLAN_ID),
        (b"cu-7f3a/chunk", "ledger-damaged", PLAN_ID),
        (b"cu-7f3a/chunk/-1", "ledger-damaged", PLAN_ID),
        (b"cu-7f3a/chunk/01", "ledger-damaged", PLAN_ID),
        (b"cu-7f3a/chunk/1/2", "ledger-damaged", PLAN_ID),
        (b"cu-7f3a/chunk/99999999999", "ledger-damaged", PLAN_ID),
        ("cu-7f3a/chunk/\u0663".encode(), "ledger-damaged", PLAN_ID),
        (b"cu-7f3a/heartbeat", "ledger-newer", PLAN_ID),
        (b"cu-7f3a/\xff", "ledger-newer", PLAN_ID),
    ],
)
def test_keys_that_are_not_ours(raw: bytes | None, code: str, plan: str | None) -> None:
    with pytest.raises(KgroupError) as caught:
        decode_key(raw)

    assert caught.value.code == code
    assert plan_of(raw) == plan


def changed(value: Value, change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(encode(value))
    change(document)
    return json.dumps(document).encode()


def range_row(**fields: object) -> dict[str, object]:
    """A range of a plan, as it is written, with these fields."""
    return {**json.loads(encode(PLAN))["ranges"][0], **fields}


def totals_row(**fields: object) -> dict[str, object]:
    return {**json.loads(encode(EVERY[11]))["ranges"][0], **fields}


def run_row(edges: list[int]) -> dict[str, object]:
    return {"topic": "t", "partition": 0, "first": 0, "edges": edges}


def test_the_ledger_of_the_contracts_is_what_is_written_now() -> None:
    for line in LEDGER.read_text().splitlines():
        record = json.loads(line)
        raw = record["value"].encode()
        assert encode(decode(decode_key(record["key"].encode()), raw)) == raw


def test_text_that_is_not_utf_8_is_refused_by_its_name() -> None:
    """As bytes of a command line may be. The metadata of a commit is UTF-8 in the protocol."""
    with pytest.raises(UsageError, match=r"'/data/\\udcff' is not UTF-8"):
        encode(Delivery("files", Order.KEY, (), {"dir": "/data/\udcff"}))


@pytest.mark.parametrize("version", [0, 2, 99])
def test_another_version_is_named(version: int) -> None:
    raw = changed(STATE, lambda document: document.update(v=version, state="a new one"))

    with pytest.raises(Refused, match=r"ledger record cu-7f3a/state: it has version") as caught:
        decode(RecordKey(PLAN_ID, RecordKind.STATE), raw)

    assert caught.value.code == "ledger-newer"


@for_each(
    "raw",
    [
        b"",
        b"\xff",
        b"{",
        b"[]",
        b"null",
        b'"plan"',
        b"{}",
        b'{"v": true}',
        b'{"v": "1"}',
        b'{"v": 1.0}',
        b'{"v": 1}',
        b'{"v": NaN}',
        b"[" * 100_000,
        b'{"v": ' + b"1" * 5_000 + b"}",
        b"\xef\xbb\xbf{}",
    ],
)
@for_each("kind", RecordKind)
def test_what_is_no_record_is_an_error_that_names_it(kind: RecordKind, raw: bytes) -> None:
    key = RecordKey(PLAN_ID, kind, 0 if kind is RecordKind.CHUNK else None)

    with pytest.raises(KgroupError, match=f"ledger record {key}: ") as caught:
        decode(key, raw)

    assert caught.value.code == "ledger-damaged"


@pytest.mark.parametrize(
    ("value", "change", "says"),
    [
        (PLAN, {"id": "cu-2222"}, "it contains the plan cu-2222"),
        (EVERY[7], {"chunk": 13}, "it contains chunk 13"),
        (STATE, {"state": "paused"}, "Invalid enum value 'paused' - at `$.state`"),
        (STATE, {"epoch": True}, "Expected `int`, got `bool` - at `$.epoch`"),
        (STATE, {"epoch": "1"}, "Expected `int`, got `str` - at `$.epoch`"),
        (STATE, {"epoch": -1}, "Expected `int` >= 0 - at `$.epoch`"),
        (STATE, {"epoch": 2**63}, "`$.epoch`"),
        (STATE, {"at_ms": 2**63}, "`$.at_ms`"),
        (STATE, {"at_ms": -(2**63) - 1}, "`$.at_ms`"),
        (STATE, {"who": None}, "Expected `str`, got `null` - at `$.who`"),
        (STATE, {"targets": [["orders", 0]]}, "`$.targets[0]`"),
        (STATE, {"targets": [["orders", 0, None]]}, "Expected `int`, got `null` - at `$.targets[0][2]`"),
        (STATE, {"expected": [["orders", -1, None]]}, "`$.expected[0][1]`"),
        (STATE, {"targets": {}}, "Expected `array`, got `object` - at `$.targets`"),
        (EVERY[6], {"order": "random"}, "Invalid enum value 'random' - at `$.order`"),
        (EVERY[6], {"options": {"a": 1}}, "`$.options[...]`"),
        (EVERY[6], {"tasks": [{"number": 0, "chunks": [-1]}]}, "`$.tasks[0].chunks[0]`"),
        (EVERY[9], {"target": {"id": "id", "ends": [-1]}}, "`$.target.ends[0]`"),
        (EVERY[9], {"dead_letters": {"d": {"id": None}}}, "missing required field `ends` - at `$.dead_letters[...]`"),
        (EVERY[7], {"lost": [{"start": 5, "end": 4, "why": ""}]}, "the end 4 is below the start 5 - at `$.lost[0]`"),
        (EVERY[7], {"records": 1.5}, "Expected `int`, got `float` - at `$.records`"),
        (EVERY[7], {"records": 1.0}, "`$.records`"),
        (EVERY[7], {"records": True}, "Expected `int`, got `bool` - at `$.records`"),
        (EVERY[7], {"records": -1}, "Expected `int` >= 0 - at `$.records`"),
        (EVERY[7], {"records": 2**63}, "`$.records`"),
        (EVERY[11], {"ranges": [{"delivered_to": 1}]}, "missing required field `topic` - at `$.ranges[0]`"),
        (EVERY[11], {"ranges": None}, "Expected `array`, got `null` - at `$.ranges`"),
        (EVERY[11], {"ranges": [totals_row(start=5, end=4)]}, "is below its start - at `$.ranges[0]`"),
        (EVERY[11], {"ranges": [totals_row(undelivered=[REVERSED])]}, "is below its start - at `$.ranges[0]`"),
        (PLAN, {"ranges": [range_row(start=5, end=4)]}, "the end 4 is below the start 5 - at `$.ranges[0]`"),
        (PLAN, {"ranges": [range_row(start=-1)]}, "Expected `int` >= 0 - at `$.ranges[0].start`"),
        (PLAN, {"ranges": [range_row(end=2**63)]}, "`$.ranges[0].end`"),
        (
            PLAN,
            {"abandoned": [{"topic": "t", "partition": 0, "start": -1, "end": 4, "reason": ""}]},
            "Expected `int` >= 0 - at `$.abandoned[0].start`",
        ),
        (PLAN, {"ranges": [range_row(before=[70, -1, ""])]}, "`$.ranges[0].before[1]`"),
        (PLAN, {"ranges": [range_row(before=[True, None, ""])]}, "`$.ranges[0].before[0]`"),
        (PLAN, {"abandoned": [{"topic": "t", "partition": 0, "start": 5, "end": 4, "reason": ""}]}, "`$.abandoned[0]`"),
        (PLAN, {"chunks": [run_row([5])]}, "Expected `array` of length >= 2 - at `$.chunks[0].edges`"),
        (PLAN, {"chunks": [run_row([5, 4])]}, "the offsets of chunks must be ascending - at `$.chunks[0]`"),
        (PLAN, {"chunks": [run_row([5, True])]}, "Expected `int`, got `bool` - at `$.chunks[0].edges[1]`"),
        (PLAN, {"command": ["a", 1]}, "Expected `str`, got `int` - at `$.command[1]`"),
    ],
)
def test_a_field_that_is_wrong_is_named(value: Value, change: dict[str, Any], says: str) -> None:
    key = key_of(PLAN_ID, value)

    with pytest.raises(KgroupError) as caught:
        decode(key, changed(value, lambda document: document.update(change)))

    assert caught.value.code == "ledger-damaged"
    assert says in caught.value.message
    assert str(key) in caught.value.message


@pytest.mark.parametrize("value", EVERY, ids=lambda value: type(value).__name__)
def test_every_field_is_needed_and_more_are_passed_over(value: Value) -> None:
    key = key_of(PLAN_ID, value)

    assert decode(key, changed(value, lambda document: document.update(later={"x": 1}))) == value
    for name in json.loads(encode(value)):
        with pytest.raises(KgroupError) as caught:
            decode(key, changed(value, lambda document, name=name: document.pop(name)))  # type: ignore[misc]
        assert caught.value.code == "ledger-damaged"


@for_each("seed", range(50))
def test_broken_bytes_never_crash_the_reader(seed: int) -> None:
    pick = random.Random(seed)
    for value in EVERY:
        key, raw = key_of(PLAN_ID, value), bytearray(encode(value))
        for _ in range(pick.randrange(1, 4)):
            raw[pick.randrange(len(raw))] = pick.randrange(256)
        cut = bytes(raw[: pick.randrange(len(raw) + 1)]) if pick.random() < 0.3 else bytes(raw)
        with suppress(KgroupError):  # and no other
            decode(key, cut)


@for_each("seed", range(30))
def test_random_plans_come_back_as_they_were(seed: int) -> None:
    pick = random.Random(seed)

    def number() -> int | None:
        return pick.choice([None, 0, pick.randrange(2**62)])

    def text() -> str:
        return "".join(chr(pick.choice([0, 9, 34, 92, 233, 0x2028, 0x1F600, *range(32, 127)])) for _ in range(9))

    ranges = tuple(
        GapRange(
            text(),
            index,
            start := pick.randrange(10**6),
            start + pick.randrange(10**6),
            pick.choice([None, Commit(start, number(), text())]),
            number(),
            pick.choice([None, text()]),
            *(number() for _ in range(5)),
        )
        for index in range(pick.randrange(5))
    )
    edges = sorted(pick.randrange(10**6) for _ in range(9))
    chunks = [
        Chunk(pick.choice("ab"), pick.randrange(2), start, end, index)
        for index, (start, end) in enumerate(pairwise(edges))
        if pick.random() < 0.8
    ]
    pick.shuffle(chunks)
    plan = replace(PLAN, ranges=ranges, chunks=tuple(chunks), reason=text(), command=(text(), text()))

    assert decode(key_of(PLAN_ID, plan), encode(plan)) == plan


def test_ten_thousand_chunks_fit_into_one_message() -> None:
    ranges = [gap_range(number, 10**12, 10**12 + 10**9) for number in range(1_000)]
    chunks = [
        Chunk("orders", number, 10**12 + part * 10**8, 10**12 + (part + 1) * 10**8, 10 * number + part)
        for number in range(1_000)
        for part in range(10)
    ]

    assert len(encode(make_plan(*ranges, chunks=tuple(chunks)))) < 900_000
