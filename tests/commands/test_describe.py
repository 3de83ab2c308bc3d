"""``kgroup describe`` against real groups of every kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.command_line import CommandLine
from tests.kafka_world import KafkaWorld
from tests.members import Members
from tests.waiting import wait_for

Name = Callable[[str], str]


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_live_classic_group(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str, assignor: str
) -> None:
    topic, group = world.topic(name("orders"), partitions=4), name("svc")
    world.produce(topic, 10, partition=1)
    both = members.classic(group, topic, assignor=assignor), members.classic(group, topic, assignor=assignor)
    members.stable(*both, partitions=4)
    both[0].commit()

    (document,) = kgroup("describe", group, "-o", "json").data

    assert (document["type"], document["state"], document["protocol_type"]) == ("classic", "Stable", "consumer")
    assert document["assignor"] == assignor
    assert document["generation"] >= 2
    assert document["leader"] in {member["member_id"] for member in document["members"]}
    assert document["group_epoch"] is document["assignment_epoch"] is None
    assert len(document["members"]) == 2
    assert all(member["assignment"] for member in document["members"])
    assert [row["partition"] for row in document["partitions"]] == [0, 1, 2, 3]
    assert all(row["member_id"] for row in document["partitions"])
    assert document["totals"]["unassigned_partitions"] == 0


def test_live_consumer_group(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    topic, group = world.topic(name("orders"), partitions=4), name("svc")
    both = members.consumer(group, topic), members.consumer(group, topic)
    members.stable(*both, partitions=4)

    def stable() -> dict[str, object] | None:
        (document,) = kgroup("describe", group, "-o", "json").data
        return document if document["state"] == "Stable" else None

    document = wait_for(stable, "a stable consumer group")
    assert (document["type"], document["assignor"]) == ("consumer", "uniform")
    assert document["group_epoch"] == document["assignment_epoch"]
    assert document["generation"] is None
    found = document["members"]
    assert isinstance(found, list)
    assert {member["protocol"] for member in found} == {"consumer"}
    assert all(member["epoch"] == document["group_epoch"] for member in found)
    assert all(member["target_assignment"] == member["assignment"] for member in found)
