"""Live consumers of a group while its gap is replayed: from produced to read, p99, against the same without a replay.

100 records a second are produced and read by a member of the group that is caught up. Broker, Spark's workers, producer
and consumer share this machine's cores, so this is the worst place for a replay. One replay has no limit, one has
20 MiB/s, and one yields to the lag of the group. All fits into the page cache, which is not compared.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer

from tests.benchmarks.measure import kgroup
from tests.benchmarks.measurement import Measurement
from tests.benchmarks.replaying import CORES, FOR_REPLAYS, QUICK_CHANGES, broker, fill, new_ledger
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

TINY = {"records": 20_000, "seconds": 2.0, "runs": 1}
MODES = {
    "no limit": (),
    "--rate 20MiB/s": ("--rate", "20MiB/s"),
    "--yield-to lag-time=200ms": ("--yield-to", "lag-time=200ms"),
}
_EVERY_S = 0.01
_PATIENCE_S = 120.0


def measurements(records: int = 1_500_000, seconds: float = 15.0, runs: int = 3) -> Iterator[Measurement]:
    """``records`` of 1 KiB in the gap; the live consumer is watched for so many ``seconds``, or to the replay's end."""
    with broker({**FOR_REPLAYS, **QUICK_CHANGES}) as bootstrap, KafkaWorld(bootstrap) as world:
        os.environ |= {"KGROUP_BOOTSTRAP_SERVER": bootstrap, "KGROUP_LEDGER_TOPIC": new_ledger()}
        bench = _Bench(world, fill(world, "gap", CORES, records, 1024), world.topic("live", 1), seconds)
        alone: list[float] = []
        beside: dict[str, list[_Seen]] = {mode: [] for mode in MODES}
        for run in range(runs):
            alone.append(bench.alone(f"alone-{run}"))
            for number, mode in enumerate(MODES):
                beside[mode].append(bench.beside(f"svc-{run}-{number}", MODES[mode]))
        yield Measurement("p99 without a replay", "ms", tuple(alone))
        for mode, seen in beside.items():
            also = {"mib_per_s": statistics.median(one.mib_per_s for one in seen)}
            yield Measurement(f"p99, {mode}", "ms", tuple(one.p99_ms for one in seen), peer=tuple(alone), also=also)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a live consumer had while a replay ran, and how fast that was."""

    p99_ms: float
    mib_per_s: float


class _Bench:
    def __init__(self, world: KafkaWorld, gap: str, live: str, seconds: float) -> None:
        self._world, self._gap, self._live, self._seconds = world, gap, live, seconds

    def alone(self, group: str) -> float:
        """The p99 without a replay."""
        with _live_consumer(self._world.bootstrap, self._live, group) as latencies:
            wait_for(lambda: len(latencies) > 10, "live records", _PATIENCE_S)
            return self._p99(latencies, lambda: False)

    def beside(self, group: str, words: tuple[str, ...]) -> _Seen:
        """The p99 while the gap is replayed."""
        world, copy = self._world, self._world.topic(f"copy-{group}", CORES)
        world.commit(group, {(self._gap, number): 0 for number in range(CORES)} | {(self._live, 0): 0})
        line = kgroup("catchup", "start", group, "--topic", self._gap, "--to-topic", copy, "--execute", *words)
        with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr
            while "RELEASED" not in (said := process.stderr.readline()):
                assert said, f"{line} ended"
            threading.Thread(target=process.stderr.read, daemon=True).start()
            with _live_consumer(world.bootstrap, self._live, group) as latencies:
                wait_for(lambda: len(latencies) > 10 and self._written(copy) > 0, "a replay", _PATIENCE_S)
                began, before = time.perf_counter(), self._written(copy)
                p99_ms = self._p99(latencies, lambda: process.poll() is not None)
                mib = (self._written(copy) - before) / 1024 / (time.perf_counter() - began)
            process.send_signal(signal.SIGTERM)
            process.wait(_PATIENCE_S)
        subprocess.run(
            kgroup("catchup", "cancel", group, "--abandon", "--execute"), stdout=subprocess.DEVNULL, check=False
        )
        world.delete_topic(copy)
        return _Seen(p99_ms, mib)

    def _written(self, copy: str) -> int:
        return sum(self._world.end(copy, number) for number in range(CORES))

    def _p99(self, latencies: list[float], ended: Callable[[], bool]) -> float:
        first, until = len(latencies), time.perf_counter() + self._seconds
        wait_for(lambda: time.perf_counter() >= until or ended(), "the end", self._seconds + _PATIENCE_S)
        seen = sorted(latencies[first:])
        assert len(seen) >= 10, f"{len(seen)} live records"
        return seen[min(len(seen) - 1, len(seen) * 99 // 100)]


@contextmanager
def _live_consumer(bootstrap: str, topic: str, group: str) -> Iterator[list[float]]:
    """Produce and read while the block runs; the milliseconds of each record, in the order in which they were read."""
    latencies: list[float] = []
    ended = threading.Event()
    quiet = {"bootstrap.servers": bootstrap, "log_level": 0}

    def produce() -> None:
        producer = Producer({**quiet, "linger.ms": 0, "acks": "all"})
        while not ended.wait(_EVERY_S):
            producer.produce(topic, b"%d" % time.perf_counter_ns())
            producer.poll(0)
        producer.flush(_PATIENCE_S)

    def consume() -> None:
        settings = {"group.id": group, "auto.offset.reset": "latest", "auto.commit.interval.ms": 50}
        consumer = Consumer({**quiet, **settings})
        consumer.subscribe([topic])
        while not ended.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                latencies.append((time.perf_counter_ns() - int(message.value())) / 1e6)
        consumer.close()

    threads = [threading.Thread(target=each, daemon=True) for each in (produce, consume)]
    for thread in threads:
        thread.start()
    try:
        yield latencies
    finally:
        ended.set()
        for thread in threads:
            thread.join(_PATIENCE_S)
