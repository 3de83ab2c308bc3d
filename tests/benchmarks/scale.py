"""What the verbs that read or plan for every group cost: ``python -m tests.benchmarks.scale``.

100, 1,000 and 10,000 groups of 100 partitions each on one broker. For each verb: wall time, CPU time, peak memory of
the process, and requests. The cost of a group has to be the same at each size. To hold at 10,000 groups: 300 MB.

The groups share a topic, and a tenth of them has read it to its end. Their offsets are committed over one connection,
with requests that are made here byte by byte, since an administration client needs minutes for a million offsets.
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.measure import Figure, once
from tests.support.kafka_proxy import OFFSET_COMMIT, KafkaProxy, proxied_broker, read_frame
from tests.support.kafka_world import KafkaWorld

TOPIC = "bench"
PARTITIONS = 100
RECORDS = 10
"""In each partition of the topic."""

SIZES = (100, 1_000, 10_000)
HOLD_MB = 300
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


def main() -> None:
    """Print one line for each verb and size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, nargs="*", default=SIZES, help="numbers of groups, ascending")
    parser.add_argument("--verbs", nargs="*", choices=VERBS, default=[*VERBS], metavar="VERB", help=", ".join(VERBS))
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kgroup-bench-") as directory:
        os.environ["KGROUP_STATE_DIR"] = directory
        with proxied_broker(Path(directory), {"offsets.topic.num.partitions": "50"}) as broker:
            _run(broker.proxy, broker.world, broker.bootstrap, chosen.groups, chosen.verbs)


def _run(proxy: KafkaProxy, world: KafkaWorld, bootstrap: str, sizes: Sequence[int], verbs: Sequence[str]) -> None:
    world.topic(TOPIC, PARTITIONS)
    for partition in range(PARTITIONS):
        world.produce(TOPIC, RECORDS, partition)
    first: dict[str, Figure] = {}
    made = 0
    for size in sorted(sizes):
        began = time.perf_counter()
        commit_offsets(world, range(made, size))
        made = size
        print(f"{size} groups x {PARTITIONS} partitions, made in {time.perf_counter() - began:.0f} s", flush=True)
        for verb in verbs:
            figure = once(command(world.bootstrap, verb), exits=(0, 6, 7))
            requests = count_requests(proxy, bootstrap, verb)
            print(_line(verb, size, figure, requests, first.setdefault(verb, figure), min(sizes)), flush=True)


def command(bootstrap: str, verb: str) -> list[str]:
    """The command line of one of VERBS."""
    return [sys.executable, "-m", "kgroup", *VERBS[verb], "-b", bootstrap]


def count_requests(proxy: KafkaProxy, bootstrap: str, verb: str) -> int:
    """How many requests reach the broker, of both clients."""
    proxy.reset()
    once(command(bootstrap, verb), exits=(0, 6, 7))
    return proxy.forwarded.total()


def _line(verb: str, size: int, figure: Figure, requests: int, first: Figure, smallest: int) -> str:
    each_us = figure.cpu_s / size * 1e6
    growth = (figure.peak_mb - first.peak_mb) * 1024 / (size - smallest) if size > smallest else 0.0
    return (
        f"  {verb:<15} wall {figure.wall_s:7.2f} s  CPU {figure.cpu_s:7.2f} s, {each_us:6.0f} us a group  "
        f"peak {figure.peak_mb:6.0f} MB, {growth:6.1f} KB a group more  "
        f"{requests:5d} requests  {figure.size / 1e6:7.1f} MB out"
    )


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


if __name__ == "__main__":
    main()
