"""What ``simulate`` shows of real Streams applications of both protocols, and what then happens to their tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import CommandLine
from tests.helpers.java import JavaClients
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.soak

PARTITIONS = 5


@pytest.fixture(scope="module")
def java(world: KafkaWorld) -> Iterator[JavaClients]:
    with JavaClients(world.bootstrap) as clients:
        yield clients


def simulated(kgroup: CommandLine, group: str, *change: str) -> dict[str, Any]:
    (document,) = kgroup("simulate", group, *change, "-o", "json").data
    tasks: dict[str, Any] = document["tasks"]
    return tasks


def present(kgroup: CommandLine, group: str) -> dict[str, tuple[set[str], set[str]]] | None:
    """The active and the standby tasks of each instance; None while they move, or a second thread has not joined."""
    told = kgroup("simulate", group, "--add", "1", "-o", "json", exit_code=None)
    there = [each for each in told.data[0]["tasks"]["instances"] if each["process_id"]] if not told.exit_code else []
    if any(each["thread_count"] != 2 for each in there):
        return None
    return {each["name"]: (set(each["active_before"]), set(each["standby_before"])) for each in there}


def settled(kgroup: CommandLine, group: str, names: set[str]) -> dict[str, tuple[set[str], set[str]]] | None:
    """The tasks of these instances, once all tasks run and each with state has its standby copy."""
    tasks = present(kgroup, group)
    if tasks is None or set(tasks) != names:
        return None
    active, standby = (sorted(task for each in tasks.values() for task in each[kind]) for kind in (0, 1))
    counting = [f"1_{number}" for number in range(PARTITIONS)]
    return (
        tasks if active == [f"0_{number}" for number in range(PARTITIONS)] + counting and standby == counting else None
    )


@pytest.mark.parametrize("protocol", ["streams", "classic"])
def test_instances_come_and_go_as_it_was_simulated(
    kgroup: CommandLine, world: KafkaWorld, java: JavaClients, tmp_path: Path, protocol: str
) -> None:
    group, topic = f"sim-{protocol}", f"sim-{protocol}-orders"
    world.topic(topic, PARTITIONS)
    world.topic(f"{topic}-out", 1)
    for number in range(PARTITIONS):
        world.produce(topic, 20 * (number + 1), number, b"%d" % number)
    if protocol == "streams":
        world.configure_group(group, streams_num_standby_replicas="1")
    own = {"application_id": group, "counts": "one", "session_timeout_ms": "6000"}
    own |= {"num_standby_replicas": "1"} if protocol == "classic" else {}

    def start(instance: str) -> None:
        threaded = own | {"client_id": instance, "num_stream_threads": "2"}
        java.streams(f"{group}-{instance}", topic, f"{topic}-out", protocol, tmp_path / instance, **threaded)

    start("a")
    start("b")
    before = wait_for(lambda: settled(kgroup, group, {"a", "b"}), "two instances", 90)

    told = simulated(kgroup, group, "--add", "1", "--restore-rate", "100")
    assert (told["task_count"], told["stateful_task_count"], told["standby_replica_count"]) == (10, 5, 1)
    assert (told["run_count"], told["size_is_bound"]) == (20, False)
    start("c")
    after = wait_for(lambda: settled(kgroup, group, {"a", "b", "c"}), "three instances", 90)
    moved = sum(len(after[name][0] - before.get(name, (set(), set()))[0]) for name in after)
    assert told["moved_task_count"]["least"] <= moved <= told["moved_task_count"]["most"]

    told = simulated(kgroup, group, "--remove", "b")
    expected = {
        each["name"]: (set(each["active_after"]), set(each["standby_after"]))
        for each in told["instances"]
        if each["active_after"] is not None
    }
    java.close(f"{group}-b")
    assert wait_for(lambda: settled(kgroup, group, {"a", "c"}), "two instances", 90) == expected
    read = [each["read_bytes"] for each in told["instances"]]
    assert told["state_read_bytes"] == {"least": sum(read), "most": sum(read)}
    assert "2 instances, 10 tasks, 1 instance" in kgroup("simulate", group, "--remove", "a").stdout
    for words, exit_code, text in (
        (("--remove", "2"), 6, "has 2 instances: 2 cannot be removed, one has to stay [too-few-members]"),
        (("--remove", "d"), 5, f"{group} has no instance d"),
        (("--kill", "1"), 6, "only added and removed instances are simulated [instances-only]"),
        (("--add", "1", "--assignor", "range"), 6, "[instances-only]"),
    ):
        assert text in kgroup("simulate", group, *words, exit_code=exit_code).stderr
    for instance in ("a", "c"):
        java.close(f"{group}-{instance}")
