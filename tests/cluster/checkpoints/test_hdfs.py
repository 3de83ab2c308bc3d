"""Checkpoints in HDFS: read and moved; also that of a real query, which goes on from where it was moved to."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hdfs_native import Client
from msgspec.structs import replace

from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.settings import SparkSettings
from kgroup.cluster.checkpoints.append import append_batch
from kgroup.cluster.checkpoints.files import read_query
from kgroup.cluster.checkpoints.stores import store_of
from kgroup.model.commit import Commit
from kgroup.model.streaming_query import QueryChanges
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import NotAuthorized, NotFound, Refused, Unreachable
from tests.helpers.command_line import CommandLine
from tests.helpers.hadoop import hdfs
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.places import DATA
from tests.helpers.streaming import QuerySpec, streaming_query, topic_source

pytestmark = [pytest.mark.soak, pytest.mark.programs("bash", "df", "dirname", "whoami")]

FIRST = TopicPartition("orders", 0)
MOVES = {FIRST: Commit(60, 3, "kgroup cu-7f3a 1 release 6")}
NO_FILES = QueryChanges(file_sink="")


@pytest.fixture(scope="module")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    with hdfs(check(SparkSettings(), timeout_s=60), tmp_path_factory.mktemp("hdfs")) as running:
        yield running


@pytest.fixture(scope="module")
def uri(hadoop: tuple[str, object]) -> str:
    return hadoop[0]


def recorded(kind: str, uri: str, path: str) -> str:
    """A recorded checkpoint in HDFS."""
    files, source = Client(uri), DATA / "checkpoints" / kind
    for file in sorted(each for each in source.rglob("*") if each.is_file()):
        target = f"{path}/{file.relative_to(source)}"
        files.mkdirs(target.rpartition("/")[0], create_parent=True)
        with files.create(target) as created:
            created.write(file.read_bytes())
    return f"{uri}{path}"


def test_a_query_is_read_moved_and_moved_back(uri: str) -> None:
    location = recorded("stateless-4.3.0", uri, "/lake/orders")
    same, old = read_query(str(DATA / "checkpoints" / "stateless-4.3.0"), 5), read_query(location, 5)
    assert (old.commits, old.sources, old.state) == (same.commits, same.sources, same.state)
    assert old.done is not None

    append_batch("spark:q", old, MOVES, NO_FILES, 1)
    moved = read_query(location, 5)
    append_batch("spark:q", moved, {FIRST: old.commits[FIRST]}, QueryChanges(), 2)

    assert moved.commits == {**old.commits, **MOVES}
    assert read_query(location, 5).commits == old.commits


def test_a_batch_that_the_query_begins_meanwhile_is_its_own(uri: str) -> None:
    location = recorded("planned-4.3.0", uri, "/lake/planned")
    query = read_query(location, 5)
    before = sorted(store_of(location, 5).names("offsets"))

    with pytest.raises(Refused, match="meanwhile: it runs"):
        append_batch("spark:q", replace(query, planned=None), MOVES, NO_FILES, 1)

    assert sorted(store_of(location, 5).names("offsets")) == before


def test_there_is_none(uri: str) -> None:
    with pytest.raises(NotFound, match=r"there is no checkpoint at hdfs://"):
        read_query(f"{uri}/lake/none", 5)


def test_another_user_may_not_write(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    location = recorded("stateless-4.3.0", uri, "/lake/of-root")
    query = read_query(location, 5)
    monkeypatch.setenv("HADOOP_USER_NAME", "nobody")

    with pytest.raises(NotAuthorized, match="may not be written: Permission denied"):
        append_batch("spark:q", query, MOVES, NO_FILES, 1)


def test_no_answer(hadoop: tuple[str, subprocess.Popen[bytes]]) -> None:
    uri, process = hadoop
    process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(Unreachable, match="no answer within 1s"):
            read_query(f"{uri}/lake/orders", 1)
    finally:
        process.send_signal(signal.SIGCONT)
    with pytest.raises(Unreachable):
        read_query("hdfs://127.0.0.1:1/lake/orders", 2)


@pytest.mark.usefixtures("bystander")
def test_a_real_query(
    kgroup: CommandLine, world: KafkaWorld, name: Callable[[str], str], uri: str, tmp_path: Path
) -> None:
    topic, out = world.topic(name("orders")), tmp_path / "out"
    spec = QuerySpec(f"{uri}/real/orders", [topic_source(world.bootstrap, topic)], "text", {"path": str(out)})

    def written(first: int, count: int) -> None:
        for value in range(first, first + count):
            world.produce(topic, 1, 0, b"%d" % value)

    def runs() -> None:
        with streaming_query(spec) as query:
            assert query.ends() == "ended"

    written(0, 5)
    runs()
    written(5, 5)
    kgroup("reset", f"spark:{spec.checkpoint}", "--all-topics", "--to-latest", "--file-sink", "none", "--execute")
    written(10, 5)
    runs()

    values = sorted(int(line) for path in out.glob("*.txt") for line in path.read_text().split())
    assert values == [*range(5), *range(10, 15)]
