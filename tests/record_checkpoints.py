"""``python -m tests.record_checkpoints [-k REGEX] DIRECTORY [VERSION ...]``: record tests/data/checkpoints again.

Each is the checkpoint of a real query, which reads a broker of its own, as Spark left it, except that:

- ``.N.crc`` files, which Hadoop writes for each file of a local file system, are left out;
- files below ``state/`` are empty (their names are real), since kgroup reads only whether there are any;
- a temporary directory in a file source's log is called ``/recorded``.

DIRECTORY keeps an environment with PySpark for each version but the tests' own; they are made once.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.benchmarks.replaying import broker, ivy_settings
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.places import DATA
from tests.helpers.streaming import QuerySpec, StreamingQuery, kafka_source, streaming_query, topic_source
from tests.helpers.waiting import wait_for

RECORDED = DATA / "checkpoints"
CONNECTORS = {"3.5.9": "2.12:3.5.7", "4.0.5": "2.13:4.0.0", "4.1.4": "2.13:4.1.1", "4.2.1": "2.13:4.2.0"}
"""The connector of each version but the tests' own: its Scala, and the newest release on Maven."""


ORDERS = (6, 4, 2)
"""The records of each partition of ``orders``."""

_A_CORE_A_PARTITION = {"spark.master": "local[4]"}
"""Without it, continuous queries and those in real-time mode do not read some partitions."""


@dataclass(frozen=True)
class Environment:
    """A version of Spark, a broker, and a directory for one recording."""

    version: str
    python: Path
    settings: Mapping[str, str]
    jars: tuple[str, ...]
    world: KafkaWorld
    directory: Path

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    def topic(self, name: str, records: int | None = None) -> tuple[str, Mapping[str, str]]:
        """A source that reads a topic."""
        return topic_source(self.world.bootstrap, name, records)

    def spec(self, *sources: tuple[str, Mapping[str, str]]) -> QuerySpec:
        """A query that writes to files."""
        sink = {"path": str(self.directory / "written")}
        return QuerySpec(str(self.checkpoint), sources, "text", sink, conf=self.settings, jars=self.jars)

    def to_topic(self, *sources: tuple[str, Mapping[str, str]], **options: str) -> QuerySpec:
        """A query that writes to a topic of its own, by Spark's own sink."""
        topic = self.world.topic(self.directory.name)
        sink = {"kafka.bootstrap.servers": self.world.bootstrap, "topic": topic, **options}
        return dataclasses.replace(self.spec(*sources), format="kafka", sink=sink, by_function=False)

    @contextmanager
    def query(self, spec: QuerySpec) -> Iterator[StreamingQuery]:
        with streaming_query(spec, self.python) as query:
            yield query

    def run(self, spec: QuerySpec) -> None:
        """Run a query that ends by itself."""
        with self.query(spec) as query:
            assert query.ends() == "ended", query.lines


def stateless(spark: Environment) -> None:
    """A topic in three batches."""
    spark.run(spark.spec(spark.topic("orders", 4)))


def two_sources(spark: Environment) -> None:
    """Two topics."""
    spark.run(spark.spec(spark.topic("orders", 6), spark.topic("payments", 2)))


def no_topic(spark: Environment) -> None:
    """A topic, and a pattern that no topic matches yet."""
    kind, options = spark.topic("")
    pattern = {key: value for key, value in options.items() if key != "subscribe"} | {"subscribePattern": "later-.*"}
    spark.run(spark.spec(spark.topic("orders"), (kind, pattern)))


def other_sources(spark: Environment) -> None:
    """A directory without files at first, a topic, and Spark's own rate."""
    files = spark.directory / "input"
    files.mkdir()
    spec = spark.spec(("text", {"path": str(files)}), spark.topic("orders"), ("rate", {"rowsPerSecond": "1"}))
    spark.run(spec)
    (files / "a.txt").write_text("a\n")
    spark.run(spec)


def aggregation(spark: Environment) -> None:
    """Counts, which are its state."""
    spark.run(dataclasses.replace(spark.spec(spark.topic("orders", 6)), count=True))


def planned(spark: Environment) -> None:
    """Killed with -9 when batch 1 was written, before Spark's commit."""
    with spark.query(dataclasses.replace(spark.spec(spark.topic("orders", 4)), hold_after=1)) as query:
        query.says("1 written")
        query.kill()


def log_v2(spark: Environment) -> None:
    """An offset log of version 2."""
    spec = spark.spec(spark.topic("orders", 6), spark.topic("payments"), ("rate", {"rowsPerSecond": "1"}))
    spark.run(dataclasses.replace(spec, conf={**spec.conf, "spark.sql.streaming.offsetLog.formatVersion": "2"}))
    assert (spark.checkpoint / "offsets" / "0").read_text().startswith("v2"), "this version does not know it"


def async_progress(spark: Environment) -> None:
    """Asynchronous progress, written at most each two seconds: the numbers have a hole."""
    topic = spark.world.topic(f"{spark.directory.name}-orders")
    interval_s = 2
    options = {"asyncProgressTrackingCheckpointIntervalMs": str(1000 * interval_s)}
    spec = spark.to_topic(spark.topic(topic, 1), asyncProgressTrackingEnabled="true", **options)
    offsets = spark.checkpoint / "offsets"
    with spark.query(dataclasses.replace(spec, trigger={"processingTime": "0 seconds"})) as query:
        for count in (4, 2):
            spark.world.produce(topic, count)
            wait_for(lambda: spark.world.end(spec.sink["topic"]) == spark.world.end(topic), "all records copied", 120)
            last = max(path.stat().st_mtime for path in offsets.iterdir())
            wait_for(lambda: time.time() > last + 2 * interval_s, "the next batch is written")  # noqa: B023
        assert query.stop() == "ended", query.lines


def real_time(spark: Environment) -> None:
    """Real-time mode, with batches of five seconds."""
    long_running(spark, {"realTime": "5 seconds"})


def continuous(spark: Environment) -> None:
    """Continuous processing, with an epoch each five seconds."""
    long_running(spark, {"continuous": "5 seconds"})


def long_running(spark: Environment, trigger: Mapping[str, str]) -> None:
    """A query whose tasks end with it, until a commit has all records."""
    spec = spark.to_topic(spark.topic("orders"))
    spec = dataclasses.replace(spec, trigger=trigger, conf={**spec.conf, **_A_CORE_A_PARTITION})
    end = json.dumps({"orders": dict(enumerate(ORDERS))}, separators=(",", ":"))

    def done() -> bool:
        files = (spark.checkpoint / "offsets" / path.name for path in (spark.checkpoint / "commits").glob("[0-9]*"))
        return any(file.read_text().endswith(end) for file in files)

    with spark.query(spec) as query:
        query.says("started")
        wait_for(done, "a commit of all records", 120)
        query.stop()


def commits_v2(spark: Environment) -> None:
    """Counts whose commits name the files of their state."""
    state = "spark.sql.streaming.stateStore"
    rocks_db = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spec = dataclasses.replace(spark.spec(spark.topic("orders", 6)), count=True)
    conf = {**spec.conf, f"{state}.providerClass": rocks_db, f"{state}.checkpointFormatVersion": "2"}
    spark.run(dataclasses.replace(spec, conf=conf))
    assert (spark.checkpoint / "commits" / "0").read_text().startswith("v2"), "this version does not know it"


def named_sources(spark: Environment) -> None:
    """Two topics that have names in the offset log."""
    spec = spark.spec(spark.topic("orders", 6), spark.topic("payments"))
    conf = {**spec.conf, "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true"}
    spark.run(dataclasses.replace(spec, names=("of_orders", "of_payments"), conf=conf))


KINDS: tuple[Callable[[Environment], None], ...] = (
    stateless, planned, aggregation, two_sources, no_topic, other_sources, log_v2, named_sources, commits_v2,
    async_progress, real_time, continuous,
)  # fmt: skip


def keep(checkpoint: Path, target: Path) -> None:
    """Copy a checkpoint, as the docstring of this module says."""
    shutil.rmtree(target, ignore_errors=True)
    for path in sorted(path for path in checkpoint.rglob("*") if path.is_file() and path.suffix != ".crc"):
        relative = path.relative_to(checkpoint)
        found = b"" if relative.parts[0] == "state" else path.read_bytes()
        (target / relative).parent.mkdir(parents=True, exist_ok=True)
        (target / relative).write_bytes(found.replace(str(checkpoint.parent).encode(), b"/recorded"))


def environment(version: str, directory: Path) -> tuple[Path, Mapping[str, str], tuple[str, ...]]:
    """Python, Spark's settings and the jars for a version."""
    if version == pyspark.__version__:
        return Path(sys.executable), {}, tuple(map(str, kafka_source()))
    home = directory / f"pyspark-{version}"
    if not home.exists():
        venv.create(home, with_pip=True)
        wanted = (f"pyspark=={version}", "setuptools")  # which 3.5 imports, and newer Pythons do not bring
        subprocess.run([home / "bin" / "pip", "install", "--quiet", *wanted], check=True)
    scala, _, release = CONNECTORS[version].partition(":")
    settings = {"spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{release}"}
    if ivy := ivy_settings():
        settings["spark.jars.ivySettings"] = ivy[0]
    return home / "bin" / "python", settings, ()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("versions", nargs="*", default=[*CONNECTORS, pyspark.__version__])
    parser.add_argument("-k", dest="kind", default="")
    words = parser.parse_args()
    with broker() as bootstrap, KafkaWorld(bootstrap) as world, tempfile.TemporaryDirectory() as directory:
        for topic, counts in {"orders": ORDERS, "payments": (3, 1)}.items():
            world.topic(topic, len(counts))
            for partition, count in enumerate(counts):
                world.produce(topic, count, partition)
        for record, version in itertools.product(KINDS, words.versions):
            name = f"{record.__name__.replace('_', '-')}-{version}"
            if re.search(words.kind, name):
                spark = Environment(version, *environment(version, words.directory), world, Path(directory, name))
                spark.directory.mkdir()
                try:
                    record(spark)
                except AssertionError as error:
                    sys.stderr.write(f"{name}: {error}\n")
                else:
                    keep(spark.checkpoint, RECORDED / name)
                    sys.stderr.write(f"{name}\n")


if __name__ == "__main__":
    main()
