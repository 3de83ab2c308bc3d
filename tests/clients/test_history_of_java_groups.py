"""``kgroup history`` of a Kafka Streams application (KIP-1071) and of share consumers (KIP-932), both Java's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import CommandLine
from tests.helpers.java import JavaClients
from tests.helpers.kafka_tools import SHARE_GROUPS, KafkaTools
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.soak

Name = Callable[[str], str]


def history(kgroup: CommandLine, group: str, *more: str) -> dict[str, Any]:
    (found,) = kgroup("history", group, "-o", "json", *more).data
    return found


def causes(found: dict[str, Any]) -> list[list[str]]:
    return [[cause["cause"] for cause in step["causes"]] for step in found["steps"]]


def changes(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(change["change_kind"], change["text"]) for change in found["changes"]]


def settled(kgroup: CommandLine, group: str, members: int) -> bool:
    """Whether all members have what the coordinator computed for them, and something of it each."""
    result = kgroup("history", group, "-o", "json", exit_code=None)  # there is no such group at first
    steps = result.data[0]["steps"] if result.exit_code == 0 else ()
    if not steps:
        return False
    shares = [each["tasks"]["active"] if each["tasks"] else each["assignment"] for each in steps[-1]["members"]]
    return len(shares) == members and all(shares) and steps[-1]["completed"] is True


def test_a_streams_application(kgroup: CommandLine, world: KafkaWorld, name: Name, tmp_path: Path) -> None:
    orders, out, group = world.topic(name("orders"), partitions=2), world.topic(name("out")), name("wc")
    for partition in range(2):
        for number in range(20):
            world.produce(orders, 1, partition, b"%d-%d" % (partition, number))

    def started(clients: JavaClients, instance: str) -> None:
        own = {"application_id": group, "client_id": instance, "counts": "one"}
        clients.streams(instance, orders, out, "streams", tmp_path / instance, **own)

    with JavaClients(world.bootstrap) as clients:
        started(clients, "a")
        wait_for(partial(settled, kgroup, group, 1), "a alone", 60)
        wait_for(lambda: all(world.committed(group).get((orders, n), (0,))[0] == 20 for n in range(2)), "all read")
        world.configure_group(group, streams_num_standby_replicas="1")
        started(clients, "b")
        wait_for(partial(settled, kgroup, group, 2), "both", 60)
        both = history(kgroup, group)["steps"][-1]
        clients.close("a")
        wait_for(partial(settled, kgroup, group, 1), "b alone", 60)
        alone = history(kgroup, group)["steps"][-1]
        clients.close("b")
    wait_for(lambda: world.groups()[group] == ("streams", "empty"), "Empty")
    world.commit(group, {(orders, 0): 5})

    names = [member["name"] for member in both["members"]]
    assert [each.partition("-StreamThread")[0] for each in names] == ["a", "b"]
    tasks = [member["tasks"] for member in both["members"]]
    assert sorted(task for each in tasks for task in each["active"]) == ["0_0", "0_1", "1_0", "1_1"]
    # Each keeps the state of the other's task that has a store.
    assert [each["standby"] for each in tasks] == [
        [task for task in other["active"] if task.startswith("1_")] for other in reversed(tasks)
    ]
    assert "join" in [cause["cause"] for cause in both["causes"]]
    assert (both["moved_count"], both["promoted_count"]) == (2, 0)
    # The tasks of a are b's now, and b had the state of one of them.
    assert [cause["cause"] for cause in alone["causes"]] == ["leave"]
    assert (alone["moved_count"], alone["promoted_count"]) == (2, 1)
    assert alone["members"][0]["tasks"]["standby"] == []

    found = history(kgroup, group, "--commits")
    assert [cause for step in causes(found) for cause in step].count("settings-changed") == 1
    assert {step["protocol"] for step in found["steps"]} == {"streams"}
    assert (found["state"], found["steps"][-1]["step_kind"]) == ("Empty", "empty")
    assert changes(found) == [("topology", "epoch 0, 2 subtopologies"), ("settings", "num.standby.replicas 0 -> 1")]
    (jump,) = found["commits"]["jumps"]
    assert (jump["move"], jump["author"], jump["moved_offsets"], jump["command"]) == ("reset", "no-member", -15, None)
    of_each = [history(kgroup, group, "--commits", "--topic", f"{orders}:{at}")["commits"]["jumps"] for at in range(2)]
    assert list(map(len, of_each)) == [1, 0]
    page = kgroup("history", group).stdout
    assert "to a member that had their state" in page
    assert "2+1" in page
    assert "kgroup undo" not in kgroup("history", group, "--commits").stdout
    assert group in [row["group"] for row in kgroup("history", "-o", "json").data]
    (logged,) = kgroup("list", "--from-log", "--group", group, "-o", "json").data
    assert (logged["type"], logged["state"], logged["member_count"]) == ("streams", "Empty", 0)


def test_share_consumers(kgroup: CommandLine, world: KafkaWorld, name: Name, kafka_tool: KafkaTools) -> None:
    orders, clicks, group = world.topic(name("orders"), partitions=2), world.topic(name("clicks")), name("notify")
    tool = partial(kafka_tool, SHARE_GROUPS, "--bootstrap-server", world.bootstrap, "--group", group)
    with JavaClients(world.bootstrap) as clients:
        clients.share("s-1", f"{orders},{clicks}", group)
        wait_for(partial(settled, kgroup, group, 1), "one", 60)
        clients.share("s-2", f"{orders},{clicks}", group)
        wait_for(partial(settled, kgroup, group, 2), "both", 60)
        found = history(kgroup, group)
        assert (found["state"], found["steps"][-1]["moved_count"]) == ("Stable", None)
        assert {place["topic"] for one in found["steps"][-1]["members"] for place in one["assignment"]} == {
            orders,
            clicks,
        }
        clients.close("s-2")
        clients.close("s-1")
    wait_for(lambda: world.groups()[group] == ("share", "empty"), "Empty")
    for words in (
        ("--reset-offsets", "--topic", orders, "--to-earliest", "--execute"),
        ("--delete-offsets", "--topic", clicks),
    ):
        assert tool(*words).returncode == 0
    world.delete_topic(orders)
    gone = ("topic-deleted", f"{orders} (2 partitions)")
    wait_for(lambda: gone in changes(history(kgroup, group)), "the end of its topic")

    found = history(kgroup, group)
    assert {step["protocol"] for step in found["steps"]} == {"share"}
    assert causes(found)[0] == ["join"]
    assert causes(found)[-2:] == [["leave"], ["leave"]]
    first, *others = changes(found)
    assert first[0] == "offsets-initialized"
    assert others == [("offsets-set", f"{orders} (2 partitions)"), ("offsets-deleted", f"{clicks} (1 partition)"), gone]
    assert [change["took_ms"] is None for change in found["changes"]] == [False, False, False, True]
    assert "A share group commits no offsets" in kgroup("history", group, "--commits").stdout

    world.delete_group(group)
    found = history(kgroup, group)
    assert (found["state"], found["steps"][-1]["step_kind"]) == (None, "deleted")
    assert changes(found) == [first, *others]
