"""A whole replay to a topic, from the command to the proof, against one plain consumer-producer process.

    python -m tests.benchmarks.catchup_whole

``catchup start GROUP --to-topic TOPIC --execute`` as a process of its own, with Spark's start, the ledger, the release
and the proof; records of 1 KiB over as many partitions as there are cores. Prints wall times, from how many records on
ours is faster, the largest memory of driver, JVM and workers, and what twice the gap costs. To hold: faster from 2M
records on, twice the time for twice the gap, and memory that does not grow.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO

from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.settings import SparkSettings
from tests.benchmarks.replaying import CORES, Times, broker, ends, fill, say_times
from tests.support.kafka_world import KafkaWorld

NUMBERS = (500_000, 1_000_000, 2_000_000)
SIZE, SOURCE = 1024, "bench"
_LOOK_S = 0.1


@dataclass
class Peaks:
    """The largest resident memory that was seen, in MB; of the workers the largest one's, and how many there were."""

    mb: dict[str, float] = field(default_factory=dict)
    workers: set[int] = field(default_factory=set)

    def look(self, root: int) -> None:
        """Look at a process and all below it, as they are now."""
        for pid in _family(root):
            with contextlib.suppress(OSError, StopIteration):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                peak = int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024
                kind = "driver" if pid == root else "JVM" if words[0].endswith(b"java") else "worker"
                if kind == "worker":
                    self.workers.add(pid)
                self.mb[kind] = max(self.mb.get(kind, 0.0), peak)

    def __str__(self) -> str:
        mb = {kind: f"{self.mb.get(kind, 0):.0f} MB" for kind in ("driver", "JVM", "worker")}
        # One of them is the daemon that forks the others.
        return f"driver {mb['driver']}, JVM {mb['JVM']}, the largest of {len(self.workers)} workers {mb['worker']}"


def main() -> None:
    """Print a line for each number of records, then what follows from them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="*", default=NUMBERS)
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    check(SparkSettings(), timeout_s=30)
    with (
        broker({"group.initial.rebalance.delay.ms": "0", "log.segment.delete.delay.ms": "1000"}) as bootstrap,
        KafkaWorld(bootstrap) as world,
    ):
        os.environ["KGROUP_BOOTSTRAP_SERVER"] = bootstrap
        fill(world, SOURCE, CORES, max(chosen.records), SIZE)
        medians: list[tuple[int, float, float]] = []
        for records in chosen.records:
            ours, peer, peaks = _measured(world, records, max(chosen.records), chosen.runs)
            say_times(f"whole replay, {records} x {SIZE} B, cold", ours, peer, "below 1 from 2M on")
            print(f"  memory at most: {peaks}", flush=True)
            medians.append((records, ours.median, peer.median))
        _conclude(medians)


def _measured(world: KafkaWorld, records: int, most: int, runs: int) -> tuple[Times, Times, Peaks]:
    peaks, ours, theirs = Peaks(), [], []
    until = ends(CORES, records)
    for number in range(runs):
        group = f"bench-{records}-{number}"
        behind = [end - gap for end, gap in zip(ends(CORES, most), until, strict=True)]
        world.commit(group, {(SOURCE, partition): offset for partition, offset in enumerate(behind)})
        with _target(world, f"ours-{group}") as target:
            words = ["catchup", "start", group, "--to-topic", target, "--execute"]
            ours.append(_process([sys.executable, "-m", "kgroup", *words], peaks))
            _require(world, target, records)
        with _target(world, f"plain-{group}") as target:
            words = [world.bootstrap, SOURCE, target, json.dumps(until)]
            theirs.append(_process([sys.executable, "-m", "tests.benchmarks.plain_copy", *words], Peaks()))
    return Times(tuple(ours)), Times(tuple(theirs)), peaks


@contextlib.contextmanager
def _target(world: KafkaWorld, name: str) -> Iterator[str]:
    yield world.topic(name, CORES)
    world.delete_topic(name)


def _process(words: Sequence[str], peaks: Peaks) -> float:
    """Seconds of a process that must end well."""
    with tempfile.TemporaryFile() as said:
        began = time.perf_counter()
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=said)
        while True:
            peaks.look(process.pid)
            try:
                status = process.wait(_LOOK_S)
                break
            except subprocess.TimeoutExpired:
                continue
        took = time.perf_counter() - began
        if status:
            raise SystemExit(f"exit {status}: {' '.join(words)}\n{_tail(said)}")
    return took


def _tail(said: IO[bytes]) -> str:
    said.seek(0)
    return said.read().decode(errors="replace")[-2000:]


def _require(world: KafkaWorld, topic: str, records: int) -> None:
    """A copy that is quick because something is missing is no copy. Control records of the transactions count too."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": world.bootstrap, "group.id": "unused", "log_level": 0})
    try:
        found = sum(consumer.get_watermark_offsets(TopicPartition(topic, n), 10)[1] for n in range(CORES))
        assert found >= records, (found, records)
    finally:
        consumer.close()


def _family(root: int) -> list[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def _conclude(medians: Sequence[tuple[int, float, float]]) -> None:
    (first, ours_first, peer_first), (last, ours_last, peer_last) = medians[0], medians[-1]
    if first == last:
        return
    ours_each, peer_each = (ours_last - ours_first) / (last - first), (peer_last - peer_first) / (last - first)
    ours_start, peer_start = ours_first - first * ours_each, peer_first - first * peer_each
    print(
        f"kgroup takes {ours_start:.1f} s and {1e6 * ours_each:.2f} s a million records, "
        f"the plain process {peer_start:.1f} s and {1e6 * peer_each:.2f} s"
    )
    if peer_each > ours_each:
        print(f"kgroup is faster from {(ours_start - peer_start) / (peer_each - ours_each) / 1e6:.1f}M records on")
    else:
        print(f"kgroup is never faster on {CORES} cores: a record costs it {ours_each / peer_each:.2f} of the peer's")
    for (few, took, _), (many, took_more, _) in pairwise(medians):
        grown = (took_more - ours_start) / (took - ours_start)
        print(f"{many / few:g} times the gap takes {grown:.2f} times the time, start-up apart")


if __name__ == "__main__":
    main()
