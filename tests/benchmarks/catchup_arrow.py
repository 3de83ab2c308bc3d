"""Reading one partition to Arrow, without Spark, against `kcat -C` of the same range, a process each.

kcat (Debian's) writes values to /dev/null and makes no columns of them. The aim is 0.8 of its speed.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

from kgroup.catchup.worker.arrow import record_batch
from kgroup.cluster.reader.batches import BatchReader
from kgroup.model.records import LostOffsets
from tests.benchmarks.measure import timed, turns
from tests.benchmarks.measurement import Hold, Measurement, of_rates
from tests.benchmarks.replaying import FOR_REPLAYS, broker, fill
from tests.helpers.kafka_world import KafkaWorld

TINY = {"records": 1_000, "runs": 1}


def measurements(records: int = 1_500_000, runs: int = 5) -> Iterator[Measurement]:
    """``records`` of 1 KiB, twice as many of 100 bytes; to Arrow, and counting only."""
    kcat = shutil.which("kcat") or shutil.which("kafkacat")
    if kcat is None:
        raise SystemExit("kcat is not on PATH: apt install kcat")
    with broker(FOR_REPLAYS) as bootstrap, KafkaWorld(bootstrap) as world:
        for size, count, hold in ((1024, records, 0.8), (100, 2 * records, 0.5)):
            topic = fill(world, f"bench-{size}", 1, count, size)

            def ours(arrow: bool, topic: str = topic, count: int = count) -> None:
                assert read(bootstrap, topic, count, arrow=arrow) == count

            def peer(topic: str = topic) -> None:
                where = ["-b", bootstrap, "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q"]
                settings = ["-X", "fetch.message.max.bytes=4194304", "-X", "queued.max.messages.kbytes=65536"]
                subprocess.run([kcat, "-C", *where, *settings], check=True, stdout=subprocess.DEVNULL)

            arrow, counted, theirs = turns(runs, timed(lambda: ours(True)), timed(lambda: ours(False)), timed(peer))
            name = f"{count:,} x {size} B"
            yield of_rates(f"to Arrow, {name}", count, arrow, theirs, Hold(at_least=hold))
            yield of_rates(f"counting only, {name}", count, counted, theirs)


def read(bootstrap: str, topic: str, end: int, *, arrow: bool) -> int:
    """How many records partition 0 has below this offset."""
    found = 0
    with BatchReader({"bootstrap.servers": bootstrap}, timeout_s=30) as reader:
        for batch in reader.batches(topic, 0, 0, end):
            assert not isinstance(batch, LostOffsets)
            if len(batch):
                found += record_batch(batch).num_rows if arrow else len(batch)
    return found
