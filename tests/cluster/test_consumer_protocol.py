"""Embedded subscriptions and assignments: Kafka's own bytes (records.jsonl), odd clients, other types."""

from __future__ import annotations

import base64
import json
import random
import struct
from typing import Any

import pytest

from kgroup.cluster.consumer_protocol import ConsumerAssignment, Subscription, decode_assignment, decode_subscription
from kgroup.model.groups import TopicPartitions
from tests.helpers.places import DATA

LINES = [json.loads(line) for line in (DATA / "records.jsonl").read_text("utf-8").splitlines()]
SUBSCRIPTIONS = [line for line in LINES if line["kind"] == "subscription"]
ASSIGNMENTS = [line for line in LINES if line["kind"] == "assignment"]


def name(line: dict[str, Any]) -> str:
    return str(line["name"])


def user_data(expected: dict[str, Any]) -> bytes | None:
    return None if expected["userData"] is None else base64.b64decode(expected["userData"])


def topic_partitions(found: list[dict[str, Any]]) -> tuple[TopicPartitions, ...]:
    return tuple(TopicPartitions(item["topic"], tuple(item["partitions"])) for item in found)


@pytest.mark.parametrize("line", SUBSCRIPTIONS, ids=name)
def test_kafkas_own_subscriptions(line: dict[str, Any]) -> None:
    expected = line["expected"]
    generation = expected.get("generationId", -1)
    assert decode_subscription(bytes.fromhex(line["value"])) == Subscription(
        line["version"],
        tuple(expected["topics"]),
        user_data(expected),
        topic_partitions(expected.get("ownedPartitions", [])),
        None if generation == -1 else generation,
        expected.get("rackId"),
    )


@pytest.mark.parametrize("line", ASSIGNMENTS, ids=name)
def test_kafkas_own_assignments(line: dict[str, Any]) -> None:
    expected = line["expected"]
    assert decode_assignment(bytes.fromhex(line["value"])) == ConsumerAssignment(
        line["version"], topic_partitions(expected["assignedPartitions"]), user_data(expected)
    )


def test_every_version_is_in_the_vectors() -> None:
    assert {line["version"] for line in SUBSCRIPTIONS} == {0, 1, 2, 3}
    assert {line["version"] for line in ASSIGNMENTS} == {0, 1, 2, 3}


TOPICS = struct.pack(">ih6s", 1, 6, b"orders")
OWNED = TOPICS + struct.pack(">iii", 2, 0, 5)
NOTHING = struct.pack(">i", -1)


def test_by_hand() -> None:
    data = b"\x00\x03" + TOPICS + struct.pack(">i2s", 2, b"\x00\xff") + OWNED + struct.pack(">ih2s", 9, 2, b"eu")
    assert decode_subscription(data) == Subscription(
        3, ("orders",), b"\x00\xff", (TopicPartitions("orders", (0, 5)),), 9, "eu"
    )
    assert decode_assignment(b"\x00\x00" + OWNED + NOTHING) == ConsumerAssignment(
        0, (TopicPartitions("orders", (0, 5)),), None
    )


def test_empty_user_data_is_not_absent() -> None:
    subscription = decode_subscription(b"\x00\x00" + TOPICS + struct.pack(">i", 0))
    assert subscription is not None
    assert subscription.user_data == b""


@pytest.mark.parametrize("version", [4, 9, 32767])
def test_newer_versions_are_read_as_3(version: int) -> None:
    head = struct.pack(">h", version)
    rest = TOPICS + NOTHING + OWNED + struct.pack(">ih", -1, -1) + b"what a later version adds"
    assert decode_subscription(head + rest) == Subscription(
        version, ("orders",), None, (TopicPartitions("orders", (0, 5)),), None, None
    )
    assert decode_assignment(head + OWNED + NOTHING + b"more") == ConsumerAssignment(
        version, (TopicPartitions("orders", (0, 5)),), None
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_clients_that_stop_before_the_owned_partitions(version: int) -> None:
    data = struct.pack(">h", version) + TOPICS + NOTHING
    assert decode_subscription(data) == Subscription(version, ("orders",), None, (), None, None)


@pytest.mark.parametrize("protocol_type", ["connect", "sr", "", "Consumer"])
def test_bytes_of_other_protocol_types_are_left_alone(protocol_type: str) -> None:
    assert decode_subscription(b"\x00\x00" + TOPICS + NOTHING, protocol_type) is None
    assert decode_assignment(b"\x00\x00" + OWNED + NOTHING, protocol_type) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\xff\xff" + TOPICS + NOTHING,
        b"\x00\x00\x7f\xff\xff\xff",
        b"not of this protocol",
        b'{"a":1}',
    ],
)
def test_nothing_to_be_read(data: bytes) -> None:
    assert decode_subscription(data) is None
    assert decode_assignment(data) is None


@pytest.mark.parametrize("line", [*SUBSCRIPTIONS, *ASSIGNMENTS], ids=name)
def test_truncated(line: dict[str, Any]) -> None:
    data = bytes.fromhex(line["value"])
    decoder = decode_subscription if line["kind"] == "subscription" else decode_assignment
    complete = 0
    for end in range(len(data)):
        complete += decoder(data[:end]) is not None
    # Of version 1 and later, what ends before the owned partitions passes as a subscription without them.
    assert complete == (line["kind"] == "subscription" and line["version"] >= 1)


def test_noise_never_raises() -> None:
    rng = random.Random(20_260_102)
    lines = [*SUBSCRIPTIONS, *ASSIGNMENTS]
    for _ in range(10_000):
        data = bytearray(bytes.fromhex(rng.choice(lines)["value"]))
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        decode_subscription(bytes(data))
        decode_assignment(bytes(data))
        decode_subscription(rng.randbytes(rng.randrange(60)))
