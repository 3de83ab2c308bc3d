"""What benchmarks share: a broker, topics filled quickly, and Spark with its own Kafka connector."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from kgroup.catchup.spark.job import run
from kgroup.catchup.spark.session import DriverSession
from kgroup.sandbox import Sandbox
from kgroup.settings import paths
from tests.helpers.catchup.replays import replay
from tests.helpers.command_line import QuietReporter
from tests.helpers.kafka_world import KafkaWorld

CORES = os.cpu_count() or 2
PYSPARK = "4.0.0"
"""What the published results were measured with. Connectors up to 4.2.0 are on Maven, 4.3.0's is not."""

CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{PYSPARK}"
FOR_REPLAYS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.retention.check.interval.ms": "3600000",
}
"""Properties of a broker that does little besides what a replay asks of it."""

QUICK_CHANGES = {"group.initial.rebalance.delay.ms": "0", "log.segment.delete.delay.ms": "1000"}
"""... and where it does not wait before a group starts, or before it deletes."""

_SENDING = {
    "linger.ms": 20,
    "batch.size": 900_000,
    "batch.num.messages": 100_000,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 2_000_000,
    "log_level": 0,
}
_AT_ONCE, _WAITING = 20_000, 1_000_000


@contextmanager
def broker(properties: Mapping[str, str] | None = None) -> Iterator[str]:
    """A broker for the time of the block, and a state directory; its address."""
    with tempfile.TemporaryDirectory(prefix="kgroup-bench-") as directory:
        sandbox = Sandbox(Path(directory))
        os.environ["KGROUP_STATE_DIR"] = directory
        try:
            status = sandbox.up(properties=properties or {}, reporter=QuietReporter())
            assert status.bootstrap_servers
            yield status.bootstrap_servers
        finally:
            sandbox.down(wipe=True, reporter=QuietReporter())
            del os.environ["KGROUP_STATE_DIR"]


def fill(world: KafkaWorld, topic: str, partitions: int, records: int, size: int) -> str:
    """A topic of so many records in all, with keys, and values of ``size`` bytes that can't be compressed; its name.

    Records of 9 bytes or less are one and the same, compressed: millions of them are made in seconds.
    """
    world.topic(topic, partitions)
    tiny = size < 10
    codec = "lz4" if tiny else "none"
    producer = Producer({"bootstrap.servers": world.bootstrap, **_SENDING, "compression.type": codec})
    rows: list[dict[str, Any]] = [{"value": b"x", "key": b""}] * _AT_ONCE
    if not tiny:
        rows = [{"value": secrets.token_bytes(size), "key": b"%08d" % number} for number in range(_AT_ONCE)]
    for partition, left in enumerate(ends(partitions, records)):
        while left:
            if len(producer) > _WAITING // max(1, size // 100):
                producer.poll(0.01)
            else:
                left -= (more := min(left, _AT_ONCE))
                assert producer.produce_batch(topic, rows[:more], partition) == more
    assert producer.flush(120) == 0
    return topic


def new_ledger() -> str:
    """The name of a ledger that no plan is in."""
    return f"bench-ledger-{secrets.token_hex(4)}"


def ends(partitions: int, records: int) -> list[int]:
    """Where the partitions of a topic that ``fill`` made end."""
    return [records // partitions + (number < records % partitions) for number in range(partitions)]


def replay_on_spark(
    session: DriverSession, bootstrap: str, topic: str, until: Sequence[int], sink: str, options: Mapping[str, str]
) -> float:
    """Replay the topic below these ends in Spark's workers, a task a partition; seconds of the tasks."""
    spans = [(topic, number, 0, end) for number, end in enumerate(until)]
    with replay(bootstrap, new_ledger(), spans, [[number] for number in range(len(until))]) as plan:
        specs = [plan.spec(sink, options, number) for number in range(len(until))]
        began = time.perf_counter()
        answers = run(session, specs)
        took = time.perf_counter() - began
    assert sum(one.delivered for answer in answers for one in answer.result.counted) == sum(until), answers
    return took


def connector_python() -> Path:
    """Python with the PySpark of ``CONNECTOR``, in an environment of its own that is made once."""
    home = paths.cache_dir() / "benchmarks" / f"pyspark-{PYSPARK}"
    python, done = home / "bin" / "python", home / "complete"
    if not done.exists():
        print(f"installing PySpark {PYSPARK} into {home}, once", file=sys.stderr)
        venv.create(home, with_pip=True, clear=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", f"pyspark=={PYSPARK}"], check=True, stdout=sys.stderr
        )
        done.touch()
    return python


class Connector:
    """Spark with its own Kafka connector, in a process of its own, warm between the jobs. A context manager."""

    def __init__(self, bootstrap: str, slots: int) -> None:
        script = Path(__file__).with_name("connector_peer.py")
        words = [str(connector_python()), str(script), CONNECTOR, bootstrap, f"local[{slots}]", *ivy_settings()]
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed with the process
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=without_pyspark()
        )

    def __enter__(self) -> Connector:
        self._answer()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(60)
        self._log.close()

    def job(self, *words: Any) -> Callable[[], float]:
        """A job of the peer, ``TOPIC ENDS DIR CODEC OPTIONS``: write Parquet, or read only without DIR; its seconds."""

        def run() -> float:
            assert self._process.stdin
            self._process.stdin.write("\t".join(map(str, words)) + "\n")
            self._process.stdin.flush()
            return float(self._answer())

        return run

    def _answer(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            tail = self._log.read().splitlines()[-15:]
            raise SystemExit("\n".join(["the connector's Spark ended:", *tail]))
        return line.strip()


def without_pyspark() -> dict[str, str]:
    """The environment without what says where PySpark is: it would be the wrong one."""
    wrong = ("PYSPARK", "SPARK_", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if not name.startswith(wrong)}


def ivy_settings() -> Sequence[str]:
    """A settings file for Ivy, where there is one: looked for where the sandbox does, since Spark does not itself."""
    named = os.environ.get("KGROUP_IVY_SETTINGS") or str(Path.home() / ".ivy2" / "ivysettings.xml")
    return [named] if Path(named).is_file() else []
