"""Our reader to Arrow, without Spark, against ``kcat -C`` of the same range.

    python -m tests.benchmarks.catchup_arrow

One partition, one process each. kcat (Debian's) writes values to /dev/null and makes no columns of them. To hold:
0.6 of its speed with records of 1 KiB and 0.5 with 100 bytes; the aim is 0.8.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess

from kgroup.catchup.worker.arrow import record_batch
from kgroup.cluster.reader.batches import BatchReader, LostBatchRange
from tests.benchmarks.replaying import broker, fill, say_rates, timed, turns
from tests.support.kafka_world import KafkaWorld


def main() -> None:
    """Print a line for each size of records, to Arrow and counting only."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_500_000, help="of 1 KiB; twice as many of 100 bytes")
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    kcat = shutil.which("kcat") or shutil.which("kafkacat")
    if kcat is None:
        raise SystemExit("kcat is not on PATH: apt install kcat")
    with broker() as bootstrap, KafkaWorld(bootstrap) as world:
        for size, records, hold in ((1024, chosen.records, "0.6, aim 0.8"), (100, 2 * chosen.records, "0.5, aim 0.8")):
            topic = fill(world, f"bench-{size}", 1, records, size)

            def ours(arrow: bool, topic: str = topic, records: int = records) -> None:
                assert read(bootstrap, topic, records, arrow=arrow) == records

            def peer(topic: str = topic) -> None:
                where = ["-b", bootstrap, "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q"]
                settings = ["-X", "fetch.message.max.bytes=4194304", "-X", "queued.max.messages.kbytes=65536"]
                subprocess.run([kcat, "-C", *where, *settings], check=True, stdout=subprocess.DEVNULL)

            times = turns(chosen.runs, timed(lambda: ours(True)), timed(lambda: ours(False)), timed(peer))
            say_rates(f"to Arrow, {records} x {size} B", records, times[0], times[2], hold)
            say_rates(f"  counting only, {records} x {size} B", records, times[1], times[2], "nothing")


def read(bootstrap: str, topic: str, end: int, *, arrow: bool) -> int:
    """How many records partition 0 has below this offset."""
    found = 0
    with BatchReader({"bootstrap.servers": bootstrap}, timeout_s=30) as reader:
        for batch in reader.batches(topic, 0, 0, end):
            assert not isinstance(batch, LostBatchRange)
            if len(batch):
                found += record_batch(batch).num_rows if arrow else len(batch)
    return found


if __name__ == "__main__":
    main()
