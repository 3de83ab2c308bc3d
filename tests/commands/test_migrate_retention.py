"""Offsets that are old when their group is converted: kgroup's conversion keeps them, the bare requests lose them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from kgroup.sandbox import Sandbox
from tests.conftest import BROKER_PROPERTIES
from tests.helpers.command_line import CommandLine, QuietReporter
from tests.helpers.conversion import to_consumer
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Member, Members
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]

RETENTION_S, CHECK_S = 60, 2


@pytest.fixture
def forgetful(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaWorld]:
    """A broker that forgets offsets after a minute, and looks for such ones every 2 s."""
    sandbox = Sandbox(tmp_path_factory.mktemp("forgetful"))
    retention = {
        "offsets.retention.minutes": str(RETENTION_S // 60),
        "offsets.retention.check.interval.ms": str(CHECK_S * 1000),
    }
    try:
        status = sandbox.up(properties=BROKER_PROPERTIES | retention, reporter=QuietReporter())
        assert status.bootstrap_servers
        monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", status.bootstrap_servers)
        with KafkaWorld(status.bootstrap_servers) as world:
            yield world
    finally:
        sandbox.down(wipe=True, reporter=QuietReporter())


@pytest.mark.soak
def test_old_offsets(forgetful: KafkaWorld, name: Name) -> None:
    """Four groups whose commits are a minute old when their members leave.

    A classic group's count from then on, so they are safe as long as it stays one (``stays``); a consumer group's
    count from their commit. ``bare`` gets the pair of heartbeats alone, ``late`` too, some checks later.
    """
    world, kgroup = forgetful, CommandLine()
    topic = world.topic(name("orders"), partitions=2)
    names = {which: name(which) for which in ("kept", "bare", "late", "stays")}
    for partition in (0, 1):
        world.produce(topic, 10, partition)
    with Members(world.bootstrap) as members:
        live: dict[str, Member] = {}
        for which, group in names.items():
            world.commit(group, {(topic, 0): (3, "kept é\0", 0), (topic, 1): (4, "", None)})
            live[which] = members.classic(group, topic)
        committed = time.monotonic()
        for member in live.values():
            members.stable(member, partitions=2)
            member.hold()  # four that poll for a minute are a burden
        before = world.exact(names["kept"])
        assert before == {(topic, 0): (3, "kept é\0", 0), (topic, 1): (4, "", None)}
        wait_for(lambda: time.monotonic() - committed > RETENTION_S + 2, "commits over a minute old", RETENTION_S + 9)
        for member in live.values():
            member.go()
            member.close()

    def empty() -> bool:
        listed = world.groups()
        return all(listed[group] == ("classic", "empty") for group in names.values())

    wait_for(empty, "Empty")
    assert all(world.exact(group) == before for group in names.values()), "as long as they are classic"

    plan = kgroup("migrate", names["kept"], "--verbose").stdout
    assert "expire" in plan, "the plan knows what would happen"
    (row,) = kgroup("migrate", names["kept"], "--execute", "-o", "json").data
    assert (row["converted"], row["read_back_count"]) == (True, 2)
    left_s = row["offsets_expire_at_ms"] / 1000 - time.time()
    assert RETENTION_S - 15 < left_s <= RETENTION_S + 1, "counted from now"
    to_consumer(world, names["bare"])
    assert world.exact(names["kept"]) == before

    gone_s = 20.0
    wait_for(lambda: names["bare"] not in world.groups(), "a group that the check has taken", gone_s)
    assert world.exact(names["bare"]) == {}, "without the commit again they are lost"
    for which in ("kept", "late", "stays"):
        assert world.exact(names[which]) == before, which
    to_consumer(world, names["late"])
    wait_for(lambda: names["late"] not in world.groups(), "another check", gone_s)
    for which in ("kept", "stays"):
        assert world.exact(names[which]) == before, which
    assert world.groups()[names["kept"]] == ("consumer", "empty")
