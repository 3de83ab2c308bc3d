"""Streams groups in the verbs that read groups, with a member made of single requests.

Real applications are in ``tests/clients/test_streams_applications.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]


@pytest.fixture
def orders(world: KafkaWorld, name: Name) -> str:
    """A topic of two partitions with ten records each."""
    topic = world.topic(name("orders"), partitions=2)
    for partition in range(2):
        world.produce(topic, 10, partition)
    return topic


def test_a_group_whose_topic_is_missing(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    group, absent = name("wc"), name("absent")
    world.streams_group(group, absent)

    (document,) = kgroup("describe", group, "-o", "json").data
    assert (document["type"], document["state"], document["assignor"]) == ("streams", "NotReady", "sticky")
    assert document["streams"]["missing_topics"] == [absent]
    assert document["streams"]["all_tasks"] == []
    conclusion = document["verdict"]["conclusion"]
    words = f"no member gets tasks until these source topics exist: {absent}"
    assert (conclusion["cause"], document["verdict"]["next"]) == ("not-ready", words)
    page = kgroup("describe", group).stdout
    assert words in page
    assert f"without source topics {absent}" in page
    late = kgroup("wait", group, "--for", "stable", "--within", "1s", exit_code=8)
    assert "NotReady" in late.stderr
    world.topic(absent, 1)
    (document,) = kgroup("describe", group, "-o", "json").data
    assert document["streams"]["missing_topics"] == []
    assert [task["task"] for task in document["streams"]["all_tasks"]] == ["0_0"]


def test_tasks_without_an_owner(kgroup: CommandLine, world: KafkaWorld, name: Name, orders: str) -> None:
    """A member that has gone, and what it has committed: its lag, ages, retention, checks and metrics are a group's."""
    group = name("wc")
    world.streams_group(group, orders, stopped=True)
    world.commit(group, {(orders, 0): 4, (orders, 1): 10})

    (document,) = kgroup("describe", group, "-o", "json").data
    rows = [(row["partition"], row["committed"], row["lag"]) for row in document["partitions"]]
    assert rows == [(0, 4, 6), (1, 10, 0)]
    assert [(task["task"], task["active_member_id"]) for task in document["streams"]["all_tasks"]] == [
        ("0_0", None),
        ("0_1", None),
    ]
    assert document["verdict"]["conclusion"]["cause"] == "no-reader"
    assert document["verdict"]["commands"] == []
    for words in ((), ("--members",)):
        assert "2 tasks, 2 without an owner (0_0, 0_1)" in kgroup("describe", group, *words).stdout
    assert "lag 6 is over 5" in kgroup("lag", group, "--max-lag", "5", exit_code=8).stdout
    assert "NO-READER" in kgroup("lag", group).stdout
    assert f'group="{group}"' in kgroup("lag", "--type", "streams", "-o", "prometheus").stdout
    kgroup("wait", group, "--for", "lag=6", "--for", "empty", "--for", "type=streams", "--within", "5s")
    (listed,) = kgroup("list", "--regex", group, "-o", "json").data
    assert (listed["type"], listed["state"], listed["member_count"]) == ("streams", "Empty", 0)
    # By the stem of this module's names, whatever the type: other tests have left share groups, which answer late.
    assert [row["group"] for row in kgroup("list", "--regex", "wc-.*", "--topic", orders, "-o", "json").data] == [group]


def test_topics_of_a_topology_without_commits(kgroup: CommandLine, world: KafkaWorld, name: Name, orders: str) -> None:
    group = name("wc")
    world.streams_group(group, orders)

    def known() -> bool:
        (document,) = kgroup("describe", group, "-o", "json").data
        return [(row["partition"], row["lag"]) for row in document["partitions"]] == [(0, None), (1, None)]

    wait_for(known, f"the partitions of {group}")
    assert "nothing is committed yet" in kgroup("describe", group).stdout
    # Kafka takes no commits of others while its member is there.
    world.streams_group(stopped := name("stopped"), orders, stopped=True)
    world.commit(stopped, {(orders, 0): 4})
    assert kgroup("peek", stopped, "-o", "json").data[0]["offset"] == 4


@pytest.mark.parametrize(
    "words",
    [
        ("reset", "--all-topics", "--to-earliest", "--execute"),
        ("delete", "--execute"),
        ("delete-offsets", "--topic", "orders", "--execute"),
        ("migrate", "--execute"),
        ("catchup", "start", "--to-topic", "elsewhere"),
        ("evict", "--all-members", "--execute"),
        ("export",),
    ],
    ids=lambda words: words[0],
)
def test_other_verbs_refuse_it(
    kgroup: CommandLine, world: KafkaWorld, name: Name, orders: str, words: tuple[str, ...]
) -> None:
    group = name("wc")
    world.streams_group(group, orders, stopped=True)
    world.commit(group, {(orders, 0): 4})
    verb = words[:2] if words[0] == "catchup" else words[:1]
    refused = kgroup(*verb, group, *words[len(verb) :], exit_code=6).stderr

    assert f"{group} is a streams group" in refused
    assert world.committed(group)[orders, 0][0] == 4
    steps = [line.strip()[:2] for line in refused.splitlines() if line.strip()[:2] in ("1.", "2.", "3.")]
    assert steps == (["1.", "2.", "3."] if words[0] in ("reset", "delete-offsets") else [])
    assert ("--delete-all-internal-topics" in refused) is (words[0] in ("reset", "delete-offsets", "delete"))


def test_more_instances_are_simulated(kgroup: CommandLine, world: KafkaWorld, name: Name, orders: str) -> None:
    group, stopped = name("wc"), name("gone")
    world.streams_group(group, orders)
    (document,) = kgroup("simulate", group, "--add", "1", "-o", "json").data
    assert (document["type"], document["scenarios"], document["assumed"]) == ("streams", [], None)
    tasks = document["tasks"]
    assert (tasks["task_count"], tasks["stateful_task_count"], tasks["moved_task_count"]["most"]) == (2, 0, 1)
    assert [each["active_before"] for each in tasks["instances"]] == [["0_0", "0_1"], None]
    page = kgroup("simulate", group, "--add", "1").stdout
    assert "TASKS  1 of 2 move, 0 of them needlessly" in page
    assert "STATE  none is read: each instance has that of its tasks" in page
    for words, exit_code, text in (
        (("--remove", "1"), 6, f"{group} has 1 instance: 1 cannot be removed, one has to stay [too-few-members]"),
        (("--remove", "m"), 5, f"{group} has no instance m"),
        (("--kill", "1"), 6, "only added and removed instances are simulated [instances-only]"),
        (("--add", "1", "--restore-rate", "fast"), 2, "--restore-rate fast: is not a size"),
    ):
        assert text in kgroup("simulate", group, *words, exit_code=exit_code).stderr
    world.streams_group(stopped, orders, stopped=True)
    assert "[no-members]" in kgroup("simulate", stopped, "--add", "1", exit_code=6).stderr


def test_what_the_doctor_finds(kgroup: CommandLine, world: KafkaWorld, name: Name, orders: str) -> None:
    group, absent = name("wc"), name("absent")
    world.streams_group(group, absent)

    def found(of: str) -> dict[str, tuple[str, list[str]]]:
        (document,) = kgroup("doctor", of, "-o", "json").data
        return {each["rule"]: (each["severity"], each["commands"]) for each in document["findings"]}

    create = f"kafka-topics.sh --bootstrap-server {world.bootstrap} --create --topic {absent} --partitions N"
    waits = found(group)
    assert waits["streams-not-ready"] == ("critical", [create])
    assert {rule: severity for rule, (severity, _) in waits.items()} == {
        "streams-not-ready": "critical",
        "topic-gone": "info",
    }
    behind = name("behind")
    world.streams_group(behind, orders, stopped=True)
    world.commit(behind, {(orders, 0): 4, (orders, 1): 99})
    outside = found(behind)
    assert outside["out-of-range"][0] == "critical"
    assert [command.split(" --")[0] for command in outside["out-of-range"][1]] == ["kafka-streams-groups.sh"]
    assert not any("kgroup reset" in command for _, commands in outside.values() for command in commands)
