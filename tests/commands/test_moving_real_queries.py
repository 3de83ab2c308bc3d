"""Real streaming queries that are moved: each record of a numbered stream is handled, by the query or beside it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyarrow import parquet

from tests.commands.test_catchup_tables import Delta, jars, pyspark
from tests.commands.test_streaming_queries import words
from tests.helpers.catchup.catchups import LOCAL, plan_id
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.places import ROOT
from tests.helpers.streaming import QuerySpec, StreamingQuery, streaming_query, topic_source
from tests.helpers.waiting import wait_for

__all__ = ("pyspark",)
pytestmark = [
    pytest.mark.soak,
    pytest.mark.programs("bash", "dirname"),
    pytest.mark.usefixtures("ledger", "importable", "bystander"),
]

Name = Callable[[str], str]
NO_FILES = ("--file-sink", "none")
ENDS_BY_ITSELF = "CONCURRENT_STREAM_LOG_UPDATE"
_READ = """
import sys
from tests.helpers.streaming_job import session
print("values", *sorted(int(row.value) for row in session([], {}).read.text(sys.argv[1]).collect()))
"""


@dataclass
class Stream:
    """A topic whose values are 0, 1, 2, ...; ``count`` are written."""

    world: KafkaWorld
    topic: str
    count: int = 0

    def goes_on(self, more: int, partition: int = 0) -> None:
        for value in range(self.count, self.count + more):
            self.world.produce(self.topic, 1, partition, b"%d" % value)
        self.count += more


@dataclass(frozen=True)
class Case:
    """A stream, and a query that copies its values to text files, by default with foreachBatch."""

    home: Path
    stream: Stream

    @property
    def query(self) -> str:
        return f"spark:{self.home / 'checkpoint'}"

    @property
    def out(self) -> Path:
        return self.home / "out"

    def spec(self, batch_records: int | None = None) -> QuerySpec:
        source = topic_source(self.stream.world.bootstrap, self.stream.topic, batch_records)
        return QuerySpec(str(self.home / "checkpoint"), [source], "text", {"path": str(self.out)})

    def runs(self, spec: QuerySpec) -> None:
        """Until it has read all that is there."""
        with streaming_query(spec) as query:
            assert query.ends() == "ended"

    def batches(self, log: str = "commits") -> list[int]:
        folder = self.home / "checkpoint" / log
        return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())

    def handled(self) -> list[int]:
        """The values that the query has written."""
        return sorted(int(line) for path in self.out.glob("*.txt") for line in path.read_text().split())

    def replayed(self, kgroup: CommandLine, plan: str) -> list[int]:
        """The values that a replay delivers to files."""
        gap = self.home / "gap"
        done = kgroup.process(
            *("catchup", "resume", plan, "--to-files", str(gap), "--format", "json", *LOCAL, "--execute")
        )
        assert "VERIFIED" in done.stdout
        return sorted(value for path in gap.rglob("*.json") if path.name[0] not in "._" for value in values_in(path))


@pytest.fixture
def case(world: KafkaWorld, name: Name, tmp_path: Path) -> Case:
    return Case(tmp_path, Stream(world, world.topic(name("orders"))))


def values_in(path: Path) -> list[int]:
    """Of records as lines of JSON."""
    return [int(json.loads(line)["value"]) for line in path.read_text().splitlines()]


def refused(kgroup: CommandLine, *words: str) -> str:
    """The code of the one refusal."""
    (error,) = kgroup(*words, "-o", "json", exit_code=6).json["errors"]
    return str(error["code"])


@contextmanager
def paused(query: StreamingQuery) -> Iterator[None]:
    """A query that runs, and does nothing while the block does."""
    os.killpg(query.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(query.process.pid, signal.SIGCONT)


@pytest.mark.parametrize("written", [False, True])
def test_killed_in_a_batch(kgroup: CommandLine, case: Case, name: Name, *, written: bool) -> None:
    """With kill -9, before or after the batch is in the sink, a Kafka topic; Spark's commit is missing."""
    stream, world, target = case.stream, case.stream.world, case.stream.world.topic(name("copy"))
    sink = {"kafka.bootstrap.servers": world.bootstrap, "topic": target}
    spec = replace(case.spec(4), format="kafka", sink=sink)
    stream.goes_on(12)
    held = replace(spec, hold_after=1) if written else replace(spec, hold_before=1)
    with streaming_query(held) as query:
        query.says("1 written" if written else "1 begins")
        query.kill()

    start = ("catchup", "start", case.query, *NO_FILES)
    assert refused(kgroup, *start) == "in-flight"
    plan = kgroup(*start, "--accept", "in-flight")
    assert "Up to 4 records after the last commit" in words(plan.stdout)
    released = plan_id(kgroup(*start, "--accept", "in-flight", "--release-only", "--execute"))
    stream.goes_on(3)
    case.runs(spec)
    handled = sorted(int(value or b"") for _, value in world.records(target))
    gap = case.replayed(kgroup, released)

    assert handled == [*range(8 if written else 4), 12, 13, 14]
    assert gap == list(range(4, 12))
    assert case.batches("offsets") == case.batches() == [0, 1, 2, 3]


def test_released_while_the_query_runs(kgroup: CommandLine, case: Case) -> None:
    """It was idle, and 10 records came; its next batch finds the log longer than it was, and the query ends."""
    stream = case.stream
    stream.goes_on(10)
    with streaming_query(replace(case.spec(), trigger={"processingTime": "0 seconds"})) as query:
        query.says("idle")
        with paused(query):
            stream.goes_on(10)
            released = plan_id(kgroup("catchup", "start", case.query, *NO_FILES, "--release-only", "--execute"))
        assert ENDS_BY_ITSELF in query.ends()
    stream.goes_on(5)
    case.runs(case.spec())

    assert case.handled() == [*range(10), *range(20, 25)]
    assert case.replayed(kgroup, released) == list(range(10, 20))


def test_the_log_of_a_file_sink(kgroup: CommandLine, case: Case, tmp_path: Path) -> None:
    """Batch 9, which kgroup appends, is the one that has the lines of all before it."""
    stream, spec = case.stream, replace(case.spec(3), by_function=False)
    stream.goes_on(27)
    case.runs(spec)
    assert case.batches() == list(range(9))
    (case.out / "of-no-batch.txt").write_text("-1\n")  # who reads by the log does not read it
    stream.goes_on(6)
    start, wrong = ("catchup", "start", case.query, "--release-only", "--execute"), tmp_path / "wrong"
    wrong.mkdir()

    assert refused(kgroup, *start) == "file-sink"
    kgroup(*start, "--file-sink", str(wrong), exit_code=2)
    assert case.batches("offsets") == list(range(9))
    released = plan_id(kgroup(*start, "--file-sink", str(case.out)))
    assert (case.out / "_spark_metadata" / "9.compact").exists()
    stream.goes_on(6)
    case.runs(spec)

    assert case.batches() == list(range(12))
    assert read_by_spark(case.out) == [*range(27), *range(33, 39)]
    assert case.replayed(kgroup, released) == list(range(27, 33))


def read_by_spark(folder: Path) -> list[int]:
    """The values of a folder, as a session that has not seen it reads them."""
    done = subprocess.run(
        [sys.executable, "-c", _READ, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("values"))
    return [int(value) for value in line.split()[1:]]


def test_one_of_two_sources_is_moved(kgroup: CommandLine, case: Case, name: Name, tmp_path: Path) -> None:
    moved, world = case.stream, case.stream.world
    other = Stream(world, world.topic(name("other")), 100)
    spec = replace(case.spec(), sources=[topic_source(world.bootstrap, each.topic) for each in (moved, other)])
    for _ in range(2):
        moved.goes_on(5)
        other.goes_on(5)
        if not case.out.exists():
            case.runs(spec)
    skipped = tmp_path / "skipped"
    reset = ("reset", case.query, "--topic", moved.topic, "--to-latest", "--save-skipped", str(skipped))

    kgroup(*reset, *NO_FILES, "--execute")
    moved.goes_on(2)
    case.runs(spec)

    assert case.handled() == [*range(5), 10, 11, *range(100, 110)]
    assert values_in(skipped) == list(range(5, 10))


def test_undone_while_the_query_runs(kgroup: CommandLine, case: Case) -> None:
    """It was started after the reset, and idle since. Its next batch ends it; the next start reads what was skipped."""
    stream, spec = case.stream, case.spec()
    stream.goes_on(10)
    case.runs(spec)
    stream.goes_on(10)
    kgroup("reset", case.query, "--all-topics", "--to-latest", *NO_FILES, "--execute")
    with streaming_query(replace(spec, trigger={"processingTime": "0 seconds"})) as query:
        query.says("idle")
        kgroup("undo", "--execute")
        stream.goes_on(3)
        assert ENDS_BY_ITSELF in query.ends()
    assert case.handled() == list(range(10))
    case.runs(spec)

    assert case.handled() == list(range(23))


def test_records_were_deleted_before_they_were_read(kgroup: CommandLine, case: Case, name: Name) -> None:
    """The next start plans a batch, and fails in it. The other partition loses nothing."""
    world = case.stream.world
    world.add_partitions(case.stream.topic, 2)
    with KafkaWorld(world.bootstrap) as later:  # a producer that knows of it
        stream = Stream(later, case.stream.topic)
        for partition in (0, 1):
            stream.goes_on(5, partition)
        case.runs(case.spec())
        for partition in (0, 1):
            stream.goes_on(10, partition)
    world.delete_records(stream.topic, 0, before=9)
    with streaming_query(case.spec()) as query:
        assert query.ends().startswith("failed ")
    reset = ("reset", case.query, "--only", "out-of-range", *NO_FILES, "--execute")
    assert refused(kgroup, *reset) == "in-flight"

    (row,) = kgroup(*reset, "--accept", "in-flight", "-o", "json").data
    case.runs(case.spec())

    assert (row["old_offset"], row["new_offset"]) == (5, 9)
    assert case.handled() == [*range(10), *range(14, 30)]


def test_a_topic_that_was_recreated(kgroup: CommandLine, case: Case) -> None:
    """Each start fails at the offset that the new topic lacks. Moved to its start, the query reads all of it."""
    world, stream = case.stream.world, case.stream
    stream.goes_on(10)
    case.runs(case.spec())
    world.delete_topic(stream.topic)
    world.topic(stream.topic)
    stream.goes_on(4)
    with streaming_query(case.spec()) as query:
        assert query.ends().startswith("failed ")

    (row,) = kgroup(
        "reset", case.query, "--only", "out-of-range", *NO_FILES, "--accept", "in-flight", "--execute", "-o", "json"
    ).data
    case.runs(case.spec())

    assert (row["old_offset"], row["new_offset"]) == (10, 0)
    assert case.handled() == list(range(14))


def test_partitions_were_added_since_its_last_batch(kgroup: CommandLine, case: Case) -> None:
    """The checkpoint does not know them: released from their start too, they are in the gap as the others are."""
    world, topic = case.stream.world, case.stream.topic
    case.stream.goes_on(5)
    case.runs(case.spec())
    world.add_partitions(topic, 3)
    with KafkaWorld(world.bootstrap) as later:  # a producer that knows of them
        stream = Stream(later, topic, 5)
        for partition in range(3):
            stream.goes_on(5, partition)
        start = ("catchup", "start", case.query, *NO_FILES, "--release-only", "--missing", "earliest", "--execute")
        released = plan_id(kgroup(*start))
        for partition in range(3):
            stream.goes_on(1, partition)
    case.runs(case.spec())

    assert case.handled() == [*range(5), *range(20, 23)]
    assert case.replayed(kgroup, released) == list(range(5, 20))


def test_killed_between_the_commits_of_delta_and_of_spark(
    kgroup: CommandLine, case: Case, pyspark: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta leaves out a batch whose number it has: one that was used again would be lost without an error."""
    stream, table = case.stream, Delta(case.out)
    spec = replace(
        case.spec(4),
        format="delta",
        by_function=False,
        sink={"path": table.path},
        conf={key: value for key, value in table.conf.items() if key != "spark.jars"},
        jars=[jars("spark_kafka_delta"), table.conf["spark.jars"]],
    )
    stream.goes_on(8)
    with monkeypatch.context() as of_query:
        of_query.setenv("PYTHONPATH", pyspark["PYTHONPATH"])
        with streaming_query(spec) as query:
            wait_for((case.out / "_delta_log" / f"{1:020}.json").exists, "Delta's commit of batch 1", 180)
            query.kill()
        for late in ("1", ".1.crc"):  # where Spark was faster than the kill
            (case.home / "checkpoint" / "commits" / late).unlink(missing_ok=True)
    stream.goes_on(4)
    start = ("catchup", "start", case.query, *NO_FILES, "--accept", "in-flight", "--release-only", "--execute")
    released = plan_id(kgroup(*start))
    stream.goes_on(3)
    with monkeypatch.context() as of_query:
        of_query.setenv("PYTHONPATH", pyspark["PYTHONPATH"])
        case.runs(spec)

    rows = [row for file in table.files() for row in parquet.read_table(file).to_pylist()]
    assert sorted(int(row["value"]) for row in rows) == [*range(8), 12, 13, 14]
    assert case.replayed(kgroup, released) == list(range(4, 12))
