"""A whole replay to a topic, over few and over very many partitions, a process of kgroup each.

    python -m tests.benchmarks.catchup_partitions

Small records, as many in all for each number of partitions. Prints seconds of wall time and of CPU (kgroup, its JVM and
workers), and the ratio to the first number of partitions. To hold: 1,000 partitions of 200 records within 15 s on two
cores, 12 partitions not slower than before.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time

from tests.benchmarks.replaying import broker, fill, new_ledger
from tests.support.kafka_world import KafkaWorld

RECORDS, SIZE = 200_000, 100
PARTITIONS = (12, 100, 1_000)


def main() -> None:
    """Print a line for each number of partitions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="*", default=PARTITIONS)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--order", default="partition")
    chosen = parser.parse_args()
    fast = {"group.initial.rebalance.delay.ms": "0", "log.segment.delete.delay.ms": "1000"}
    with broker(fast) as bootstrap, KafkaWorld(bootstrap) as world:
        os.environ["KGROUP_BOOTSTRAP_SERVER"] = bootstrap
        first: float | None = None
        for partitions in chosen.partitions:
            wall_s, cpu_s = _replay(world, partitions, chosen.records, chosen.order)
            first = first or wall_s
            print(
                f"{partitions} partitions, {chosen.records} x {SIZE} B, order {chosen.order}: {wall_s:.1f} s, "
                f"CPU {cpu_s:.1f} s, {wall_s / first:.2f} of the first",
                flush=True,
            )


def _replay(world: KafkaWorld, partitions: int, records: int, order: str) -> tuple[float, float]:
    """Seconds of wall time and CPU of one replay."""
    source = fill(world, f"source-{partitions}", partitions, records, SIZE)
    target, group = world.topic(f"copy-{partitions}", partitions), f"bench-{partitions}"
    world.commit(group, dict.fromkeys([(source, partition) for partition in range(partitions)], 0))
    words = ["catchup", "start", group, "--to-topic", target, "--order", order, "--ledger-topic", new_ledger()]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        ended = subprocess.run(
            [sys.executable, "-m", "kgroup", *words, "--execute"], stdout=said, stderr=subprocess.STDOUT, check=False
        )
        wall_s = time.perf_counter() - began
        said.seek(0)
        if ended.returncode:
            raise SystemExit(f"exit {ended.returncode}\n{said.read()[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    world.delete_topic(source)
    world.delete_topic(target)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
