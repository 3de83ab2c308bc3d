"""``kgroup catchup`` on a real standalone Spark cluster, and on three brokers of which one goes away: nothing is lost.

The workers' Python does not have kgroup. Killed are processes that have transactions open.
"""

from __future__ import annotations

import os
import re
import signal
import venv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.settings import SparkSettings
from kgroup.sandbox import Sandbox
from tests.helpers.catchup.catchups import LOCAL, copied, offsets, plan_id, plan_said, written
from tests.helpers.catchup.replays import seen
from tests.helpers.catchup.spark_cluster import Cluster, running_cluster
from tests.helpers.catchup.spark_kills import source_topic, workers_of
from tests.helpers.command_line import CommandLine, QuietReporter, Result
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.running import running
from tests.helpers.three_brokers import busy_partition, replicated
from tests.helpers.waiting import wait_for

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("ledger")]

Name = Callable[[str], str]
FROM = {0: 10, 1: 20}
"""Where the group had committed."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    ready = check(SparkSettings(), timeout_s=10)
    with running_cluster(ready, tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


def on(cluster: Cluster) -> tuple[str, ...]:
    """As options."""
    conf = [word for key, value in cluster.settings().conf for word in ("--conf", f"{key}={value}")]
    return ("--master", cluster.master, *conf)


def killed(victims: Callable[[], Sequence[int]]) -> int:
    """One of them, as soon as there is any."""
    pid = wait_for(victims, "somebody to kill", 60)[0]
    os.kill(pid, signal.SIGKILL)
    return pid


def gap_of(world: KafkaWorld, topic: str) -> list[str]:
    """What is committed of the gap, by an independent reader."""
    found = seen(world.bootstrap, topic)
    return sorted(f"{topic}:{one.partition}:{one.offset}" for one in found if one.offset >= FROM[one.partition])


def test_copied_exactly_once_by_a_cluster_whose_workers_die(
    kgroup: CommandLine, world: KafkaWorld, cluster: Cluster, name: Name, bystander: str
) -> None:
    """A Python worker and an executor are killed, the replay is interrupted, and another one goes on with it."""
    topic, group, copy = source_topic(world, world.bootstrap, name), name("svc"), world.topic(name("copy"), 2)
    world.commit(group, {(topic, partition): offset for partition, offset in FROM.items()})
    start = ("start", group, "--to-topic", copy, "--rate", "500/s", "--execute", *on(cluster))

    with running("catchup", *start) as process:
        plan = plan_said(process, 90)  # Spark tries its workers first
        wait_for(lambda: written(world, copy) > 0, "records", 90)
        first = killed(lambda: workers_of(cluster.executors()))
        before = written(world, copy)
        wait_for(lambda: written(world, copy) > before + 100, "it goes on", 90)
        assert first not in workers_of(cluster.executors())
        killed(cluster.executors)
        before = written(world, copy)
        wait_for(lambda: written(world, copy) > before + 100, "it goes on", 90)
        process.process.send_signal(signal.SIGINT)
        interrupted = process.ends(130)
    assert f"kgroup catchup resume {plan}" in interrupted.stderr
    part = copied(world, copy)
    assert len(part) < len(gap_of(world, topic))

    done = kgroup.process("catchup", "resume", plan, "--execute", *on(cluster), "-o", "json")

    (shown,) = done.data
    assert (shown["state"], shown["totals"]["verified"]) == ("done", True)
    assert copied(world, copy) == gap_of(world, topic)
    assert len(copied(world, copy, "read_uncommitted")) > shown["totals"]["delivered_count"], (
        "no kill hit a transaction"
    )
    assert [path for work in cluster.work for path in work.rglob("kgroup.zip")], "kgroup was sent to the workers"
    assert set(offsets(world, group)) == {(topic, 0), (topic, 1)}
    shape = [(one.partition, one.key, one.value) for one in seen(world.bootstrap, copy)]
    expected = [one for one in seen(world.bootstrap, topic) if one.offset >= FROM[one.partition]]
    assert shape == [(one.partition, one.key, one.value) for one in expected]


def test_workers_that_lack_a_package_are_found_before_anything_moves(
    kgroup: CommandLine, world: KafkaWorld, cluster: Cluster, name: Name, tmp_path: Path
) -> None:
    """A Python of their own, as ``python -m venv`` makes it."""
    topic, group = world.topic(name("orders"), 2), name("svc")
    world.produce(topic, 30)
    world.commit(group, {(topic, partition): offset for partition, offset in {0: 10, 1: 0}.items()})
    before = world.exact(group)
    venv.create(tmp_path / "venv")
    their_own = ("--conf", f"spark.pyspark.python={tmp_path}/venv/bin/python")
    there = ("--master", cluster.master, *on(cluster)[2:], *their_own)
    released = plan_id(kgroup("catchup", "start", "--range", f"{topic}:0=0-30", "--release-only", "--execute"))

    for what in (("start", group), ("resume", released)):
        refused = kgroup.process(
            "catchup", *what, "--to-files", str(tmp_path / "out"), "--execute", *there, exit_code=6
        )

        assert "Spark's workers have no Python package msgspec [spark-workers]" in refused.stderr
        assert "pip install confluent-kafka msgspec" in refused.stderr
        assert not {"Traceback", "PLANNED", "RELEASED"} & set(re.split(r"\W+", refused.stderr))
    assert world.exact(group) == before
    assert [plan["plan_id"] for plan in kgroup("catchup", "list", "-o", "json").data] == [released]


def test_files_of_a_cluster(
    kgroup: CommandLine, world: KafkaWorld, cluster: Cluster, name: Name, tmp_path: Path
) -> None:
    """Into a directory that all machines see; a Python without pyarrow can write JSON."""
    topic = world.topic(name("orders"), 2)
    world.produce(topic, 300)
    world.produce(topic, 200, 1)
    ranges = f"{topic}:0=0-300,{topic}:1=0-200"

    to_files = ("--to-files", str(tmp_path / "out"), "--format", "json")
    done = kgroup.process("catchup", "start", "--range", ranges, *to_files, "--execute", *on(cluster), "-o", "json")

    assert done.data[0]["totals"]["delivered_count"] == 500
    files = [path for path in (tmp_path / "out").rglob("*.json") if path.name[0] not in "_."]
    assert sum(len(path.read_bytes().splitlines()) for path in files) == 500


def leader(world: KafkaWorld, topic: str) -> int:
    """Of its first partition."""
    found = AdminClient({"bootstrap.servers": world.bootstrap}).list_topics(topic, 10).topics[topic]
    return int(found.partitions[0].leader)


def filled(world: KafkaWorld, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": world.bootstrap, "acks": "all", "linger.ms": 5})
    for number in range(records):
        for partition in (0, 1):
            producer.produce(topic, b"%d" % number, b"k%d" % (number % 7), partition)
    assert producer.flush(60) == 0


def committed(world: KafkaWorld, group: str) -> dict[tuple[str, int], int]:
    """As ``offsets``, wherever the coordinator is now."""
    return {place: offset for place, (offset, *_) in world.exact(group).items()}


def test_a_coordinator_goes_away_and_comes_back(three: KafkaWorld, sandbox: Sandbox, name: Name) -> None:
    """Once while the head is released, once in the middle of the replay: it costs time, and nothing else."""
    kgroup, records = CommandLine(), 3000
    topic, copy, group = replicated(three, name("orders"), 0), replicated(three, name("copy"), 0), name("svc")
    filled(three, topic, records)
    three.commit(group, {(topic, partition): offset for partition, offset in FROM.items()})
    first = plan_id(kgroup("catchup", "start", group, "--release-only", "--execute"))  # so that there is a ledger
    kgroup("catchup", "cancel", first, "--execute")

    sandbox.stop(three.coordinator(group))
    with busy_partition(three, group, topic):
        released: Result = kgroup.process("catchup", "start", group, "--release-only", "--execute", "--timeout", "60s")
    sandbox.up(reporter=QuietReporter())
    plan = plan_id(released)
    assert committed(three, group) == {(topic, 0): records, (topic, 1): records}

    resume = ("resume", plan, "--to-topic", copy, "--rate", "600/s", "--timeout", "60s", *LOCAL, "--execute")
    with running("catchup", *resume) as process:
        wait_for(lambda: written(three, copy) > 300 or process.process.poll() is not None, "records", 90)
        sandbox.stop(three.coordinator(group))
        before = written(three, copy)
        wait_for(lambda: written(three, copy) > before + 300 or process.process.poll() is not None, "it goes on", 90)
        sandbox.up(reporter=QuietReporter())
        wait_for(lambda: process.process.poll() is not None, "its end", 90)
        done = process.ends(0)

    assert "VERIFIED" in done.stdout
    assert copied(three, copy) == gap_of(three, topic)
    assert committed(three, group) == {(topic, 0): records, (topic, 1): records}
