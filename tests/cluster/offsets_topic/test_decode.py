"""Records of ``__consumer_offsets``: against bytes of Kafka's own classes, a small encoder, and broken bytes.

``records.jsonl`` comes from RecordVectors.java: bytes as Kafka 4.4.0 and 4.3.1 encode them, and what its own JSON
converters read back from these. The encoder below is written from the schemas, not from our decoder.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable
from typing import Any

import pytest

from kgroup.cluster.byte_reader import MalformedRecord, raw_topic_id
from kgroup.cluster.byte_reader import topic_id as topic_id_of
from kgroup.cluster.group_partition import partition_of
from kgroup.cluster.offsets_topic.decode import decode, key_prefix
from kgroup.cluster.offsets_topic.records import ClassicMember, GroupMetadata, RecordType
from kgroup.model.group_log import (
    CommitWritten,
    EpochWritten,
    GroupDeleted,
    MemberAssignment,
    MemberAssignmentWritten,
    MemberDetails,
    MemberWritten,
    PatternResolved,
    RebalanceProtocol,
    ShareStates,
    ShareStatesWritten,
    SpareTasks,
    TargetEpochWritten,
    TargetWritten,
    Topology,
    TopologyWritten,
    TransactionEnd,
    Unreadable,
)
from kgroup.model.streams_group import Subtopology
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.for_each import for_each
from tests.helpers.places import DATA

LINES = [json.loads(line) for line in (DATA / "records.jsonl").read_text("utf-8").splitlines()]
# Type 4, the topics of a group, has values only in Kafka 4.0, and is not read.
RECORDS = [line for line in LINES if line["kind"] == "record" and line["type"] != 4]
SKIPPED = [line for line in LINES if line.get("type") == 4]
PARTITIONS = [line for line in LINES if line["kind"] == "partition"]


def names(lines: list[dict[str, Any]]) -> list[str]:
    return [line["name"].encode("ascii", "backslashreplace").decode() for line in lines]


def raw(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


AT = (7, 1_000)


def known(number: int | None) -> int | None:
    """Kafka's -1, and what its JSON leaves out, is no such thing."""
    return None if number == -1 else number


def partitions(topics: Iterable[dict[str, Any]], name: str = "topicId") -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic[name], number) for topic in topics for number in topic["partitions"])


def tasks(value: dict[str, Any], kind: str) -> frozenset[TopicPartition]:
    return partitions(value[kind], "subtopologyId")


def classic_member(member: dict[str, Any]) -> ClassicMember:
    return ClassicMember(
        member["memberId"],
        member.get("groupInstanceId"),
        member["clientId"],
        member["clientHost"],
        known(member.get("rebalanceTimeout")),
        member["sessionTimeout"],
        base64.b64decode(member["subscription"]),
        base64.b64decode(member["assignment"]),
    )


def tombstone_of(kind: int, key: dict[str, Any]) -> object:
    match kind:
        case 0 | 1:
            return CommitWritten(*AT, key["topic"], key["partition"], None, "", None, None, TransactionEnd.PLAIN)
        case 2 | 3 | 11 | 17:
            return GroupDeleted(*AT, PROTOCOLS[kind])
        case 16:
            return PatternResolved(*AT, key["regularExpression"], None)
        case 6 | 12 | 20:
            return TargetEpochWritten(*AT, None)
        case 15:
            return ShareStatesWritten(*AT, None)
        case 23:
            return TopologyWritten(*AT, None)
    of_member = (
        MemberWritten if kind in (5, 10, 19) else TargetWritten if kind in (7, 13, 21) else MemberAssignmentWritten
    )
    return of_member(*AT, key["memberId"], None)


PROTOCOLS = {
    2: RebalanceProtocol.CLASSIC,
    3: RebalanceProtocol.CONSUMER,
    11: RebalanceProtocol.SHARE,
    17: RebalanceProtocol.STREAMS,
}


def expected_of(kind: int, key: dict[str, Any], value: dict[str, Any]) -> object:
    """What Kafka's own JSON of a record means."""
    match kind:
        case 0 | 1:
            place, topic_id = (*AT, key["topic"], key["partition"]), value.get("topicId")
            epoch, plain = known(value.get("leaderEpoch")), TransactionEnd.PLAIN
            return CommitWritten(*place, value["offset"], value["metadata"], topic_id, None, plain, epoch)
        case 2:
            return GroupMetadata(
                value["protocolType"],
                value["generation"],
                value["protocol"],
                value["leader"],
                known(value.get("currentStateTimestamp")),
                tuple(classic_member(member) for member in value["members"]),
            )
        case 3 | 11 | 17:
            settings = value.get("lastAssignmentConfigs")
            return EpochWritten(
                *AT,
                value["epoch"],
                value.get("metadataHash") or None,
                PROTOCOLS[kind],
                value.get("validatedTopologyEpoch"),
                None if settings is None else tuple((each["key"], each["value"]) for each in settings),
            )
        case 5 | 10 | 19:
            return MemberWritten(*AT, key["memberId"], member_details(value))
        case 6 | 12 | 20:
            return TargetEpochWritten(*AT, value["assignmentEpoch"])
        case 7 | 13:
            return TargetWritten(*AT, key["memberId"], partitions(value["topicPartitions"]))
        case 8 | 14:
            has, gives_back = (
                partitions(value.get(name, ())) for name in ("assignedPartitions", "partitionsPendingRevocation")
            )
            holding = MemberAssignment(value["memberEpoch"], value["state"] == 0, has, gives_back)
            return MemberAssignmentWritten(*AT, key["memberId"], holding)
        case 16:
            return PatternResolved(*AT, key["regularExpression"], frozenset(value["topics"]))
    return expected_of_streams(kind, key, value)


def expected_of_streams(kind: int, key: dict[str, Any], value: dict[str, Any]) -> object:
    """The same, of records that only share groups (15) or streams groups have."""
    match kind:
        case 15:
            initializing, initialized = (
                partitions(value[f"initializ{end}Topics"], "topicName") for end in ("ing", "ed")
            )
            deleting = frozenset(topic["topicName"] for topic in value["deletingTopics"])
            return ShareStatesWritten(*AT, ShareStates(initializing, initialized, deleting))
        case 21:
            spares = SpareTasks(tasks(value, "standbyTasks"), tasks(value, "warmupTasks"))
            return TargetWritten(*AT, key["memberId"], tasks(value, "activeTasks"), spares)
        case 22:
            spares = SpareTasks(tasks(value, "standbyTasks"), tasks(value, "warmupTasks"))
            active, pending = tasks(value, "activeTasks"), tasks(value, "activeTasksPendingRevocation")
            assignment = MemberAssignment(value["memberEpoch"], value["state"] == 1, active, pending, spares)
            return MemberAssignmentWritten(*AT, key["memberId"], assignment)
        case _:
            parts = tuple(
                Subtopology(
                    each["subtopologyId"],
                    tuple(sorted(each["sourceTopics"])),
                    tuple(sorted(one["name"] for one in each["repartitionSourceTopics"])),
                    tuple(sorted(one["name"] for one in each["stateChangelogTopics"])),
                )
                for each in value["subtopologies"]
            )
            return TopologyWritten(*AT, Topology(value["epoch"], parts))


def member_details(value: dict[str, Any]) -> MemberDetails:
    classic = value.get("classicMemberMetadata")
    return MemberDetails(
        value.get("instanceId"),
        value["clientId"],
        value["clientHost"].removeprefix("/"),
        frozenset(value.get("subscribedTopicNames", ())),
        value.get("subscribedTopicRegex") or None,
        known(value.get("rebalanceTimeoutMs")),
        classic["sessionTimeoutMs"] if classic else None,
        value.get("processId"),
        value.get("topologyEpoch"),
    )


def decoded(key: bytes, value: bytes | None) -> object:
    return decode(key, value, *AT)


@for_each("line", RECORDS)
def test_kafkas_own_bytes(line: dict[str, Any]) -> None:
    kind, of_key, of_value = line["type"], line["expected_key"], line["expected"]
    expected = tombstone_of(kind, of_key) if of_value is None else expected_of(kind, of_key, of_value)
    assert decoded(bytes.fromhex(line["key"]), raw(line["value"])) == expected


@for_each("line", RECORDS)
def test_group_is_in_the_key(line: dict[str, Any]) -> None:
    key = bytes.fromhex(line["key"])
    group = line["expected_key"].get("group", line["expected_key"].get("groupId"))
    prefix = key_prefix(line["type"], group)
    assert key.startswith(prefix)
    if line["type"] in (2, 3, 6, 11, 12, 15, 17, 20, 23):
        assert key == prefix
    assert not key.startswith(key_prefix(line["type"], group + "x"))
    assert not key.startswith(key_prefix(line["type"] + 1, group))


def test_every_type_and_version_is_in_the_vectors() -> None:
    seen = {(line["type"], line["version"]) for line in RECORDS if line["value"] is not None}
    assert seen == {
        *((1, version) for version in range(5)),
        *((2, version) for version in range(5)),
        *((kind.value, 0) for kind in RecordType if kind not in (1, 2)),
    }
    assert {line["type"] for line in RECORDS if line["value"] is None} == set(RecordType)


def as_record(line: dict[str, Any]) -> tuple[bytes, bytes]:
    return bytes.fromhex(line["key"]), bytes.fromhex(line["value"])


WITH_VALUE = [line for line in RECORDS if line["value"] is not None]


@for_each("line", WITH_VALUE)
def test_truncated(line: dict[str, Any]) -> None:
    key, value = as_record(line)
    for end in range(len(value)):
        with pytest.raises(MalformedRecord):
            decoded(key, value[:end])
    for end in range(len(key)):
        with pytest.raises(MalformedRecord):
            decoded(key[:end], value)


@for_each("line", WITH_VALUE)
def test_bytes_after_the_value_are_ignored(line: dict[str, Any]) -> None:
    key, value = as_record(line)
    assert decoded(key, value + b"\xff" * 9) == decoded(key, value)


@for_each("line", WITH_VALUE)
@for_each("version", [5, 32767, -1, -32768])
def test_a_version_without_a_layout_is_marked(line: dict[str, Any], version: int) -> None:
    key, value = as_record(line)
    why = f"a record of type {line['type']} has version {version}, newer than this program"
    assert decoded(key, struct.pack(">h", version) + value[2:]) == Unreadable(*AT, why, line["type"])


@pytest.mark.parametrize("line", SKIPPED, ids=names(SKIPPED))
def test_the_topics_of_kafka_40_are_skipped(line: dict[str, Any]) -> None:
    key = bytes.fromhex(line["key"])
    assert decoded(key, raw(line["value"])) is None


@pytest.mark.parametrize("kind", [4, 9, 18, 24, 32767, -1, -32768])
def test_unknown_types_are_skipped(kind: int) -> None:
    key = struct.pack(">h", kind) + b"\xff" * 40
    assert decoded(key, b"\xff" * 40) is None
    assert decoded(key, None) is None


@pytest.mark.parametrize("line", PARTITIONS, ids=names(PARTITIONS))
def test_partition_of_a_group(line: dict[str, Any]) -> None:
    assert partition_of(line["group"], 50) == line["of_50"]
    assert partition_of(line["group"], 7) == line["of_7"]


def test_partition_of_by_hand() -> None:
    assert partition_of("polygenelubricants", 50) == 0
    assert partition_of("abc", 50) == 96354 % 50
    # Two UTF-16 units, 0xD83E and 0xDD8A; one alone is no text, but Java hashes it.
    assert partition_of("🦊", 2**31) == (0xD83E * 31 + 0xDD8A)
    assert partition_of("\ud83e", 2**31) == 0xD83E


def test_key_prefix_of_an_impossible_group() -> None:
    key_prefix(2, "g" * 32767)
    with pytest.raises(ValueError, match="at most"):
        key_prefix(2, "g" * 32768)
    with pytest.raises(ValueError, match="surrogates"):
        key_prefix(2, "\ud83e")


# A tiny encoder: the primitives of KIP-482, put together by hand in each test.


def i8(number: int) -> bytes:
    return struct.pack(">b", number)


def i16(number: int) -> bytes:
    return struct.pack(">h", number)


def i32(number: int) -> bytes:
    return struct.pack(">i", number)


def i64(number: int) -> bytes:
    return struct.pack(">q", number)


def text(value: str) -> bytes:
    return i16(len(value.encode())) + value.encode()


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def compact(value: str | bytes | None) -> bytes:
    if value is None:
        return varint(0)
    data = value.encode() if isinstance(value, str) else value
    return varint(len(data) + 1) + data


def items(*parts: bytes) -> bytes:
    return varint(len(parts) + 1) + b"".join(parts)


def tags(fields: dict[int, bytes] | None = None) -> bytes:
    parts = [varint(tag) + varint(len(data)) + data for tag, data in (fields or {}).items()]
    return varint(len(parts)) + b"".join(parts)


COMMIT_KEY = i16(1) + text("g\U0001f98a") + text("orders") + i32(7)
GROUP_KEY = i16(2) + text("g")
ID = bytes(range(240, 256))
ID_TEXT = base64.urlsafe_b64encode(ID).decode().rstrip("=")


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16382, 16383, 16384, 40000])
@pytest.mark.parametrize("topic_id", [None, ID_TEXT])
def test_commit_of_version_4(size: int, topic_id: str | None) -> None:
    value = i16(4) + i64(2**62) + i32(3) + compact("m" * size) + i64(5) + tags({0: ID} if topic_id else None)
    assert decoded(COMMIT_KEY, value) == CommitWritten(
        *AT, "orders", 7, 2**62, "m" * size, topic_id, None, TransactionEnd.PLAIN, 3
    )


@pytest.mark.parametrize(
    ("found", "topic_id"),
    [
        ({7: b"x" * 300, 0: ID}, ID_TEXT),
        ({0: ID, 200: b""}, ID_TEXT),
        ({1: ID}, None),
        ({0: bytes(16)}, None),
    ],
)
def test_commit_with_other_tags(found: dict[int, bytes], topic_id: str | None) -> None:
    value = i16(4) + i64(1) + i32(-1) + compact("é") + i64(5) + tags(found)
    expected = CommitWritten(*AT, "orders", 7, 1, "é", topic_id, None, TransactionEnd.PLAIN)
    assert decoded(COMMIT_KEY, value) == expected


def test_arrays_longer_than_one_varint_byte() -> None:
    key = i16(8) + text("g") + text("m")
    numbers = tuple(range(1000, 1300))
    topic = ID + items(*map(i32, numbers)) + tags({0: items(*(i32(number * 2) for number in numbers)), 4: b"unknown"})
    other = bytes(16) + items(i32(1)) + tags()
    holding = MemberAssignment(
        5,
        False,
        frozenset({*(TopicPartition(ID_TEXT, number) for number in numbers), TopicPartition("", 1)}),
        frozenset(),
    )
    value = i16(0) + i32(5) + i32(4) + i8(2) + items(topic, other) + items() + tags()
    assert decoded(key, value) == MemberAssignmentWritten(*AT, "m", holding)


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        (None, None),
        (varint(0), None),
        (varint(1) + i32(45000) + items(compact("range") + compact(b"\x00\x01") + tags({3: b"?"})) + tags(), 45000),
    ],
)
def test_nullable_struct_in_a_tag(tag: bytes | None, expected: int | None) -> None:
    fields = compact(None) * 2 + compact("c") + compact("/h") + items(compact("t")) + compact(None)
    found = {} if tag is None else {0: tag}
    value = i16(0) + fields + i32(-1) + compact(None) + tags({**found, 1: b"later"})
    details = MemberDetails(None, "c", "h", frozenset({"t"}), None, None, expected)
    assert decoded(i16(5) + text("g") + text("m"), value) == MemberWritten(*AT, "m", details)


HEAD = i16(4) + i64(1) + i32(-1)
MALFORMED: dict[str, tuple[bytes, bytes | None]] = {
    "no key": (b"", None),
    "half a type": (b"\x00", None),
    "null group": (i16(2) + i16(-1), None),
    "negative length": (i16(2) + i16(-7), None),
    "group not UTF-8": (i16(2) + i16(2) + b"\xc3\x28", None),
    "partition missing": (i16(1) + text("g") + text("t"), None),
    "empty value": (GROUP_KEY, b""),
    "half a version": (GROUP_KEY, b"\x00"),
    "null metadata, v3": (COMMIT_KEY, i16(3) + i64(1) + i32(0) + i16(-1) + i64(0)),
    "negative length, v3": (COMMIT_KEY, i16(3) + i64(1) + i32(0) + i16(-8) + i64(0)),
    "null metadata, v4": (COMMIT_KEY, HEAD + varint(0) + i64(0) + tags()),
    "metadata not UTF-8": (COMMIT_KEY, HEAD + compact(b"\xff") + i64(0) + tags()),
    "topic id of 15 bytes": (COMMIT_KEY, HEAD + compact("") + i64(0) + tags({0: ID[:15]})),
    "topic id of no bytes": (COMMIT_KEY, HEAD + compact("") + i64(0) + tags({0: b""})),
    "tag without its bytes": (COMMIT_KEY, HEAD + compact("") + i64(0) + b"\x01\x05\x7f"),
    "more tags than bytes": (COMMIT_KEY, HEAD + compact("") + i64(0) + varint(2**31)),
    "varint of six bytes": (COMMIT_KEY, HEAD + compact("") + i64(0) + b"\xff" * 6),
    "varint without an end": (COMMIT_KEY, HEAD + b"\x80\x80"),
    "two billion members": (
        GROUP_KEY,
        i16(3) + text("") + i32(1) + i16(-1) + i16(-1) + i64(0) + i32(2**31 - 1),
    ),
    "null members": (GROUP_KEY, i16(3) + text("") + i32(1) + i16(-1) + i16(-1) + i64(0) + i32(-1)),
    "null members, v4": (GROUP_KEY, i16(4) + compact("") + i32(1) + varint(0) * 2 + i64(0) + varint(0)),
    "null protocol type": (GROUP_KEY, i16(3) + i16(-1) + i32(1) + i16(-1) + i16(-1) + i64(0) + i32(0)),
    "two billion partitions": (
        i16(7) + text("g") + text("m"),
        i16(0) + varint(2) + ID + varint(2**31) + tags(),
    ),
    "short hash": (i16(3) + text("g"), i16(0) + i32(1) + tags({0: b"\x00" * 7})),
    "classic member cut short": (
        i16(5) + text("g") + text("m"),
        i16(0) + varint(0) * 2 + compact("") * 2 + items() + varint(0) + i32(0) + varint(0) + tags({0: b"\x01\x00"}),
    ),
}


@pytest.mark.parametrize(("key", "value"), MALFORMED.values(), ids=MALFORMED)
def test_malformed(key: bytes, value: bytes | None) -> None:
    with pytest.raises(MalformedRecord) as caught:
        decoded(key, value)
    assert caught.value.code == "malformed-record"
    # A key that was refused once is refused again: nothing of it is kept.
    with pytest.raises(MalformedRecord):
        decoded(key, value)


def test_a_topic_id_and_back() -> None:
    assert raw_topic_id(ID_TEXT) == ID
    assert topic_id_of(raw_topic_id("-_-_YmFyYmF6cXV4Kysv8A")) == "-_-_YmFyYmF6cXV4Kysv8A"
