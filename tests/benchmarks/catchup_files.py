"""Parquet written by a catch-up's workers, against Spark's Kafka connector writing Parquet.

Both warm, on this machine's cores, a task a partition, read_committed, the same codec. Ours counts in the ledger, knows
each file's digest and has it on the disk when it says so.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator

from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings
from tests.benchmarks.measure import turns
from tests.benchmarks.measurement import Hold, Measurement, of_rates
from tests.benchmarks.replaying import CORES, FOR_REPLAYS, Connector, broker, ends, fill, replay_on_spark
from tests.helpers.kafka_world import KafkaWorld

TOPIC, CODEC = "bench", "snappy"


TINY = {"records": 1_000, "runs": 1}


def measurements(records: int = 1_000_000, size: int = 1024, runs: int = 5) -> Iterator[Measurement]:
    """``size`` is the number of bytes of a record."""
    until = ends(CORES, records)
    settings = SparkSettings(f"local[{CORES}]")
    with (
        broker(FOR_REPLAYS) as bootstrap,
        KafkaWorld(bootstrap) as world,
        DriverSession(settings, check(settings, timeout_s=30)) as session,
        Connector(bootstrap, CORES) as peer,
        tempfile.TemporaryDirectory(prefix="kgroup-bench-") as directory,
    ):
        fill(world, TOPIC, CORES, records, size)
        options = {"dir": f"{directory}/ours", "format": "parquet", "compression": CODEC}

        def ours() -> float:
            took = replay_on_spark(session, bootstrap, TOPIC, until, "files", options)
            shutil.rmtree(f"{directory}/ours")
            return took

        theirs = peer.job(TOPIC, json.dumps(until), f"{directory}/theirs", CODEC, "{}")
        mine, peers = turns(runs, ours, theirs)
        name = f"Parquet ({CODEC}), {records:,} x {size} B, {CORES} tasks"
        yield of_rates(name, records, mine, peers, Hold(at_least=1.5))
