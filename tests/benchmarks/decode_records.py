"""Decoding records of `__consumer_offsets`, against kafka-python's schemas; the floor slices and decodes nothing.

The records are what a busy partition holds: commits as Kafka 4.1+ writes them (v4) and as older brokers do (v3),
generations of a classic group of ten members, and a mix; then one group in a thousand, with the filter on raw keys
before decoding. "cold" is with keys that were never seen before.
"""

from __future__ import annotations

import io
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from kafka.protocol.api_data import ApiData

from kgroup.cluster.offsets_topic.decode import _read_key, decode, key_prefix
from kgroup.cluster.offsets_topic.records import GroupMetadata, RecordType
from kgroup.model.group_log import CommitWritten
from tests.benchmarks.measure import timed, turns
from tests.benchmarks.measurement import Measurement, per_second

Pair = tuple[bytes, bytes]
TINY = {"records": 100, "runs": 1}

# Kafka's schemas in the form that kafka-python reads; only what is measured here.
STRING, NULLABLE = {"type": "string"}, {"type": "string", "nullableVersions": "0+"}
GROUP_FIELDS: list[dict[str, Any]] = [{"name": "group", **STRING, "versions": "0+"}]
COMMIT_KEY_FIELDS = [
    *GROUP_FIELDS,
    {"name": "topic", **STRING, "versions": "0+"},
    {"name": "partition", "type": "int32", "versions": "0+"},
]
COMMIT_FIELDS: list[dict[str, Any]] = [
    {"name": "offset", "type": "int64", "versions": "0+"},
    {"name": "leaderEpoch", "type": "int32", "versions": "3+", "default": -1},
    {"name": "metadata", **STRING, "versions": "0+"},
    {"name": "commitTimestamp", "type": "int64", "versions": "0+"},
    {"name": "expireTimestamp", "type": "int64", "versions": "1", "default": -1},
    {"name": "topicId", "type": "uuid", "versions": "4+", "taggedVersions": "4+", "tag": 0},
]
MEMBER_FIELDS: list[dict[str, Any]] = [
    {"name": "memberId", **STRING, "versions": "0+"},
    {"name": "groupInstanceId", **NULLABLE, "versions": "3+"},
    {"name": "clientId", **STRING, "versions": "0+"},
    {"name": "clientHost", **STRING, "versions": "0+"},
    {"name": "rebalanceTimeout", "type": "int32", "versions": "1+"},
    {"name": "sessionTimeout", "type": "int32", "versions": "0+"},
    {"name": "subscription", "type": "bytes", "versions": "0+"},
    {"name": "assignment", "type": "bytes", "versions": "0+"},
]
METADATA_FIELDS: list[dict[str, Any]] = [
    {"name": "protocolType", **STRING, "versions": "0+"},
    {"name": "generation", "type": "int32", "versions": "0+"},
    {"name": "protocol", **NULLABLE, "versions": "0+"},
    {"name": "leader", **NULLABLE, "versions": "0+"},
    {"name": "currentStateTimestamp", "type": "int64", "versions": "2+"},
    {"name": "members", "type": "[]Member", "versions": "0+", "fields": MEMBER_FIELDS},
]


def schema_driven(fields: list[dict[str, Any]], newest: int, flexible: str) -> Any:
    """A kafka-python message class of these fields; it borrows the name of a message that the client has."""

    def patch(cls: type, found: dict[str, Any]) -> dict[str, Any]:
        return {**found, "validVersions": f"0-{newest}", "flexibleVersions": flexible, "fields": fields}

    attributes = {"json_patch": classmethod(patch), "__module__": __name__}
    return type(ApiData)("ConsumerProtocolSubscription", (ApiData,), attributes)


KEYS = {1: schema_driven(COMMIT_KEY_FIELDS, 0, "none"), 2: schema_driven(GROUP_FIELDS, 0, "none")}
VALUES = {1: schema_driven(COMMIT_FIELDS, 4, "4+"), 2: schema_driven(METADATA_FIELDS, 4, "4+")}


def ours(key: bytes, value: bytes) -> Any:
    return decode(key, value, 1, 2)


def theirs(key: bytes, value: bytes) -> Any:
    """As the prototype did it: the key's body is version 0, the value begins with its version."""
    kind = struct.unpack_from(">h", key)[0]
    found = KEYS[kind].decode(io.BytesIO(key[2:]), version=0, header=False)
    return found, VALUES[kind].decode(io.BytesIO(value), header=True)


def floor(key: bytes, value: bytes) -> Any:
    """The least that touches each record."""
    return struct.unpack_from(">h", key)[0], key[2:], struct.unpack_from(">h", value)[0], value[2:]


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def commit(number: int, version: int, keys: int) -> Pair:
    group = f"group-{number % keys % 1000}"
    key = b"\x00\x01" + text(group) + text("orders") + struct.pack(">i", number % keys // 1000)
    head = struct.pack(">hqi", version, number, 7)
    when = struct.pack(">q", 1_767_225_600_000 + number)
    if version == 3:
        return key, head + text("") + when
    return key, head + b"\x01" + when + b"\x01\x00\x10" + uuid.UUID(int=number % 20 + 1).bytes


def generation(number: int) -> Pair:
    def member(index: int) -> bytes:
        blob = struct.pack(">i", 60) + bytes(60)
        names = f"consumer-{index}-{uuid.UUID(int=index)}", f"consumer-{index}", "/10.0.0.1"
        identity = text(names[0]) + b"\xff\xff" + text(names[1]) + text(names[2])
        return identity + struct.pack(">ii", 300_000, 45_000) + blob * 2

    head = b"\x00\x03" + text("consumer") + struct.pack(">i", number) + text("range") + text("consumer-1")
    members = b"".join(member(index) for index in range(10))
    return b"\x00\x02" + text(f"group-{number % 1000}"), head + struct.pack(">qi", number, 10) + members


def rates(decode: Callable[[bytes, bytes], Any], pairs: list[Pair], runs: int, cold: bool = False) -> tuple[float, ...]:
    """Records a second of CPU time, of each pass."""

    def all_of_them() -> None:
        if cold:
            _read_key.cache_clear()
        for key, value in pairs:
            decode(key, value)

    (seconds,) = turns(runs, timed(all_of_them, time.process_time))
    return per_second(len(pairs), seconds)


def check(pairs: list[Pair]) -> None:
    """Both decode the same, or the comparison means nothing."""
    for key, value in pairs[:100]:
        _, their_value = theirs(key, value)
        match ours(key, value):
            case CommitWritten(offset=offset):
                assert offset == their_value.offset
            case GroupMetadata(members=members):
                assert [member.assignment for member in members] == [m.assignment for m in their_value.members]
            case other:
                raise AssertionError(other)


def measurements(records: int = 50_000, runs: int = 5) -> Iterator[Measurement]:
    """Each kind of records, then the filter; the schemas are slow, so they get a tenth of the records."""
    commits = [commit(number, 4, 5_000) for number in range(records)]
    workloads = {
        "commits v4": commits,
        "commits v3": [commit(number, 3, 5_000) for number in range(records)],
        "commits v4, cold": [commit(number, 4, records) for number in range(records)],
        "generations of 10 members": [generation(number) for number in range(records // 25)],
        "mix (1 generation in 50)": [
            generation(number) if number % 50 == 0 else pair for number, pair in enumerate(commits)
        ],
    }
    for name, pairs in workloads.items():
        check(pairs)
        events = rates(ours, pairs, runs, cold="cold" in name)
        schemas = rates(theirs, pairs[: max(1, records // 10)], runs)
        yield Measurement(name, "records/s", events, schemas, rates(floor, pairs, runs))

    prefixes = tuple(key_prefix(kind, "group-7") for kind in RecordType)
    one_of_many = rates(lambda k, v: ours(k, v) if k.startswith(prefixes) else None, commits, runs)
    yield Measurement("one group of 1,000", "records/s", one_of_many, floor=rates(floor, commits, runs))
