"""Raw records to events: Kafka's own bytes, the outcome of transactions, and bytes that nobody wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kgroup.cluster.offsets_topic.decode import key_prefix
from kgroup.cluster.offsets_topic.events import TYPES, event_of, topic_ids
from kgroup.cluster.offsets_topic.record_batches import Marker, RawRecord
from kgroup.model.group_log import (
    CommitWritten,
    EpochWritten,
    GenerationWritten,
    GroupDeleted,
    MemberAssignmentWritten,
    MemberWritten,
    PatternResolved,
    RebalanceProtocol,
    ShareStatesWritten,
    TargetEpochWritten,
    TargetWritten,
    TopologyWritten,
    TransactionEnd,
    Unreadable,
)
from tests.helpers.for_each import for_each
from tests.helpers.fuzzing import events_of
from tests.helpers.places import DATA

LINES = [json.loads(line) for line in (DATA / "records.jsonl").read_text("utf-8").splitlines()]
RECORDS = [line for line in LINES if line["kind"] == "record"]
BAZ = "-_-_YmFyYmF6cXV4Kysv8A"

EVENTS: dict[int, type[object]] = {
    0: CommitWritten,
    1: CommitWritten,
    2: GenerationWritten,
    3: EpochWritten,
    5: MemberWritten,
    6: TargetEpochWritten,
    7: TargetWritten,
    8: MemberAssignmentWritten,
    10: MemberWritten,
    11: EpochWritten,
    12: TargetEpochWritten,
    13: TargetWritten,
    14: MemberAssignmentWritten,
    15: ShareStatesWritten,
    16: PatternResolved,
    17: EpochWritten,
    19: MemberWritten,
    20: TargetEpochWritten,
    21: TargetWritten,
    22: MemberAssignmentWritten,
    23: TopologyWritten,
}


def raw_of(line: dict[str, Any], **other: Any) -> RawRecord:
    value = line["value"]
    given_: dict[str, Any] = {"offset": 7, "timestamp_ms": 1_000, "producer_id": None}
    given_ |= {"key": bytes.fromhex(line["key"]), "value": None if value is None else bytes.fromhex(value)}
    return RawRecord(**(given_ | other))


def named(name: str) -> dict[str, Any]:
    return next(line for line in RECORDS if line["name"] == name)


@for_each("line", RECORDS)
def test_kafkas_own_bytes(line: dict[str, Any]) -> None:
    event = event_of(raw_of(line), TransactionEnd.PLAIN, {})

    if line["type"] == 4:
        assert event is None
        return
    gone = line["value"] is None and line["type"] in (2, 3, 11, 17)
    assert type(event) is (GroupDeleted if gone else EVENTS[line["type"]])
    assert (event.log_offset, event.at_ms) == (7, 1_000)  # type: ignore[union-attr]


def test_every_type_that_is_asked_for_makes_an_event() -> None:
    assert {kind.value for kind in TYPES} == EVENTS.keys()


def test_topics_go_by_their_name_where_the_cluster_knows_it() -> None:
    line = named("target of a member v0")

    for topics, expected in (({}, BAZ), ({BAZ: "orders"}, "orders")):
        event = event_of(raw_of(line), TransactionEnd.PLAIN, topics)
        assert isinstance(event, TargetWritten)
        assert event.partitions is not None
        assert (expected, 0) in event.partitions


def test_the_ids_that_are_to_be_resolved() -> None:
    raws = [raw_of(named(name)) for name in ("target of a member v0", "current assignment in state 0 v0", "commit v0")]

    assert BAZ in topic_ids(raws)
    for raw in raws[:2]:
        names = {each: f"topic-{each}" for each in topic_ids([raw])}
        event = event_of(raw, TransactionEnd.PLAIN, names)
        assert isinstance(event, TargetWritten | MemberAssignmentWritten)
        found = event.partitions if isinstance(event, TargetWritten) else event.holding and event.holding.partitions
        assert found
        assert {topic for topic, _ in found} <= set(names.values())
    assert topic_ids(raws[2:]) == set()


def test_what_a_member_has_and_must_give_back() -> None:
    event = event_of(raw_of(named("current assignment in state 0 v0")), TransactionEnd.PLAIN, {BAZ: "orders"})

    assert isinstance(event, MemberAssignmentWritten)
    assert event.holding is not None
    assert (event.holding.epoch, event.holding.stable) == (17, True)
    assert ("orders", 0) in event.holding.partitions


def test_a_newer_version_and_broken_bytes_are_unreadable() -> None:
    line = named("consumer group v0")

    for value in (b"\x00\x63" + bytes(20), b"\x00\x00\x00", b""):
        event = event_of(raw_of(line, value=value), TransactionEnd.PLAIN, {})
        assert isinstance(event, Unreadable)
        assert event.why


def test_tombstones_tell_of_which_protocol_they_are() -> None:
    for name, protocol in (
        ("classic group v0", RebalanceProtocol.CLASSIC),
        ("consumer group v0", RebalanceProtocol.CONSUMER),
        ("share group v0", RebalanceProtocol.SHARE),
        ("streams group v0", RebalanceProtocol.STREAMS),
    ):
        event = event_of(raw_of(named(name), value=None), TransactionEnd.PLAIN, {})
        assert event == GroupDeleted(7, 1_000, protocol)


@pytest.mark.parametrize("number", [11, 17])
@pytest.mark.parametrize("value", [b"", b"\0\x63 of a version that nobody knows"])
def test_what_cannot_be_decoded_keeps_its_type(number: int, value: bytes) -> None:
    event = event_of(RawRecord(7, 1_000, key_prefix(number, "svc"), value, None), TransactionEnd.PLAIN, {})
    assert isinstance(event, Unreadable)
    assert event.record_type == number


def test_topics_of_share_groups_go_by_id_and_tasks_of_streams_groups_by_subtopology() -> None:
    raws = [raw_of(named(f"{of} assignment in state 1 v0")) for of in ("share", "streams")]
    assert topic_ids(raws) == {BAZ}
    share, streams = (event_of(raw, TransactionEnd.PLAIN, {BAZ: "orders"}) for raw in raws)
    assert isinstance(share, MemberAssignmentWritten)
    assert isinstance(streams, MemberAssignmentWritten)
    assert share.holding is not None
    assert share.holding.partitions == {("orders", 0), ("orders", 1)}
    assert streams.holding is not None
    assert streams.holding.partitions == {("0", 0), ("0", 1), ("1", 1)}


def test_the_outcome_of_transactions() -> None:
    line = named("commit v0")
    entries: list[RawRecord | Marker] = [
        raw_of(line, offset=1, producer_id=5),
        raw_of(line, offset=2),
        Marker(3, 5, aborted=True),
        raw_of(line, offset=4, producer_id=5),
        raw_of(line, offset=5, producer_id=6),
        Marker(6, 5, aborted=False),
        raw_of(line, offset=7, producer_id=5),
    ]

    found = [(event.log_offset, event.ending) for event in events_of(entries) if isinstance(event, CommitWritten)]

    assert found == [
        (1, TransactionEnd.ABORTED),
        (2, TransactionEnd.PLAIN),
        (4, TransactionEnd.COMMITTED),
        (5, TransactionEnd.OPEN),
        (7, TransactionEnd.OPEN),
    ]
