"""A whole replay of 200,000 small records to a topic, over few and over very many partitions, a process of kgroup each.

The floor is the first number of partitions. CPU time is of kgroup, its JVM and its workers.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence

from tests.benchmarks.measure import kgroup
from tests.benchmarks.measurement import Hold, Measurement
from tests.benchmarks.replaying import FOR_REPLAYS, QUICK_CHANGES, broker, fill, new_ledger
from tests.helpers.kafka_world import KafkaWorld

SIZE = 100
TINY = {"partitions": [2, 4], "records": 100}


def measurements(
    partitions: Sequence[int] = (12, 100, 1_000), records: int = 200_000, order: str = "partition"
) -> Iterator[Measurement]:
    """``partitions``: numbers of them; ``records`` are of 100 bytes, as many in all for each number."""
    with broker({**FOR_REPLAYS, **QUICK_CHANGES}) as bootstrap, KafkaWorld(bootstrap) as world:
        os.environ["KGROUP_BOOTSTRAP_SERVER"] = bootstrap
        first: tuple[float, ...] = ()
        for count in partitions:
            wall_s, cpu_s = _replay(world, count, records, order)
            holds = (Hold(at_most=15, of="ours"),) if count >= 1_000 else ()
            name = f"{count:,} partitions, {records:,} x {SIZE} B, `--order {order}`"
            yield Measurement(name, "s", (wall_s,), (), first, holds, {"cpu_s": cpu_s})
            first = first or (wall_s,)


def _replay(world: KafkaWorld, partitions: int, records: int, order: str) -> tuple[float, float]:
    """Seconds of wall time and CPU of one replay."""
    source = fill(world, f"source-{partitions}", partitions, records, SIZE)
    target, group = world.topic(f"copy-{partitions}", partitions), f"bench-{partitions}"
    world.commit(group, dict.fromkeys([(source, partition) for partition in range(partitions)], 0))
    words = ["catchup", "start", group, "--to-topic", target, "--order", order, "--ledger-topic", new_ledger()]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        ended = subprocess.run(kgroup(*words, "--execute"), stdout=said, stderr=subprocess.STDOUT, check=False)
        wall_s = time.perf_counter() - began
        said.seek(0)
        if ended.returncode:
            raise SystemExit(f"exit {ended.returncode}\n{said.read()[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    world.delete_topic(source)
    world.delete_topic(target)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
