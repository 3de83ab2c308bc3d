"""From an application's start to its first fresh record: without kgroup and with it, for gaps of 50 to 10M records.

Fresh is what was produced after the start. The application is one process in Python that does no work for a record, so
a real one needs longer without kgroup, and no longer with it. ``in the application`` is the listener of
``kgroup.consumer``; ``before it`` is ``catchup start --if-behind --release-only`` as an init container has it, then the
application; ``by hand`` is ``catchup start --to-topic``, and the application when it says RELEASED, beside the replay.
The floor is the application of a group that is not behind. The broker does not wait for more members.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from confluent_kafka import Producer

from tests.benchmarks.measure import kgroup, once, turns
from tests.benchmarks.measurement import Hold, Measurement
from tests.benchmarks.replaying import FOR_REPLAYS, QUICK_CHANGES, broker, fill, new_ledger
from tests.helpers.kafka_world import KafkaWorld

PARTITIONS, TOPIC, SIZE = 4, "bench", 100
BOUND = "10"
TINY = {"gaps": [80], "runs": 1}
_EVERY_S = 0.005
_PATIENCE_S = 600.0


def measurements(gaps: Sequence[int] = (50, 1_000_000, 10_000_000), runs: int = 5) -> Iterator[Measurement]:
    """Each gap, in each form; records of 100 bytes."""
    with broker({**FOR_REPLAYS, **QUICK_CHANGES}) as bootstrap, KafkaWorld(bootstrap) as world:
        os.environ |= {"KGROUP_BOOTSTRAP_SERVER": bootstrap, "KGROUP_LEDGER_TOPIC": new_ledger()}
        fill(world, TOPIC, PARTITIONS, max(gaps), SIZE)
        world.topic("copy", PARTITIONS)
        with _producing(bootstrap):
            for gap in gaps:
                yield from _measure(_Bench(world), gap, runs)


def _measure(bench: _Bench, gap: int, runs: int) -> Iterator[Measurement]:
    forms: dict[str, Callable[[str], float]] = {
        "in the application": partial(bench.application, behind=BOUND),
        "before it": bench.before,
        "by hand": bench.by_hand,
    }
    without, not_behind = partial(bench.once, bench.application, gap), partial(bench.once, bench.application, 0)
    *ours, peer, floor = turns(runs, *(partial(bench.once, form, gap) for form in forms.values()), without, not_behind)
    yield Measurement(f"gap of {gap:,}, without kgroup; floor: not behind", "s", tuple(peer), floor=tuple(floor))
    for name, times in zip(forms, ours, strict=True):
        holds = (Hold(at_most=0.5),) if gap >= 10_000_000 else ()
        yield Measurement(f"gap of {gap:,}, {name}; peer: without", "s", tuple(times), tuple(peer), holds=holds)


class _Bench:
    def __init__(self, world: KafkaWorld) -> None:
        self._world = world

    def once(self, form: Callable[[str], float], gap: int) -> float:
        """Seconds of one form, with a group that is so many records behind."""
        group = f"bench-{secrets.token_hex(4)}"
        behind = {(TOPIC, number): self._world.end(TOPIC, number) - gap // PARTITIONS for number in range(PARTITIONS)}
        self._world.commit(group, behind)
        return form(group)

    def application(self, group: str, behind: str | None = None, since_ms: int | None = None) -> float:
        """Seconds from the start of the application to its first record since then, or since ``since_ms``."""
        began = time.perf_counter()
        what = {
            "settings": {"bootstrap.servers": self._world.bootstrap, "group.id": group, "log_level": 0},
            "topic": TOPIC,
            "since_ms": since_ms or round(time.time() * 1000),
            "behind": behind,
            "ledger": os.environ["KGROUP_LEDGER_TOPIC"],
        }
        line = [sys.executable, "-m", "tests.helpers.catchup.fresh_application", json.dumps(what)]
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            said = process.stdout.readline()
            took = time.perf_counter() - began
            process.kill()
        assert said == "FRESH\n", said
        return took

    def before(self, group: str) -> float:
        """Seconds from the start of the init container."""
        began, since_ms = time.perf_counter(), round(time.time() * 1000)
        start = ("catchup", "start", group, "--if-behind", BOUND, "--if-empty", "--release-only", "--execute")
        once(kgroup(*start))
        self.application(group, since_ms=since_ms)
        return time.perf_counter() - began

    def by_hand(self, group: str) -> float:
        """Seconds from the start of the command that also replays."""
        began, since_ms = time.perf_counter(), round(time.time() * 1000)
        line = kgroup("catchup", "start", group, "--to-topic", "copy", "--execute")
        with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr
            while "RELEASED" not in (said := process.stderr.readline()):
                assert said, f"{line} ended"
            threading.Thread(target=process.stderr.read, daemon=True).start()
            self.application(group, since_ms=since_ms)
            took = time.perf_counter() - began
            process.send_signal(signal.SIGTERM)
            process.wait(_PATIENCE_S)
        abandon = kgroup("catchup", "cancel", group, "--abandon", "--execute")
        subprocess.run(abandon, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return took


@contextmanager
def _producing(bootstrap: str) -> Iterator[None]:
    """200 records a second, evenly over the partitions, until the end of the block."""
    ended = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
        number = 0
        while not ended.wait(_EVERY_S):
            producer.produce(TOPIC, b"fresh", partition=number % PARTITIONS)
            producer.poll(0)
            number += 1
        producer.flush(_PATIENCE_S)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
