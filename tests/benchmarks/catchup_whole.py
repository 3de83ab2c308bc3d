"""A whole replay to a topic, from command to verification, against one plain process that consumes and produces.

``catchup start GROUP --to-topic TOPIC --execute`` as a process of its own, cold, with Spark's start, the ledger, the
release and the verification; over as many partitions as there are cores. Two more rows are the line through the first
and the last number of records: what a start costs, and what a million records cost. A start is also compared with
PySpark alone, with its own settings and an empty job. Memory is that of the driver, the JVM, and the largest worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.settings import SparkSettings
from tests.benchmarks.measure import kgroup, turns
from tests.benchmarks.measurement import Hold, Measurement
from tests.benchmarks.replaying import CORES, FOR_REPLAYS, QUICK_CHANGES, broker, ends, fill
from tests.helpers.kafka_world import KafkaWorld

SIZE, SOURCE = 1024, "bench"
TINY = {"records": [100, 200], "runs": 1}
_SPARK_ALONE = """
from pyspark import SparkContext
with SparkContext("local[*]") as spark:
    spark.parallelize([], 2).mapPartitions(lambda _: [1]).collect()
"""
_LOOK_EACH_S = 0.1


def measurements(records: Sequence[int] = (500_000, 1_000_000, 2_000_000), runs: int = 3) -> Iterator[Measurement]:
    """``records``: numbers of them, of 1 KiB, ascending."""
    check(SparkSettings(), timeout_s=30)
    with broker({**FOR_REPLAYS, **QUICK_CHANGES}) as bootstrap, KafkaWorld(bootstrap) as world:
        os.environ["KGROUP_BOOTSTRAP_SERVER"] = bootstrap
        fill(world, SOURCE, CORES, records[-1], SIZE)
        rows = []
        for count in records:
            rows.append(_measured(world, count, records[-1], runs))
            yield rows[-1]
    ours = _line(records, rows[0].ours, rows[-1].ours)
    peer = _line(records, rows[0].peer, rows[-1].peer)
    for name, at, hold in (("without any record", 0, 3.5), ("a million records more", 1, 4.6)):
        yield Measurement(name, "s", (ours[at],), (peer[at],), holds=(Hold(at_most=hold, of="ours"),))
    (spark,) = turns(runs, lambda: _process([sys.executable, "-c", _SPARK_ALONE], {}))
    yield Measurement("without any record; peer: PySpark alone", "s", (ours[0],), spark)


def _line(records: Sequence[int], few: Sequence[float], many: Sequence[float]) -> tuple[float, float]:
    """Seconds of no record, and of a million more, from the seconds of the first and the last number of records."""
    each_s = (statistics.median(many) - statistics.median(few)) / (records[-1] - records[0])
    return statistics.median(few) - records[0] * each_s, each_s * 1e6


def _measured(world: KafkaWorld, records: int, most: int, runs: int) -> Measurement:
    peaks: dict[str, float] = {}
    until = ends(CORES, records)

    def ours() -> float:
        group = f"bench-{secrets.token_hex(4)}"
        behind = [end - gap for end, gap in zip(ends(CORES, most), until, strict=True)]
        world.commit(group, {(SOURCE, partition): offset for partition, offset in enumerate(behind)})
        with _target(world, f"ours-{group}") as target:
            took = _process(kgroup("catchup", "start", group, "--to-topic", target, "--execute"), peaks)
            _require(world, target, records)
        return took

    def plain() -> float:
        with _target(world, f"plain-{secrets.token_hex(4)}") as target:
            words = [world.bootstrap, SOURCE, target, json.dumps(until)]
            return _process([sys.executable, "-m", "tests.benchmarks.plain_copy", *words], {})

    mine, loop = turns(runs, ours, plain)
    holds = (Hold(at_most=1),) if records >= 2_000_000 else ()
    return Measurement(f"{records:,} x {SIZE} B", "s", mine, loop, holds=holds, also=peaks)


@contextlib.contextmanager
def _target(world: KafkaWorld, name: str) -> Iterator[str]:
    yield world.topic(name, CORES)
    world.delete_topic(name)


def _process(words: Sequence[str], peaks: dict[str, float]) -> float:
    """Seconds of a process that must end well; ``peaks`` keep the largest memory that was seen."""
    with tempfile.TemporaryFile() as said:
        began = time.perf_counter()
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=said)
        while True:
            _look(process.pid, peaks)
            try:
                status = process.wait(_LOOK_EACH_S)
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


def _look(root: int, peaks: dict[str, float]) -> None:
    """At the resident memory of a process and of all below it, as they are now; in MB."""
    for pid in _family(root):
        with contextlib.suppress(OSError, StopIteration):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            peak = int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024
            name = "driver_mb" if pid == root else "jvm_mb" if words[0].endswith(b"java") else "worker_mb"
            peaks[name] = max(peaks.get(name, 0.0), peak)


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
