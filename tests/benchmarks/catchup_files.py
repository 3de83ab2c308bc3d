"""Parquet written by our workers against Spark's Kafka connector writing Parquet.

    python -m tests.benchmarks.catchup_files

Both warm, on this machine's cores, a task a partition, read_committed, the same codec. Ours counts in the ledger, knows
each file's digest and has it on the disk when it says so. To hold: 1.5 of the connector's speed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time

from kgroup.catchup.spark.job import run
from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings
from tests.benchmarks.replaying import CORES, Connector, broker, ends, fill, new_ledger, say_rates, turns
from tests.support.catchup.replays import replay
from tests.support.kafka_world import KafkaWorld

TOPIC, CODEC = "bench", "snappy"


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=1024, help="bytes of a record")
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    records, until = chosen.records, ends(CORES, chosen.records)
    settings = SparkSettings(f"local[{CORES}]")
    with (
        broker() as bootstrap,
        KafkaWorld(bootstrap) as world,
        DriverSession(settings, check(settings, timeout_s=30)) as session,
        Connector(bootstrap, CORES) as peer,
        tempfile.TemporaryDirectory(prefix="kgroup-bench-") as directory,
    ):
        fill(world, TOPIC, CORES, records, chosen.size)
        spans = [(TOPIC, number, 0, end) for number, end in enumerate(until)]

        def ours() -> float:
            with replay(bootstrap, new_ledger(), spans, [[number] for number in range(CORES)]) as plan:
                options = {"dir": f"{directory}/ours", "format": "parquet", "compression": CODEC}
                specs = [plan.spec("files", options, number) for number in range(CORES)]
                began = time.perf_counter()
                answers = run(session, specs)
                took = time.perf_counter() - began
            assert sum(one.delivered for answer in answers for one in answer.result.counted) == records, answers
            shutil.rmtree(f"{directory}/ours")
            return took

        theirs = peer.job("parquet", TOPIC, json.dumps(until), f"{directory}/theirs", CODEC)
        mine, peers = turns(chosen.runs, ours, theirs)
        say_rates(f"Parquet ({CODEC}), {records} x {chosen.size} B, {CORES} tasks", records, mine, peers, "1.5")


if __name__ == "__main__":
    main()
