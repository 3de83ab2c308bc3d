"""Our reader in Spark's workers against Spark's own Kafka connector, counting only.

    python -m tests.benchmarks.catchup_read

Both warm, on this machine's cores, a task a partition, read_committed. To hold: 1.2 of the connector's speed with
records of 1 KiB, 1.0 with 100 bytes. The peer is the quicker of its two ways to look at every record and keep none.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kgroup.catchup.spark.in_worker import Stop, Tell
from kgroup.catchup.spark.job import run
from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings
from kgroup.cluster.reader.batches import BatchReader, LostBatchRange
from kgroup.groups.catchup.model import Chunk
from tests.benchmarks.replaying import CORES, Connector, Times, broker, ends, fill, say_rates, timed, turns
from tests.support.kafka_world import KafkaWorld


@dataclass(frozen=True, slots=True)
class Reading:
    """A task that reads, and delivers nothing."""

    number: int
    chunks: tuple[Chunk, ...]
    config: Mapping[str, Any] = field(repr=False)


def count(task: Reading, tell: Tell, stop: Stop) -> int:
    """How many records the task's chunks have."""
    found = 0
    with BatchReader(task.config, timeout_s=30) as reader:
        for chunk in task.chunks:
            for batch in reader.batches(chunk.topic, chunk.partition, chunk.start, chunk.end):
                assert not isinstance(batch, LostBatchRange)
                found += len(batch)
    return found


def main() -> None:
    """Print a line for each size of records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_500_000, help="of 1 KiB; three times as many of 100 bytes")
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    settings = SparkSettings(f"local[{CORES}]")
    with (
        broker() as bootstrap,
        KafkaWorld(bootstrap) as world,
        DriverSession(settings, check(settings, timeout_s=30)) as session,
        Connector(bootstrap, CORES) as peer,
    ):
        for size, records, hold in ((1024, chosen.records, "1.2"), (100, 3 * chosen.records, "1.0")):
            topic, until = fill(world, f"bench-{size}", CORES, records, size), ends(CORES, records)
            config = {"bootstrap.servers": bootstrap}
            tasks = [Reading(n, (Chunk(n, topic, n, 0, end),), config) for n, end in enumerate(until)]

            def ours(tasks: list[Reading] = tasks, records: int = records) -> None:
                answers = run(session, tasks, work=count)
                assert sum(answer.result for answer in answers) == records, answers

            where = (topic, json.dumps(until))
            taken = turns(chosen.runs, timed(ours), peer.job("count", *where), peer.job("count-sql", *where))
            quickest: Times = min(taken[1:], key=lambda times: times.median)
            say_rates(f"read {records} x {size} B, {CORES} tasks", records, taken[0], quickest, hold)


if __name__ == "__main__":
    main()
