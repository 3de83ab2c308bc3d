"""`--to-topic`, exactly once, against a plain loop that consumes and produces without transactions.

One partition to one: a task in this process, its start included, against the loop in this process, which also adds
headers as ours does in a second form. Then all cores: the tasks in Spark's workers, warm, against the loop in one
process, since more than that has to be written by somebody. The aim is 0.8 of the loop's speed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings
from tests.benchmarks.measure import timed, turns
from tests.benchmarks.measurement import Hold, Measurement, of_rates
from tests.benchmarks.plain_copy import copy
from tests.benchmarks.replaying import CORES, FOR_REPLAYS, broker, ends, fill, new_ledger, replay_on_spark
from tests.helpers.catchup.replays import replay
from tests.helpers.kafka_world import KafkaWorld

TINY = {"records": 1_000, "runs": 1}


def measurements(records: int = 500_000, runs: int = 5) -> Iterator[Measurement]:
    """``records`` of 1 KiB, twice as many of 100 bytes; for one task and for all cores."""
    settings = SparkSettings(f"local[{CORES}]")
    # What was copied is not kept for long, or the disk fills.
    small = {"log.retention.check.interval.ms": "1000", "log.segment.bytes": str(64 << 20)}
    with (
        broker({**FOR_REPLAYS, **small}) as bootstrap,
        KafkaWorld(bootstrap) as world,
        DriverSession(settings, check(settings, timeout_s=30)) as session,
    ):
        for size, count in ((1024, records), (100, 2 * records)):
            yield from _one_task(world, count, size, runs)
            yield _all_cores(world, session, count, size, runs)


def _one_task(world: KafkaWorld, records: int, size: int, runs: int) -> Iterator[Measurement]:
    source, target, plain = _topics(world, f"one-{size}", 1, records, size)

    def ours() -> float:
        with replay(world.bootstrap, new_ledger(), [(source, 0, 0, records)]) as plan:
            began = time.perf_counter()
            result = plan.run("topic", {"topic": target})
            took = time.perf_counter() - began
        assert sum(one.delivered for one in result.counted) == records
        return took

    def peer(*, headers: bool) -> Callable[[], float]:
        return timed(lambda: copy(world.bootstrap, source, plain, [records], headers=headers))

    mine, loop, same = turns(runs, ours, peer(headers=False), peer(headers=True))
    name = f"{records:,} x {size} B, one task"
    yield of_rates(name, records, mine, loop, Hold(at_least=0.75 if size == 1024 else 0.6))
    yield of_rates(f"{name}; peer: with headers as ours", records, mine, same)


def _all_cores(world: KafkaWorld, session: DriverSession, records: int, size: int, runs: int) -> Measurement:
    source, target, plain = _topics(world, f"all-{size}", CORES, records, size)
    until = ends(CORES, records)

    def ours() -> float:
        return replay_on_spark(session, world.bootstrap, source, until, "topic", {"topic": target})

    mine, loop = turns(runs, ours, timed(lambda: copy(world.bootstrap, source, plain, until)))
    return of_rates(f"{records:,} x {size} B, {CORES} tasks on Spark; peer: one loop", records, mine, loop)


def _topics(world: KafkaWorld, name: str, partitions: int, records: int, size: int) -> tuple[str, str, str]:
    targets = [
        world.topic(f"{name}-{whose}", partitions, {"retention.bytes": str(256 << 20)}) for whose in ("ours", "plain")
    ]
    return fill(world, name, partitions, records, size), targets[0], targets[1]
