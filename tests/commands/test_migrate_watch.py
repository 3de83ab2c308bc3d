"""``kgroup migrate --watch``: a real rollout, followed until the last classic member is gone."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest

from tests.helpers.command_line import CommandLine
from tests.helpers.conversion import to_consumer
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members
from tests.helpers.running import running
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]

pytestmark = pytest.mark.usefixtures("bystander", "kgroup")

watching = partial(running, "migrate")
EVENT = re.compile(r"\d\d:\d\d:\d\dZ  [A-Z]+ ")


@pytest.fixture
def topic(world: KafkaWorld, name: Name) -> str:
    return world.topic(name("orders"), partitions=4)


def test_watching_ends_with_its_reader(members: Members, name: Name, topic: str) -> None:
    """``2>&1 | grep -m1``: the rollout goes on, and nobody hears of it."""
    group = name("svc")
    members.stable(members.classic(group, topic), partitions=4)
    with watching(group, "--watch", "--within", "60s") as watch:
        watch.says("0 of 1 member speaks consumer")
        assert watch.process.stdout
        watch.process.stdout.close()
        assert watch.process.wait(10) == 0


def test_rollout(kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, topic: str) -> None:
    """One instance after another: members by protocol, epochs, partitions moved; 0 when the last classic one left."""
    group = name("svc")
    old = [members.classic(group, topic, client_id=f"old-{number}") for number in range(2)]
    members.stable(*old, partitions=4)
    with watching(group, "--watch", "--within", "60s", "-o", "json") as watch:
        assert "old-0" in watch.says("0 of 2 members speak consumer")
        new = [members.consumer(group, topic)]
        members.stable(*old, *new, partitions=4)
        watch.says("1 of 3 members speak")
        (row,) = kgroup("migrate", group, "-o", "json").data
        assert (row["readiness"], row["how"], row["type"]) == ("ready", "rolling", "consumer"), "half way is not DONE"
        old[0].close()
        assert "still classic: old-1" in watch.says("1 of 2 members speak")
        old[1].close()
        result = watch.ends(0)
    assert world.groups()[group][0] == "consumer"
    events = [line for line in watch.lines if EVENT.match(line)]
    assert any(re.search(r"epoch \d", line) for line in events)
    assert any(re.search(r"[1-4] partitions? moved", line) for line in events)
    assert "finished" in events[-1]
    assert result.json["kind"] == "kgroup.migrate.rollout/v1"
    (row,) = result.data
    assert (row["group"], row["type"]) == (group, "consumer")


def test_not_in_time(members: Members, name: Name, topic: str, kgroup: CommandLine) -> None:
    """8: the cluster answered, and the classic member is still there, and named."""
    group = name("svc")
    member = members.classic(group, topic, client_id="old-0")
    members.stable(member, partitions=4)
    result = kgroup("migrate", group, "--watch", "--within", "1s", exit_code=8)
    assert result.stdout.startswith("NOT YET")
    assert "old-0" in result.stdout
    assert "0 of 1 member speaks consumer" in result.stderr
    row = kgroup("migrate", group, "--watch", "--within", "0s", "-o", "json", exit_code=8).data[0]
    assert (row["group"], row["type"], row["finished"]) == (group, "classic", False)
    assert (row["classic_member_count"], row["consumer_member_count"]) == (1, 0)


@pytest.mark.soak
def test_downgrade(world: KafkaWorld, members: Members, name: Name, topic: str) -> None:
    """The way back is followed too."""
    group = name("svc")
    new = members.consumer(group, topic)
    members.stable(new, partitions=4)
    with watching(group, "--protocol", "classic", "--watch", "--within", "40s") as watch:
        watch.says("0 of 1 member speaks classic")
        old = members.classic(group, topic)
        members.stable(new, old, partitions=4)
        new.close()
        assert watch.ends(0).stdout.startswith("DONE")
    wait_for(lambda: world.groups()[group] == ("classic", "stable"), "downgraded")


def test_one_classic_member_turns_the_converted_group_back(
    world: KafkaWorld, members: Members, name: Name, topic: str
) -> None:
    """The trap: the old deployment comes up first, and the broker says nothing. The watch does."""
    group = name("svc")
    world.commit(group, {(topic, 0): 0})
    to_consumer(world, group)
    with watching(group, "--watch", "--within", "60s") as watch:
        watch.says("the first member that joins")
        member = members.classic(group, topic, client_id="old-0")
        members.stable(member, partitions=4)
        # A look between both requests of its joining sees a classic group that is still empty.
        assert "REVERTED" in watch.says("classic again")
        watch.says("old-0")


@pytest.mark.parametrize(
    "option",
    [("--execute",), ("--wait-empty",), ("--session-timeout", "50s"), ("--client", "java:4.4.0"), ("--only", "ready")],
)
def test_watching_ignores_nothing(kgroup: CommandLine, option: tuple[str, ...]) -> None:
    """What has no meaning beside it is refused, before anything is asked."""
    assert (
        f"--watch and {option[0]} are mutually exclusive"
        in kgroup("migrate", "svc", "--watch", *option, exit_code=2).stderr
    )
