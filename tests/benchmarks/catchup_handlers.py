"""Slow handlers, `--to-python` in one task, against confluentinc's parallel-consumer at the same concurrency.

Records of 0 to 5 ms in one partition, with 1,000 keys; timed from the first record to the last, so that no start
counts. Ours keeps its progress in the ledger.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from kgroup.catchup.worker.task_spec import Handling
from kgroup.groups.catchup.model import Order
from kgroup.settings import paths
from kgroup.support.java_home import find_java
from tests.benchmarks import sleeping
from tests.benchmarks.measure import turns
from tests.benchmarks.measurement import Hold, Measurement
from tests.benchmarks.replaying import (
    FOR_REPLAYS,
    broker,
    connector_python,
    ivy_settings,
    new_ledger,
    without_pyspark,
)
from tests.helpers.catchup.replays import producer, replay
from tests.helpers.kafka_world import KafkaWorld

PACKAGE = "io.confluent.parallelconsumer:parallel-consumer-core:0.5.3.0"
EXCLUDED = "io.stubbs.truth:truth-generator-api"
TOPIC, KEYS = "bench", 1_000
CASES = (
    (Order.KEY, "KEY", 16),
    (Order.KEY, "KEY", 128),
    (Order.NONE, "UNORDERED", 16),
    (Order.NONE, "UNORDERED", 128),
)


TINY = {"records": 100, "runs": 1}


def measurements(records: int = 10_000, runs: int = 3) -> Iterator[Measurement]:
    """Each order and concurrency."""
    class_path = ":".join(_jars())
    with broker(FOR_REPLAYS) as bootstrap, KafkaWorld(bootstrap) as world:
        world.topic(TOPIC)
        sending = producer(bootstrap, linger_ms=20)
        for number in range(records):
            sending.produce(TOPIC, b"%0100d" % number, b"%d" % (number * 31 % KEYS), 0)
        assert sending.flush(30) == 0
        for order, name, lanes in CASES:
            ours, peer = turns(
                runs,
                _ours(bootstrap, order, lanes, records),
                _theirs(bootstrap, class_path, name, lanes, records),
            )
            title = f"{records:,} x 0-5 ms, `--order {order}`, {lanes} at once"
            yield Measurement(title, "s", ours, peer, holds=(Hold(at_most=1),))


def _ours(bootstrap: str, order: Order, lanes: int, records: int) -> Callable[[], float]:
    def run() -> float:
        sleeping.calls.clear()
        with replay(bootstrap, new_ledger(), [(TOPIC, 0, 0, records)]) as plan:
            function = {"function": "tests.benchmarks.sleeping:work"}
            plan.run("python", function, order=order, handling=Handling(lanes=lanes))
        assert sum(number for _, _, number in sleeping.calls) == records
        return max(ended for _, ended, _ in sleeping.calls) - min(began for began, _, _ in sleeping.calls)

    return run


def _theirs(bootstrap: str, class_path: str, order: str, lanes: int, records: int) -> Callable[[], float]:
    program = Path(__file__).with_name("ParallelConsumerPeer.java")
    words = [str(find_java(os.environ).executable), "-cp", class_path, str(program)]

    def run() -> float:
        done = subprocess.run(
            [*words, bootstrap, TOPIC, order, str(lanes), str(records)], check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        return float(done.stdout.split()[-1])

    return run


def _jars() -> list[str]:
    """Fetched once, as Spark fetches packages."""
    known = paths.cache_dir() / "benchmarks" / (PACKAGE.replace(":", "-") + ".jars")
    found = known.read_text().split("\n") if known.exists() else []
    if not found or not all(Path(jar).exists() for jar in found):
        script = Path(__file__).with_name("jars_of.py")
        words = [str(connector_python()), str(script), PACKAGE, EXCLUDED, *ivy_settings()]
        done = subprocess.run(words, check=False, capture_output=True, text=True, env=without_pyspark())
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        found = [line for line in done.stdout.splitlines() if line.endswith(".jar")]
        known.write_text("\n".join(found))
    return found
