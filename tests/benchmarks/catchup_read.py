"""Reading in Spark's workers, counting only, against Spark's own Kafka connector.

Both warm, on this machine's cores, a task a partition, read_committed. The peer is the quicker of its two ways to look
at every record and keep none.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kgroup.catchup.spark.in_worker import MustStop, Tell
from kgroup.catchup.spark.job import run
from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings
from kgroup.cluster.reader.batches import BatchReader
from kgroup.groups.catchup.model import Chunk
from kgroup.model.records import LostOffsets
from tests.benchmarks.measure import timed, turns
from tests.benchmarks.measurement import Hold, Measurement, of_rates
from tests.benchmarks.replaying import CORES, FOR_REPLAYS, Connector, broker, ends, fill
from tests.helpers.kafka_world import KafkaWorld

TINY = {"records": 1_000, "runs": 1}


@dataclass(frozen=True, slots=True)
class Reading:
    """A task that reads, and delivers nothing."""

    number: int
    chunks: tuple[Chunk, ...]
    config: Mapping[str, Any] = field(repr=False)


def count(task: Reading, tell: Tell, stop: MustStop) -> int:
    """How many records the task's chunks have."""
    found = 0
    with BatchReader(task.config, timeout_s=30) as reader:
        for chunk in task.chunks:
            for batch in reader.batches(chunk.topic, chunk.partition, chunk.start, chunk.end):
                assert not isinstance(batch, LostOffsets)
                found += len(batch)
    return found


def measurements(records: int = 1_500_000, runs: int = 5) -> Iterator[Measurement]:
    """``records`` of 1 KiB, three times as many of 100 bytes."""
    settings = SparkSettings(f"local[{CORES}]")
    with (
        broker(FOR_REPLAYS) as bootstrap,
        KafkaWorld(bootstrap) as world,
        DriverSession(settings, check(settings, timeout_s=30)) as session,
        Connector(bootstrap, CORES) as peer,
    ):
        for size, total, hold in ((1024, records, 1.2), (100, 3 * records, 1.0)):
            topic, until = fill(world, f"bench-{size}", CORES, total, size), ends(CORES, total)
            config = {"bootstrap.servers": bootstrap}
            tasks = [Reading(n, (Chunk(topic, n, 0, end, n),), config) for n, end in enumerate(until)]

            def ours(tasks: list[Reading] = tasks, total: int = total) -> None:
                answers = run(session, tasks, work=count)
                assert sum(answer.result for answer in answers) == total, answers

            where = (topic, json.dumps(until))
            mine, *theirs = turns(runs, timed(ours), peer.job("count", *where), peer.job("count-sql", *where))
            quicker = min(theirs, key=statistics.median)
            name = f"{total:,} x {size} B, {CORES} tasks"
            yield of_rates(name, total, mine, quicker, Hold(at_least=hold))
