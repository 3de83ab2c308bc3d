"""What the verbs that read or plan for every group cost: 100, 1,000 and 10,000 groups of 100 partitions on one broker.

The CPU time of a group has to be the same at each size: the floor is that of the smallest.

The groups share a topic, and a tenth of them has read it to its end. Their offsets are committed over one connection,
with requests that are made here byte by byte, since an administration client needs minutes for a million offsets.
"""

from __future__ import annotations

import os
import socket
import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks.measure import kgroup, once
from tests.benchmarks.measurement import Hold, Measurement
from tests.helpers.kafka_proxy import OFFSET_COMMIT, KafkaProxy, ProxiedBroker, proxied_broker, read_frame
from tests.helpers.kafka_world import KafkaWorld

TOPIC = "bench"
PARTITIONS = 100
RECORDS = 10
"""In each partition of the topic."""

HOLDS = {1_000: (3, 150, 150), 10_000: (30, 300, 800)}
"""Bounds by the number of groups: seconds of CPU, MB of a verb that reads, and of one that plans and keeps its rows."""

PLANS = ("reset", "reset json", "delete")
HOLDS_CPU_S = ("describe json", "describe csv", "lag", "doctor", *PLANS)

TINY = {"groups": [3, 6]}
_WINDOW = 50
"""Commits that are sent before the first answer is read."""

VERBS: dict[str, tuple[str, ...]] = {
    "list": ("list",),
    "list json": ("list", "-o", "json"),
    "describe": ("describe", "-A", "-o", "table"),
    "describe json": ("describe", "-A", "-o", "json"),
    "describe csv": ("describe", "-A", "-o", "csv"),
    "describe state": ("describe", "-A", "--state"),
    "lag": ("lag", "-A"),
    "lag json": ("lag", "-A", "-o", "json"),
    "lag csv": ("lag", "-A", "-o", "csv", "--by", "partition"),
    "doctor": ("doctor",),
    "doctor json": ("doctor", "-o", "json"),
    "export": ("export", "-A"),
    "reset": ("reset", "--all-groups", "--all-topics", "--shift-by", "-1"),
    "reset json": ("reset", "--all-groups", "--all-topics", "--shift-by", "-1", "-o", "json"),
    "delete": ("delete", "--regex", "bench-.*"),
}
"""Name, and the words of its command line. Plans only: nothing is changed."""


def measurements(
    groups: Sequence[int] = (100, 1_000, 10_000), verbs: Sequence[str] = (*VERBS,)
) -> Iterator[Measurement]:
    """``groups``: numbers of groups, ascending; ``verbs``: names of VERBS."""
    with tempfile.TemporaryDirectory(prefix="kgroup-bench-") as directory:
        os.environ["KGROUP_STATE_DIR"] = directory
        with proxied_broker(Path(directory), {"offsets.topic.num.partitions": "50"}) as broker:
            broker.world.topic(TOPIC, PARTITIONS)
            for partition in range(PARTITIONS):
                broker.world.produce(TOPIC, RECORDS, partition)
            first: dict[str, float] = {}
            made = 0
            for size in groups:
                commit_offsets(broker.world, range(made, size))
                made = size
                for verb in verbs:
                    yield _measure(broker, verb, size, first)


def _measure(broker: ProxiedBroker, verb: str, size: int, first: dict[str, float]) -> Measurement:
    """One run; ``first`` keeps the CPU time a group of each verb's first number of groups, which is the floor."""
    found = once(command(broker.world.bootstrap, verb), exits=(0, 6, 7))
    each_us = found.cpu_s / size * 1e6
    also = {
        "wall_s": found.wall_s,
        "cpu_s": found.cpu_s,
        "peak_mb": found.peak_mb,
        "requests": count_requests(broker.proxy, broker.bootstrap, verb),
        "written_mb": found.size / 1e6,
    }
    floor = (first[verb],) if verb in first else ()
    first.setdefault(verb, each_us)
    holds = []
    if size in HOLDS:
        cpu_s, read_mb, plan_mb = HOLDS[size]
        holds.append(Hold(at_most=plan_mb if verb in PLANS else read_mb, of="peak_mb"))
        if verb in HOLDS_CPU_S:
            holds.append(Hold(at_most=cpu_s, of="cpu_s"))
    return Measurement(f"`{verb}`, {size:,} groups", "us CPU a group", (each_us,), (), floor, tuple(holds), also)


def command(bootstrap: str, verb: str) -> list[str]:
    """The command line of one of VERBS."""
    return kgroup(*VERBS[verb], "-b", bootstrap)


def count_requests(proxy: KafkaProxy, bootstrap: str, verb: str) -> int:
    """How many requests reach the broker, of both clients."""
    proxy.reset()
    once(command(bootstrap, verb), exits=(0, 6, 7))
    return proxy.forwarded.total()


def commit_offsets(world: KafkaWorld, numbers: range) -> None:
    """Commit all partitions of the topic for each of these groups: ``bench-00017`` for 17.

    Each tenth group has read everything, the others miss 1 to 9 records of each partition.
    """
    if not numbers:
        return
    world.commit(group_name(numbers[0]), {(TOPIC, 0): 0})  # waits until there are coordinators
    host, _, port = world.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), 30) as connection:
        for first in range(0, len(numbers), _WINDOW):
            window = numbers[first : first + _WINDOW]
            connection.sendall(b"".join(_commit_request(number) for number in window))
            for number in window:
                answer = read_frame(connection)
                assert not any(_error_codes(answer)), f"{group_name(number)}: {_error_codes(answer)}"


def group_name(number: int) -> str:
    """The name of a group; names sort as numbers do."""
    return f"bench-{number:05d}"


def _commit_request(number: int) -> bytes:
    """OffsetCommit version 7, as an administrator commits: generation -1, no member."""
    offset = RECORDS - number % RECORDS
    rows = b"".join(struct.pack(">iqih", partition, offset, -1, 0) for partition in range(PARTITIONS))
    body = _text(group_name(number)) + struct.pack(">i", -1) + _text("") + struct.pack(">h", -1)
    body += struct.pack(">i", 1) + _text(TOPIC) + struct.pack(">i", PARTITIONS) + rows
    request = struct.pack(">hhi", OFFSET_COMMIT, 7, number) + _text("bench") + body
    return struct.pack(">i", len(request)) + request


def _error_codes(answer: bytes) -> list[int]:
    """The error codes of OffsetCommit's answer, version 7: length, correlation id, throttle time, one topic."""
    at = 4 + 4 + 4 + 4 + 2 + len(TOPIC.encode()) + 4
    return [code for _, code in struct.iter_unpack(">ih", answer[at:])]


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()
