"""``kgroup describe``: its shape, its choice of groups, its formats. Kinds of groups: test_describe_groups.py."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from typing import Any

import pytest

from kgroup.support.instants import short_time
from tests.helpers import by_hand
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Member, Members
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_live_classic_group(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str, assignor: str
) -> None:
    topic, group = world.topic(name("orders"), partitions=4), name("svc")
    world.produce(topic, 10, partition=1)
    both = members.telling(group, topic, assignor=assignor), members.telling(group, topic, assignor=assignor)
    document = stable(kgroup, group, members, *both)

    assert (document["type"], document["protocol_type"]) == ("classic", "consumer")
    assert document["assignor"] == assignor
    assert document["generation"] == both[0].generation == both[1].generation
    assert document["leader_member_id"] in {member["member_id"] for member in document["members"]}
    assert {member["member_id"] for member in document["members"]} == {member.member_id for member in both}
    assert document["group_epoch"] is document["assignment_epoch"] is None
    assert len(document["members"]) == 2
    assert all(member["assignment"] for member in document["members"])
    assert [row["partition"] for row in document["partitions"]] == [0, 1, 2, 3]
    assert all(row["member_id"] for row in document["partitions"])
    assert document["totals"]["unassigned_partition_count"] == 0


def test_live_sticky_group(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    """Which librdkafka does not offer: a member made of single requests."""
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    member = by_hand.join(world, group, {topic: [0, 1]}, assignors=["sticky"])
    (document,) = kgroup("describe", group, "-o", "json").data
    assert (document["state"], document["assignor"], document["generation"]) == ("Stable", "sticky", member.generation)
    assert document["leader_member_id"] == member.member_id
    member.leave()


@pytest.mark.soak
@pytest.mark.parametrize("static", [True, False])
def test_a_rebalance_that_waits_for_a_dead_leader(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str, static: bool
) -> None:
    """It dies between its JoinGroup and its SyncGroup; once it is evicted, the other one, which lives, reads on."""
    topic, group, session_ms = world.topic(name("orders")), name("svc"), 60_000
    world.produce(topic, 10)
    instance = "pod-0" if static else None
    leader = by_hand.join(world, group, {topic: [0]}, session_ms=session_ms, instance=instance)
    began = time.monotonic()
    for offset in (1, 2, 3):
        leader.commit(topic, 0, offset)
        wait_for(lambda: time.monotonic() - began > 1.1 * offset, "another second")  # noqa: B023
    live = members.classic(group, topic, **({"group_instance_id": "pod-1"} if static else {}))
    wait_for(lambda: world.groups()[group][1] == "preparingrebalance", "the joining of the other")
    leader.join_again(topic, session_ms)
    assert "check again in a moment" in kgroup("describe", group).stdout, "any rebalance may look like this"

    def waits() -> dict[str, Any] | None:
        verdict: dict[str, Any] = kgroup("describe", group, "-o", "json").data[0]["verdict"]
        return verdict if "by its leader" in verdict["next"] else None

    verdict = wait_for(waits, "a silence that is unusual", 45)

    assert verdict["next"].endswith(", for at most 1m if that is dead")
    (diagnosis,) = kgroup("doctor", group, "-o", "json").data
    assert [(f["severity"], f["evidence"]) for f in diagnosis["findings"] if f["rule"] == "rebalance-waits"] == [
        ("warning", verdict["next"])
    ]
    evictions = [command for command in verdict["commands"] if "evict" in command]
    who = ["--instance", "pod-0"] if static else ["--member", leader.member_id]
    assert [shlex.split(command)[:5] for command in evictions] == [["kgroup", "evict", group, *who]]
    kgroup(*shlex.split(evictions[0])[1:], "--execute")
    members.stable(live, partitions=1, within_s=20)


def stable(kgroup: CommandLine, group: str, members: Members, *both: Member) -> dict[str, Any]:
    """The group at rest, its four partitions with two members."""

    def look() -> dict[str, Any] | None:
        (document,) = kgroup("describe", group, "-o", "json").data
        return (
            document
            if document["state"] == "Stable" and document["totals"]["unassigned_partition_count"] == 0
            else None
        )

    members.stable(*both, partitions=4)
    return wait_for(look, f"{group} Stable")


# The shape


# Which groups


def three_groups(world: KafkaWorld, name: Name) -> tuple[str, list[str]]:
    topic, stem = world.topic(name("orders"), partitions=2), name("g")
    groups = [f"{stem}-{ending}" for ending in "abc"]
    world.produce(topic, 10)
    for behind, group in enumerate(groups):
        world.commit(group, {(topic, 0): 10 - behind, (topic, 1): 0})
    return topic, groups


def chosen(kgroup: CommandLine, *arguments: str, exit_code: int | None = 0) -> list[str]:
    flags = ("--no-generation", "-o", "json")
    return [found["group"] for found in kgroup("describe", *arguments, *flags, exit_code=exit_code).data]


def test_worst_first_without_a_name(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    topic, (a, b, c) = three_groups(world, name)
    screen = kgroup("describe", "--topic", topic).stdout
    assert screen.index(c) < screen.index(b) < screen.index(a)
    assert sorted(chosen(kgroup, "--topic", topic)) == [a, b, c]


# What to show


def test_eighty_columns(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    """As a process without a terminal, told its width: nothing wider, and ids never cut apart."""
    topic, group = world.topic(name("o")[:30]), name("s")[:30]
    world.produce(topic, 10)
    world.commit(group, {(topic, 0): 1})
    for arguments in (("describe", group), ("describe", group, "--verbose"), ("list", group)):
        screen = kgroup.process(*arguments, env={"COLUMNS": "80", "NO_COLOR": "1"}).stdout
        assert max(map(len, screen.splitlines())) <= 80, screen
        assert group in screen
        if arguments[0] == "describe":
            assert f"{topic}:0" in screen


def test_a_topic_on_which_nothing_arrives_and_partitions_without_a_commit(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str
) -> None:
    """A consumer with ``assign()`` reads two of the partitions; a third one has records, and a fourth one none."""
    topic, group = world.topic(name("audit"), partitions=4), name("svc")
    last_ms = round(time.time() * 1000) - 25 * 60_000
    for partition, ago_ms in ((0, 9_000), (1, 0), (2, 5_000)):
        world.produce_at(topic, partition, [last_ms - 60_000, last_ms - ago_ms])
    world.commit(group, {(topic, 0): 2, (topic, 1): 2})

    def shows(text: str) -> str:
        """The first page with it: a busy broker may not answer within a verdict's time."""
        return wait_for(lambda: page if text in (page := kgroup("describe", group).stdout) else None, text)

    page = shows(f"nothing arrives since {short_time(last_ms, round(time.time() * 1000))}")
    assert f"NEVER READ  {topic}:2 holds 2 offsets, and the group has no commit there" in page
    world.produce(topic, 1, partition=1)
    assert "nothing arrives" not in shows("NEVER READ")


def commits_both(world: KafkaWorld, member: Member, group: str) -> None:
    """Have a member commit until the group has a commit of two partitions."""

    def done() -> bool:
        member.commit()
        return len(world.offsets(group)) == 2

    wait_for(done, "commits of both partitions")


def test_a_group_that_another_one_has_replaced(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    """A group that reads a part of the partitions has not, nor has one that was there before."""
    topic, old, new, part = world.topic(name("ledger"), partitions=2), name("v1"), name("v2"), name("part")
    for partition in (0, 1):
        world.produce(topic, 3, partition=partition)
    world.commit(part, {(topic, 0): 3})
    before = members.classic(old, topic)
    members.stable(before, partitions=2)
    commits_both(world, before, old)
    before.close()
    wait_for(lambda: world.groups()[old][1] == "empty", "Empty")
    for partition in (0, 1):
        world.produce(topic, 3, partition=partition)
    after = members.classic(new, topic)
    members.stable(after, partitions=2)
    commits_both(world, after, new)

    verdict = kgroup("describe", old, "-o", "json").data[0]["verdict"]

    assert (verdict["conclusion"]["cause"], verdict["conclusion"]["alternatives"]) == ("replaced", ["no-reader"])
    assert verdict["next"].startswith(f"no member reads; {new} began to read these partitions at ")
    assert [command.split(" (")[0] for command in verdict["commands"]] == [f"kgroup describe {new}"]


def test_a_lag_that_began_as_a_member_left(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    for partition in (0, 1):
        world.produce(topic, 3, partition=partition)
    both = members.classic(group, topic), members.classic(group, topic)
    members.stable(*both, partitions=2)

    def committed() -> bool:
        for member in both:
            member.commit()
        return len(world.offsets(group)) == 2

    wait_for(committed, "commits of both partitions")
    both[1].close()
    members.stable(both[0], partitions=2)
    both[0].hold()
    for partition in (0, 1):
        world.produce(topic, 200, partition=partition)

    def linked() -> Any:
        verdict = kgroup("describe", group, "-o", "json").data[0]["verdict"]
        return verdict if verdict and "the lag began as 2 members became 1 at " in (verdict["next"] or "") else None

    assert wait_for(linked, "the lag and the member that left")["conclusion"]["cause"] == "lag"
