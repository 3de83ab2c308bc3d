"""Records of ``__share_group_state``: against what Kafka's own formatter reads from them, and folded."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

import pytest
from msgspec.structs import replace

from kgroup.cluster.byte_reader import MalformedRecord
from kgroup.cluster.share_state.state_records import StateWritten, decode, fold, key_tail
from kgroup.model.share_deliveries import DeliveryBatch, DeliveryState, PartitionDeliveries
from tests.helpers.places import DATA

RECORDS = [json.loads(line) for line in (DATA / "share_states.jsonl").read_text("utf-8").splitlines()]
RETRY, DONE, DYING, DEAD = (
    DeliveryState.AVAILABLE,
    DeliveryState.ACKNOWLEDGED,
    DeliveryState.ARCHIVING,
    DeliveryState.ARCHIVED,
)
OF_KAFKA = {RETRY: 0, DONE: 2, DYING: 3, DEAD: 4}


def record(line: dict[str, Any]) -> StateWritten:
    return decode(bytes.fromhex(line["key"]), bytes.fromhex(line["value"]))


@pytest.mark.parametrize("line", RECORDS, ids=range(len(RECORDS)))
def test_reads_what_kafka_reads(line: dict[str, Any]) -> None:
    key, value = line["kafka"]["key"], line["kafka"]["value"]["data"]
    of_key = key["data"]
    found = record(line)

    assert bytes.fromhex(line["key"])[2:] == key_tail(of_key["groupId"], of_key["topicId"], of_key["partition"])
    assert found.is_snapshot == (key["type"] == 0)
    assert -1 if found.start is None else found.start == value["startOffset"]
    assert [(each.first, each.last, OF_KAFKA[each.state], each.count) for each in found.batches] == [
        (each["firstOffset"], each["lastOffset"], each["deliveryState"], each["deliveryCount"])
        for each in value["stateBatches"]
    ]


def test_the_captured_state() -> None:
    """Offset 1 was rejected, 2 was given up after 3 deliveries, 10 is a marker; with and without dead letters."""
    by_key = groupby(sorted(RECORDS, key=lambda line: line["key"][4:]), key=lambda line: line["key"][4:])
    states = [fold(map(record, lines)) for _, lines in by_key]
    given_up = (DeliveryBatch(1, 1, DEAD, 1), DeliveryBatch(2, 2, DEAD, 3), DeliveryBatch(3, 9, DONE, 1))
    first = PartitionDeliveries(2, (*given_up, DeliveryBatch(10, 10, DEAD, 1)), done=9)
    second = PartitionDeliveries(0, (DeliveryBatch(0, 0, DONE, 3), DeliveryBatch(1, 3, DONE, 1)), done=4)
    assert states == [first, second] * 2
    assert (first.archived, first.retried, first.lag(11), first.lag(12)) == (3, 0, 0, 1)


def snapshot(start: int | None, *batches: DeliveryBatch) -> StateWritten:
    return StateWritten(True, start, batches)


def update(start: int | None, *batches: DeliveryBatch) -> StateWritten:
    return StateWritten(False, start, batches)


def batch(first: int, last: int, state: DeliveryState = RETRY, count: int = 1) -> DeliveryBatch:
    return DeliveryBatch(first, last, state, count)


FOLDS: dict[str, Any] = {
    "nothing": ([], None),
    "an update alone is no state": ([update(0, batch(0, 1))], None),
    "no record is done yet": ([snapshot(None)], (None, [])),
    "an update is laid over": (
        [snapshot(0, batch(0, 9)), update(None, batch(3, 5, DONE))],
        (0, [batch(0, 2), batch(3, 5, DONE), batch(6, 9)]),
    ),
    "the last update counts": (
        [snapshot(0), update(0, batch(2, 2)), update(0, batch(0, 4, RETRY, 2)), update(0, batch(4, 4, DEAD, 3))],
        (0, [batch(0, 3, RETRY, 2), batch(4, 4, DEAD, 3)]),
    ),
    "what follows and is the same is one batch": (
        [snapshot(0), update(0, batch(0, 1), batch(3, 3)), update(0, batch(2, 2))],
        (0, [batch(0, 3)]),
    ),
    "below the start offset only archived ones are known": (
        [snapshot(0, batch(0, 4), batch(5, 5, DEAD, 3), batch(6, 9)), update(8)],
        (8, [batch(5, 5, DEAD, 3), batch(8, 9)]),
    ),
    "a snapshot replaces": ([snapshot(0, batch(0, 9)), snapshot(2, batch(3, 3))], (2, [batch(3, 3)])),
    "a reset to an earlier offset forgets what was archived": (
        [snapshot(0, batch(0, 1, DEAD, 5), batch(7, 7, DEAD, 5)), snapshot(9), snapshot(5)],
        (5, [batch(0, 1, DEAD, 5)]),
    ),
    "deleted": ([snapshot(4, batch(4, 9)), snapshot(None)], (None, [])),
    "of many offsets": (
        [snapshot(0, batch(0, 2**60)), update(0, batch(2**59, 2**59, DONE))],
        (0, [batch(0, 2**59 - 1), batch(2**59, 2**59, DONE), batch(2**59 + 1, 2**60)]),
    ),
}


@pytest.mark.parametrize(("records", "state"), FOLDS.values(), ids=FOLDS)
def test_fold(records: list[StateWritten], state: tuple[int | None, list[DeliveryBatch]] | None) -> None:
    expected = None if state is None else PartitionDeliveries(state[0], tuple(state[1]))
    assert fold(records) == expected


def test_counts() -> None:
    state = PartitionDeliveries(
        0, (batch(0, 3), batch(4, 5, RETRY, 4), batch(6, 6, DYING, 5), batch(7, 8, DEAD), batch(9, 9, DONE))
    )
    assert (state.retried, state.archived) == (6, 3)
    assert (state.last_attempts(5), state.last_attempts(2), state.last_attempts(None)) == (2, 6, None)


SNAPSHOT_KEY = b"\0\0" + key_tail("jobs", "yBwl793hSKWNbl1W4H2Jhg", 0)
HEAD = b"\0\0" + bytes(12) + bytes(8) + bytes(16)


BROKEN = {
    "a newer version": (b"\0\1" + HEAD[2:] + b"\1\0", "version 1, newer"),
    "cut off": (HEAD[:-3], "bytes expected"),
    "a state that no broker writes": (
        HEAD + b"\2" + bytes(16) + b"\1" + b"\0\1" + b"\0" + b"\0",
        "delivery state 1",
    ),
    "too many batches": (HEAD + b"\x7f", "items expected"),
}


@pytest.mark.parametrize(("value", "why"), BROKEN.values(), ids=BROKEN)
def test_refuses(value: bytes, why: str) -> None:
    with pytest.raises(MalformedRecord, match=why):
        decode(SNAPSHOT_KEY, value)


def test_a_deleted_state() -> None:
    assert decode(SNAPSHOT_KEY, None) == snapshot(None)


def at(ms: int, *batches: DeliveryBatch) -> StateWritten:
    return StateWritten(False, None, batches, at_ms=ms)


FAILED = {
    "twice": ([at(0, batch(3, 4, RETRY, 1)), at(9, batch(3, 4, RETRY, 2))], [(3, 4, (9,))]),
    "archived in the end": ([at(0, batch(3, 4, RETRY, 1)), at(9, batch(3, 4, DEAD, 2))], [(3, 4, (9,))]),
    "once": ([at(0, batch(3, 4, RETRY, 1))], []),
    "accepted in the end": (
        [at(0, batch(3, 3, RETRY, 1)), at(9, batch(3, 3, RETRY, 2)), at(10, batch(3, 3, DONE, 3))],
        [],
    ),
    "perhaps released by a consumer that accepted others": (
        [at(0, batch(3, 3, RETRY, 1)), at(9, batch(3, 3, RETRY, 2), batch(7, 7, DONE, 1))],
        [],
    ),
    "perhaps released once": (
        [
            at(0, batch(3, 3, RETRY, 1)),
            at(9, batch(3, 3, RETRY, 2), batch(7, 7, DONE, 1)),
            at(20, batch(3, 3, RETRY, 3)),
        ],
        [(3, 3, (11,))],
    ),
    "a part of the batch before, the other accepted": (
        [at(0, batch(2, 4, RETRY, 1)), at(7, batch(2, 2, DONE, 2)), at(9, batch(3, 4, RETRY, 2))],
        [(3, 4, (9,))],
    ),
    "more than the batch before": (
        [at(0, batch(3, 4, RETRY, 1)), at(9, batch(1, 6, RETRY, 2)), at(11, batch(1, 6, RETRY, 3))],
        [(1, 2, (2,)), (3, 4, (9, 2)), (5, 6, (2,))],
    ),
    "both ends of the batch before": (
        [
            at(0, batch(1, 9, RETRY, 1)),
            at(5, batch(4, 6, DONE, 2)),
            at(8, batch(1, 3, RETRY, 2), batch(7, 9, RETRY, 2)),
        ],
        [(1, 3, (8,)), (7, 9, (8,))],
    ),
    "two batches become one": (
        [at(0, batch(3, 3, RETRY, 1)), at(2, batch(4, 4, RETRY, 1)), at(9, batch(3, 4, RETRY, 2))],
        [(3, 3, (9,)), (4, 4, (7,))],
    ),
    "a delivery between is not in the log": (
        [at(0, batch(3, 3, RETRY, 1)), at(9, batch(3, 3, RETRY, 3)), at(20, batch(3, 3, RETRY, 4))],
        [(3, 3, (11,))],
    ),
    "a snapshot is no delivery": (
        [replace(snapshot(0, batch(3, 3, RETRY, 1)), at_ms=1), at(9, batch(3, 3, RETRY, 2))],
        [],
    ),
}


@pytest.mark.parametrize(("records", "failed"), FAILED.values(), ids=FAILED)
def test_deliveries_that_failed_one_after_the_other(
    records: list[StateWritten], failed: list[tuple[int, int, tuple[int, ...]]]
) -> None:
    state = fold([snapshot(0), *records])
    assert state is not None
    assert [(each.first, each.last, each.lasted_ms) for each in state.failed] == failed
