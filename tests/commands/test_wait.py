"""``kgroup wait`` on real groups of both protocols: what it sees, what it says, when it stops."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from kafka.protocol.consumer import JoinGroupRequest, LeaveGroupRequest

from kgroup.sandbox import Sandbox
from tests.conftest import MORTAL
from tests.helpers.command_line import CommandLine, QuietReporter, Result
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members
from tests.helpers.running import running
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
FIELDS = {"group", "type", "state", "member_count", "lag", "hidden_commits", "conditions", "waited_ms",
          "remaining_members", "archived_count"}  # fmt: skip
QUICK: dict[str, Any] = {"session_timeout_ms": 1000, "heartbeat_interval_ms": 200}
"""Sessions of classic members; those of consumer members end after 6 s on the shared broker, or as the group says."""


waiting = partial(running, "wait")
"""Starts ``kgroup wait``, and listens to it."""


def only(result: Result) -> dict[str, Any]:
    (document,) = result.data
    assert set(document) == FIELDS
    return document


def come_and_go(world: KafkaWorld, group: str) -> None:
    """A classic member that joins an empty group and leaves it, in a few milliseconds."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")
    joined = world._to_coordinator(
        group,
        JoinGroupRequest[9](
            group_id=group,
            session_timeout_ms=6000,
            rebalance_timeout_ms=6000,
            member_id="",
            group_instance_id="flash",
            protocol_type="consumer",
            protocols=[protocol],
            reason=None,
        ),
    )
    assert joined.error_code == 0, joined
    member = LeaveGroupRequest.MemberIdentity(member_id="", group_instance_id="flash", reason=None)
    left = world._to_coordinator(group, LeaveGroupRequest[5](group_id=group, members=[member]))
    assert left.error_code == 0, left


@pytest.fixture
def idle(world: KafkaWorld, name: Name) -> str:
    """A group without members that has read 4 of 10 records."""
    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 10)
    world.commit(group, {(topic, 0): 4})
    return group


@pytest.mark.soak
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_until_empty(kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, protocol: str) -> None:
    """One leaves, one crashes: the one that is left is named, with a bound for its session that holds."""
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    start = members.classic if protocol == "classic" else members.consumer
    if protocol == "consumer":
        world.configure_group(group, consumer_session_timeout_ms="5000")
    # With quicker heartbeats one of two such clients sometimes stays out of the rebalance.
    settings: dict[str, Any] = (
        {"session_timeout_ms": 5000, "heartbeat_interval_ms": 500} if protocol == "classic" else {}
    )
    both = [start(group, topic, **settings) for _ in range(2)]
    members.stable(*both, partitions=2)
    with waiting(group, "--for", "empty", "--within", "30s", "-o", "json") as wait:
        wait.says(f"{group} 2 members: ")
        both[0].close()
        both[1].kill()
        killed = time.monotonic()
        document = only(wait.ends(0))
        assert time.monotonic() - killed < 15
    assert (document["state"], document["member_count"], document["type"]) == ("Empty", 0, protocol)
    assert document["waited_ms"] > 300
    assert wait.lines[-1].endswith(f"WAIT      {group} is Empty")
    assert any("session ends within" in line and "127.0.0.1" in line for line in wait.lines)
    assert len(wait.lines) < 12, "an event a line, not a look a line"


@pytest.mark.parametrize(("protocol", "longest_ms"), [("classic", 30_000), ("consumer", 15_000)])
def test_who_remains(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, protocol: str, longest_ms: int
) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    if protocol == "classic":
        member = members.classic(group, topic, session_timeout_ms=30_000, client_id="pay-4")
    else:
        member = members.consumer(group, topic, client_id="pay-4")
    members.stable(member, partitions=1)
    started = time.monotonic()
    result = kgroup("wait", group, "--for", "empty", "--within", "600ms", "-o", "json", exit_code=8)
    took_ms = (time.monotonic() - started) * 1000
    (remaining,) = only(result)["remaining_members"]
    assert set(remaining) == {"member_id", "client_id", "instance_id", "host", "session_ends_in_ms"}
    assert (remaining["client_id"], remaining["instance_id"], remaining["host"]) == ("pay-4", None, "127.0.0.1")
    assert longest_ms - took_ms <= remaining["session_ends_in_ms"] < longest_ms
    assert f"{group} 1 member: pay-4 127.0.0.1, session ends within" in result.stderr
    assert "if it is gone" in result.stderr
    screen = kgroup("wait", group, "--for", "members=0", "--within", "0s", exit_code=8).stdout
    assert "pay-4" in screen
    assert "session ends within" in screen


def test_static_member_that_left(kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name) -> None:
    """It is still a member, and the line says what removes it."""
    topic = world.topic(name("orders"))
    for start, stem in ((members.classic, "old"), (members.consumer, "new")):
        group = name(stem)
        settings: dict[str, Any] = {"session_timeout_ms": 30_000} if stem == "old" else {}
        member = start(group, topic, group_instance_id="pay-4", **settings)
        members.stable(member, partitions=1)
        member.close()
        result = kgroup("wait", group, "--for", "empty", "--within", "0s", exit_code=8)
        assert f"{group} 1 member: pay-4 127.0.0.1, static, " in result.stderr
        assert f"kgroup evict {group} --instance pay-4 removes it now" in result.stderr
        assert f"-> kgroup evict {group} --instance pay-4 removes it now" in result.stdout
        assert ("has left temporarily, session ends within" in result.stderr) is (stem == "new")


def test_until_members_have_come(kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name) -> None:
    """The end of a deployment: an Empty classic group that comes back on the new protocol."""
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    world.commit(group, {(topic, 0): 0})
    conditions = ("--for", "stable", "--for", "members=2", "--for", "type=consumer")
    with waiting(group, *conditions, "--within", "30s", "-o", "json") as wait:
        wait.says(f"{group} Empty; type classic")
        both = [members.consumer(group, topic) for _ in range(2)]
        document = only(wait.ends(0))
    assert (document["type"], document["state"], document["member_count"]) == ("consumer", "Stable", 2)
    members.stable(*both, partitions=2)


def test_until_caught_up(kgroup: CommandLine, world: KafkaWorld, idle: str) -> None:
    ((topic, _),) = world.committed(idle)
    with waiting(idle, "--for", "lag=1", "--within", "30s", "-o", "json") as wait:
        wait.says(f"{idle} lag 6, waiting for lag=1")
        world.commit(idle, {(topic, 0): 9})
        assert only(wait.ends(0))["lag"] == 1


def test_lag_counts_partitions_without_a_commit(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    world.produce(topic, 3, partition=1)
    world.commit(group, {(topic, 0): 0})
    world.join_as(group, "consumer")  # from now on it is no group of assign(), which reads what it commits alone
    document = only(kgroup("wait", group, "--for", "lag=2", "--within", "0s", "-o", "json", exit_code=8))
    assert document["lag"] == 3


def test_lag_time(kgroup: CommandLine, world: KafkaWorld, idle: str) -> None:
    result = kgroup("wait", idle, "--for", "lag-time=1h", "--within", "9s", "-o", "json")
    assert only(result)["conditions"][0]["observed"].startswith("oldest unread record ")
    kgroup("wait", idle, "--for", "lag-time=1ms", "--within", "0s", exit_code=8)
    ((topic, _),) = world.committed(idle)
    world.commit(idle + "-2", {(topic, 0): 7})
    both = kgroup("wait", idle, idle + "-2", "--for", "lag-time=1h", "--within", "9s", "-o", "json").data
    assert len({found["conditions"][0]["observed"].partition(",")[2] for found in both}) == 1
    world.commit(idle, {(topic, 0): 10})
    caught_up = only(kgroup("wait", idle, "--for", "lag-time=1ms", "--within", "9s", "-o", "json"))
    assert caught_up["conditions"][0]["observed"] == "nothing unread"


@pytest.mark.soak
def test_hold(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    """A member that comes and goes between two looks: Empty at both, and the hold restarts."""
    topic, group = world.topic(name("orders")), name("svc")
    world.commit(group, {(topic, 0): 0})
    come_and_go(world, group)
    started = time.monotonic()
    quiet = only(kgroup("wait", group, "--for", "empty", "--hold", "500ms", "--within", "20s", "-o", "json"))
    took_ms = (time.monotonic() - started) * 1000
    assert quiet["waited_ms"] <= took_ms - 500, "until it was so, not until the hold was over"
    with waiting(group, "--for", "empty", "--hold", "5s", "--within", "60s", "-o", "json") as wait:
        wait.says(f"{group} is Empty, must hold for 5s")
        again = 0.0

        def noticed() -> bool:
            nonlocal again
            again = time.monotonic()
            come_and_go(world, group)
            with suppress(AssertionError):  # the first look that counts is a moment after the line
                wait.says("a member joined in between", within_s=1.5)
                return True
            return False

        wait_for(noticed, "a visit between two looks")
        wait.ends(0)
        assert time.monotonic() - again >= 5, "the whole hold again"


def test_hold_not_in_time(kgroup: CommandLine, idle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        "--hold must be at most --within" in kgroup("wait", idle, "--for", "empty", "--hold", "6m", exit_code=2).stderr
    )
    # The hold begins so long after the first look, so that a machine that stands still does not let it be reached.
    monkeypatch.setattr("kgroup.queries.poll_loop.SHORTEST_PAUSE_S", 1.9)
    result = kgroup("wait", idle, "--for", "empty", "--hold", "2s", "--within", "2s", exit_code=8)
    assert "NOT YET" in result.stdout
    assert "of 2s" in result.stdout


def test_group_that_vanishes(kgroup: CommandLine, world: KafkaWorld, idle: str) -> None:
    with waiting(idle, "--for", "members=0", "--for", "lag=3", "--within", "30s") as wait:
        wait.says("lag 6, waiting for lag=3")
        world.delete_group(idle)
        wait.says(f"{idle} does not exist")


def test_unknown_groups(kgroup: CommandLine, idle: str, name: Name) -> None:
    for others in ((), (idle,)):
        result = kgroup("wait", idle + "x", *others, "--for", "stable", exit_code=5)
        assert f'no group "{idle}x"' in result.stderr
        assert f"Near: {idle}" in result.stderr
        assert "WAIT" not in result.stderr
    absent = name("absent")
    document = only(kgroup("wait", absent, "--new", "--for", "stable", "--within", "0s", "-o", "json", exit_code=8))
    assert (document["group"], document["type"], document["state"], document["member_count"]) == (absent, None, None, 0)


def test_group_that_is_to_appear(kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    with waiting(group, "--new", "--for", "stable", "--within", "30s", "-o", "json") as wait:
        wait.says(f"{group} does not exist")
        members.classic(group, topic, **QUICK)
        assert only(wait.ends(0))["member_count"] == 1


def test_filters_that_leave_nothing(kgroup: CommandLine, idle: str) -> None:
    result = kgroup("wait", idle, "--in-state", "Stable", "--for", "empty", "-o", "json")
    assert (result.data, "nothing to wait for: no group is chosen" in result.stderr) == ([], True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--for", "empty"), "no group is chosen"),
        (("--topic", "orders", "--for", "empty"), "no group is chosen"),
        (("svc",), "--for is required"),
        (("svc", "--for", "emty"), "did you mean empty?"),
        (("svc", "--for", "empty", "--within", "5"), "the unit is missing: 5s, 5m or 5h"),
        (("svc", "--for", "empty", "--new"), "nothing to wait for"),
        (("--regex", "s.*", "--for", "stable", "--new"), "--new requires groups by name"),
    ],
)
def test_usage(kgroup_cli: CommandLine, arguments: tuple[str, ...], message: str) -> None:
    assert message in kgroup_cli("wait", *arguments, exit_code=2).stderr


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_it_at_once(kgroup: CommandLine, idle: str, number: signal.Signals, exit_code: int) -> None:
    with waiting(idle, "--for", "lag=0", "--within", "10m") as wait:
        wait.says("lag 6")
        sent = time.monotonic()
        wait.process.send_signal(number)
        result = wait.ends(exit_code)
        assert time.monotonic() - sent < 20
    assert result.stdout == ""


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A broker that may be killed."""
    sandbox = Sandbox(tmp_path_factory.mktemp("fragile"))
    try:
        sandbox.up(properties=MORTAL, reporter=QuietReporter())
        yield sandbox
    finally:
        sandbox.down(wipe=True, reporter=QuietReporter())


@pytest.mark.soak
def test_cluster_that_stops_answering(fragile: Sandbox, name: Name, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked again until the time is over (3), or until it is back."""
    status = fragile.up(reporter=QuietReporter())
    assert status.bootstrap_servers
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", status.bootstrap_servers)
    topic, group = name("orders"), name("svc")
    with KafkaWorld(status.bootstrap_servers) as world:
        world.topic(topic)
        world.produce(topic, 5)
        world.commit(group, {(topic, 0): 0})
    wanted = (group, "--for", "lag=0", "--timeout", "2s", "-o", "json")
    with waiting(*wanted, "--within", "20s") as short, waiting(*wanted, "--within", "120s") as long:
        for wait in (short, long):
            wait.says("lag 5")
        fragile.kill(1)
        ended = json.loads(short.ends(3).stdout)
        assert (ended["data"], len(ended["errors"])) == ([], 1)
        for wait in (short, long):
            wait.says("no answer: ")
        fragile.restart(1, reporter=QuietReporter())
        with KafkaWorld(status.bootstrap_servers) as world:
            world.commit(group, {(topic, 0): 5})
        assert only(long.ends(0))["lag"] == 0
        assert sum("no answer" in line for line in long.lines) < 4, "not a line for each look"
