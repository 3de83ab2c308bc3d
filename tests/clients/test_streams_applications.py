"""Real Kafka Streams applications of the new protocol (KIP-1071), with the figures of kafka-streams-groups.sh."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import CommandLine
from tests.helpers.java import JavaClients
from tests.helpers.kafka_tools import STREAMS_GROUPS, KafkaTools
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.streams_tool import assert_same_figures
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.soak

ORDERS, OUT, COUNTS = "sa-orders", "sa-out", "sa-counts"
REPARTITION = "sa-counts-KSTREAM-REPARTITION-0000000002-repartition"
RECORDS = 20


@dataclass(frozen=True)
class Application:
    clients: JavaClients
    directory: Path

    def start(self, instance: str, group: str, source: str, counts: str = "one") -> None:
        own = {"application_id": group, "client_id": instance, "counts": counts}
        self.clients.streams(instance, source, OUT, "streams", self.directory / instance, **own)


@pytest.fixture(scope="module")
def running(world: KafkaWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """Two instances that count, each with the state of the other's task as a standby."""
    world.topic(ORDERS, 2)
    world.topic(OUT, 1)
    for partition in range(2):
        for number in range(RECORDS):
            world.produce(ORDERS, 1, partition, b"%d-%d" % (partition, number))
    world.configure_group(COUNTS, streams_num_standby_replicas="1", streams_task_offset_interval_ms="15000")
    with JavaClients(world.bootstrap) as clients:
        application = Application(clients, tmp_path_factory.mktemp("streams"))
        for instance in ("a", "b"):
            application.start(instance, COUNTS, ORDERS)
        wait_for(lambda: world.groups().get(COUNTS) == ("streams", "stable"), COUNTS, 60)
        yield application


def described(kgroup: CommandLine, group: str) -> dict[str, Any]:
    (document,) = kgroup("describe", group, "-o", "json").data
    return document


def settled(kgroup: CommandLine, members: int) -> dict[str, Any] | None:
    """The group, once it is stable, all is read, and each task has its standby."""
    document = described(kgroup, COUNTS)
    tasks = document["streams"]["all_tasks"]
    with_state = [task for task in tasks if task["changelog_record_count"] is not None]
    stable = document["state"] == "Stable" and len(document["members"]) == members and len(tasks) == 4
    read = document["partitions"] and all(row["lag"] == 0 for row in document["partitions"])
    return document if stable and read and all(len(task["standby"]) == members - 1 for task in with_state) else None


def rows(kafka_tool: KafkaTools, bootstrap: str, group: str, *words: str) -> list[str]:
    """The lines of kafka-streams-groups.sh --describe --verbose without its header."""
    said = kafka_tool(
        STREAMS_GROUPS, "--bootstrap-server", bootstrap, "--describe", "--group", group, "--verbose", *words
    )
    assert said.returncode == 0, said.stderr
    return [line for line in said.stdout.splitlines() if line.startswith(group)]


def test_figures_are_those_of_the_tool(
    kgroup: CommandLine, kafka_tool: KafkaTools, world: KafkaWorld, running: Application
) -> None:
    document = wait_for(partial(settled, kgroup, 2), "two instances", 60)

    assert_same_figures(document, partial(rows, kafka_tool, world.bootstrap, COUNTS))
    assert {row["topic"] for row in document["partitions"]} == {ORDERS, REPARTITION}
    owners = {(row["topic"], row["partition"]): row["member_id"] for row in document["partitions"]}
    active = {task["task"]: task["active_member_id"] for task in document["streams"]["all_tasks"]}
    assert [owners[REPARTITION, number] for number in range(2)] == [active["1_0"], active["1_1"]]


def test_the_log_shows_the_same(kgroup: CommandLine, running: Application) -> None:
    """But for what members report between two records, and what the log has no field for."""
    asked = wait_for(lambda: settled(kgroup, members=2), "tasks that are settled", 60)
    (logged,) = kgroup("describe", COUNTS, "--from-log", "-o", "json").data

    for name in ("type", "state", "group_epoch", "assignment_epoch"):
        assert logged[name] == asked[name], name
    cells = ("topic", "partition", "committed", "metadata", "log_start", "log_end", "lag", "member_id", "host")
    shown = [[{cell: row[cell] for cell in cells} for row in each["partitions"]] for each in (logged, asked)]
    assert shown[0] == shown[1]
    for name in ("topology_epoch", "subtopologies", "missing_topics"):
        assert logged["streams"][name] == asked["streams"][name], name
    of = [sorted(each["streams"]["members"], key=lambda member: member["member_id"]) for each in (logged, asked)]
    assert of[0] == of[1]
    owners = [
        {task["task"]: task["active_member_id"] for task in each["streams"]["all_tasks"]} for each in (logged, asked)
    ]
    assert owners[0] == owners[1]


def test_what_a_moved_task_restores(kgroup: CommandLine, world: KafkaWorld, running: Application) -> None:
    """The records of its changelog, and its bytes; a standby's lag is what its member reported, others' is unknown."""
    wait_for(partial(settled, kgroup, 2), "two instances", 60)

    def reported() -> list[dict[str, Any]] | None:
        tasks = described(kgroup, COUNTS)["streams"]["all_tasks"]
        with_state = [task for task in tasks if task["task"].startswith("1_")]
        return with_state if all(task["standby"][0]["lag"] is not None for task in with_state) else None

    tasks = wait_for(reported, "the members' reports", 90)
    ends = [world.end(f"{COUNTS}-one-changelog", number) for number in range(2)]
    assert [task["changelog_record_count"] for task in tasks] == ends
    assert [task["standby"][0]["lag"] for task in tasks] == [0, 0]
    assert all(task["changelog_size_bytes"] > 0 for task in tasks)
    page = kgroup("describe", COUNTS, "--restore-rate", "10").stdout
    assert "RESTORE" in page
    assert "as its member reported up to 60s ago" in page
    (document,) = kgroup("describe", COUNTS, "-o", "json", "--restore-rate", "10").data
    slow = [task for task in document["streams"]["all_tasks"] if task["task"].startswith("1_")]
    assert [task["restore_ms"] for task in slow] == [100 * task["changelog_size_bytes"] for task in slow]
    refused = kgroup("describe", COUNTS, "--restore-rate", "fast", exit_code=2)
    assert "--restore-rate fast: is not a size" in refused.stderr


def test_checks_metrics_and_waiting(kgroup: CommandLine, world: KafkaWorld, running: Application) -> None:
    wait_for(partial(settled, kgroup, 2), "two instances", 60)
    kgroup("lag", COUNTS, "--max-lag", "0", "--fail-on", "warn")
    world.produce(ORDERS, 5, 0, b"more")
    kgroup("wait", COUNTS, "--for", "stable", "--for", "type=streams", "--for", "lag=0", "--within", "30s")
    metrics = kgroup("lag", COUNTS, "-o", "prometheus").stdout
    assert re.search(rf'^kafka_consumergroup_group_sum_lag{{.*,group="{COUNTS}"}} 0$', metrics, re.MULTILINE)
    (listed,) = [row for row in kgroup("list", "-o", "json").data if row["group"] == COUNTS]
    assert (listed["type"], listed["state"], listed["member_count"]) == ("streams", "Stable", 2)
    (healthy,) = kgroup("doctor", COUNTS, "-o", "json", "--fail-on", "info").data
    assert (healthy["findings"], healthy["unchecked_rules"]) == ([], [])
    assert "2+" in kgroup("history", COUNTS).stdout


def test_lag_inside_the_application_is_named_apart(
    kgroup: CommandLine, world: KafkaWorld, running: Application
) -> None:
    """Stopped, it has a lag of its input; what it wrote for itself and did not read counts, and is told apart."""
    wait_for(partial(settled, kgroup, 2), "two instances", 60)
    for instance in ("a", "b"):
        running.clients.close(instance)
    wait_for(lambda: world.groups()[COUNTS] == ("streams", "empty"), "Empty", 60)
    world.produce(ORDERS, 4, 0)
    world.produce(REPARTITION, 3, 1)

    page = kgroup("describe", COUNTS).stdout
    assert "over 2 of 4 partitions; 3 of it inside the application, in repartition topics" in page
    document = described(kgroup, COUNTS)
    assert document["verdict"]["conclusion"]["cause"] == "no-reader"
    assert document["verdict"]["commands"] == []
    assert [task["active_member_id"] for task in document["streams"]["all_tasks"]] == [None] * 4


def test_a_classic_application_becomes_a_streams_group(
    kgroup: CommandLine, world: KafkaWorld, running: Application
) -> None:
    """What ``migrate`` shows beforehand: the offsets stay, its clients do not leave by themselves."""
    group = "sa-classic"
    own = {"application_id": group, "client_id": "c", "counts": "one", "session_timeout_ms": "6000"}
    running.clients.streams("c", ORDERS, OUT, "classic", running.directory / "c", **own)
    ends = {(ORDERS, number): world.end(ORDERS, number) for number in range(2)}

    def at_the_end() -> bool:
        """Also in its repartition topic, which it commits later."""
        done = {place: offset for place, (offset, _) in world.committed(group).items()}
        return ends.items() <= done.items() and all(offset == world.end(*place) for place, offset in done.items())

    wait_for(at_the_end, f"{group} at the end", 60)
    before = world.committed(group)
    (document,) = kgroup("migrate", group, "-o", "json", exit_code=6).data
    found = {check["id"]: (check["status"], check["evidence"]) for check in document["checks"]}
    assert [(name, status) for name, (status, _) in found.items()] == [
        ("kind", "blocked"),
        ("streams-protocol", "ok"),
        ("streams-restart", "warning"),
        ("streams-settings", "warning"),
    ]
    assert "session.timeout.ms (was 6000 ms)" in found["streams-settings"][1]
    running.clients.close("c")
    assert world.groups()[group] == ("classic", "stable")
    wait_for(lambda: world.groups()[group] == ("classic", "empty"), "Empty", 60)
    (document,) = kgroup("migrate", group, "-o", "json", exit_code=6).data
    assert ("streams-restart", "ok") in [(check["id"], check["status"]) for check in document["checks"]]
    running.clients.streams("d", ORDERS, OUT, "streams", running.directory / "d", **own | {"client_id": "d"})
    wait_for(lambda: world.groups()[group] == ("streams", "stable"), "a streams group", 60)
    assert {place: world.committed(group)[place][0] for place in before} == {p: before[p][0] for p in before}
    after = described(kgroup, group)
    assert sorted(task["task"] for task in after["streams"]["all_tasks"]) == ["0_0", "0_1", "1_0", "1_1"]
    running.clients.close("d")
