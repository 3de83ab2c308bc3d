"""``--to-topic``, exactly once, against a plain consume-produce loop without transactions.

    python -m tests.benchmarks.catchup_topic

One partition to one: a task in this process, its start included, against the loop in this process; then all cores: the
tasks in Spark's workers, warm, against the loop in one process, since more than that has to be written by somebody.
To hold: 0.6 of the loop's speed, task against loop; the aim is 0.8.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from kgroup.catchup.spark.job import run
from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings
from tests.benchmarks.plain_copy import copy
from tests.benchmarks.replaying import CORES, broker, ends, fill, new_ledger, say_rates, timed, turns
from tests.support.catchup.replays import replay
from tests.support.kafka_world import KafkaWorld


def main() -> None:
    """Print a line for each size of records, for one task and for all cores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=500_000, help="of 1 KiB; twice as many of 100 bytes")
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    settings = SparkSettings(f"local[{CORES}]")
    # What was copied is not kept for long, or the disk fills.
    small = {"log.retention.check.interval.ms": "1000", "log.segment.bytes": str(64 << 20)}
    with (
        broker(small) as bootstrap,
        KafkaWorld(bootstrap) as world,
        DriverSession(settings, check(settings, timeout_s=30)) as session,
    ):
        for size, records in ((1024, chosen.records), (100, 2 * chosen.records)):
            _one_task(world, records, size, chosen.runs)
            _all_cores(world, session, records, size, chosen.runs)


def _one_task(world: KafkaWorld, records: int, size: int, runs: int) -> None:
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
    say_rates(f"to a topic, exactly once, {records} x {size} B, one task", records, mine, loop, "0.6, aim 0.8")
    say_rates("  against the loop with headers of where a record lay, as ours", records, mine, same, "nothing")


def _all_cores(world: KafkaWorld, session: DriverSession, records: int, size: int, runs: int) -> None:
    source, target, plain = _topics(world, f"all-{size}", CORES, records, size)
    until = ends(CORES, records)
    spans = [(source, number, 0, end) for number, end in enumerate(until)]

    def ours() -> float:
        with replay(world.bootstrap, new_ledger(), spans, [[number] for number in range(CORES)]) as plan:
            specs = [plan.spec("topic", {"topic": target}, number) for number in range(CORES)]
            began = time.perf_counter()
            answers = run(session, specs)
            took = time.perf_counter() - began
        assert sum(one.delivered for answer in answers for one in answer.result.counted) == records, answers
        return took

    mine, loop = turns(runs, ours, timed(lambda: copy(world.bootstrap, source, plain, until)))
    say_rates(f"  on Spark, {CORES} tasks, warm, against one loop", records, mine, loop, "nothing")


def _topics(world: KafkaWorld, name: str, partitions: int, records: int, size: int) -> tuple[str, str, str]:
    targets = [
        world.topic(f"{name}-{whose}", partitions, {"retention.bytes": str(256 << 20)}) for whose in ("ours", "plain")
    ]
    return fill(world, name, partitions, records, size), targets[0], targets[1]


if __name__ == "__main__":
    main()
