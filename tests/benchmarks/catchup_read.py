"""Reading by a catch-up's workers, against Spark's Kafka connector, as it comes and tuned.

Both warm, on this machine's cores, two tasks a core, read_committed; nothing is written. Ours counts the bytes of all
keys and values; the connector fills all columns for a writer that drops them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from kgroup.catchup.spark.job import run
from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings
from kgroup.catchup.worker.task_spec import TaskSpec
from kgroup.cluster.reader.batches import Batch, BatchReader
from tests.benchmarks.measure import turns
from tests.benchmarks.measurement import Measurement, of_rates
from tests.benchmarks.replaying import CORES, FOR_REPLAYS, Connector, broker, ends, fill, new_ledger
from tests.helpers.catchup.replays import replay
from tests.helpers.kafka_world import KafkaWorld

TOPIC, TASKS = "bench", 2 * CORES
TUNED = {
    "kafka.max.poll.records": "20000",
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.max.partition.fetch.bytes": str(16 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
}
"""Larger fetches, and more records of one at a time."""

TINY = {"records": 1_000, "runs": 1}


def measurements(records: int = 600_000, size: int = 1024, runs: int = 5) -> Iterator[Measurement]:
    """``size`` is the number of bytes of a record."""
    until = ends(TASKS, records)
    settings = SparkSettings(f"local[{CORES}]")
    with (
        broker(FOR_REPLAYS) as bootstrap,
        KafkaWorld(bootstrap) as world,
        DriverSession(settings, check(settings, timeout_s=30)) as session,
        Connector(bootstrap, CORES) as peer,
    ):
        fill(world, TOPIC, TASKS, records, size)
        spans = [(TOPIC, number, 0, end) for number, end in enumerate(until)]
        with replay(bootstrap, new_ledger(), spans, [[number] for number in range(TASKS)]) as plan:
            specs = [plan.spec("files", {}, number) for number in range(TASKS)]

            def ours() -> float:
                began = time.perf_counter()
                answers = run(session, specs, work=read)
                took = time.perf_counter() - began
                assert sum(answer.result[0] for answer in answers) == records, answers
                return took

            as_it_comes, tuned = (
                peer.job(TOPIC, json.dumps(until), "", "", json.dumps(options)) for options in ({}, TUNED)
            )
            mine, usual, faster = turns(runs, ours, as_it_comes, tuned)
        name = f"{records:,} x {size} B, {TASKS} tasks"
        yield of_rates(f"{name}; peer: the connector as it comes", records, mine, usual)
        yield of_rates(f"{name}; peer: the connector, tuned", records, mine, faster)


def read(spec: TaskSpec) -> tuple[int, int]:
    """The ``TaskWork``: records and bytes of the task's chunks."""
    records = size = 0
    with BatchReader(spec.config, timeout_s=spec.timeout_s) as reader:
        for chunk in spec.chunks:
            for batch in reader.batches(chunk.topic, chunk.partition, chunk.start, chunk.end):
                assert isinstance(batch, Batch)
                records, size = records + len(batch), size + batch.size()
    return records, size
