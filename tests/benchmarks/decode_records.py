"""Decoding records of `__consumer_offsets`; the floor slices and decodes nothing.

The records are what a busy partition holds: commits as Kafka 4.1+ writes them (v4) and as older brokers do (v3),
generations of a classic group of ten members, and a mix; then one group in a thousand, with the filter on raw keys
before decoding. "cold" is with keys that were never seen before.
"""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from kgroup.cluster.offsets_topic.decode import _read_key, decode, key_prefix
from kgroup.cluster.offsets_topic.records import RecordType
from tests.benchmarks.measure import timed, turns
from tests.benchmarks.measurement import Measurement, per_second

Pair = tuple[bytes, bytes]
TINY = {"records": 100, "runs": 1}


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


def event(key: bytes, value: bytes) -> Any:
    return decode(key, value, 1, 2)


def rates(decode: Callable[[bytes, bytes], Any], pairs: list[Pair], runs: int, cold: bool = False) -> tuple[float, ...]:
    """Records a second of CPU time, of each pass."""

    def all_of_them() -> None:
        if cold:
            _read_key.cache_clear()
        for key, value in pairs:
            decode(key, value)

    (seconds,) = turns(runs, timed(all_of_them, time.process_time))
    return per_second(len(pairs), seconds)


def measurements(records: int = 50_000, runs: int = 5) -> Iterator[Measurement]:
    """Each kind of records, then the filter."""
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
        ours = rates(event, pairs, runs, cold="cold" in name)
        yield Measurement(name, "records/s", ours, floor=rates(floor, pairs, runs))

    prefixes = tuple(key_prefix(kind, "group-7") for kind in RecordType)
    one_of_many = rates(lambda k, v: event(k, v) if k.startswith(prefixes) else None, commits, runs)
    yield Measurement("one group of 1,000", "records/s", one_of_many, floor=rates(floor, commits, runs))
