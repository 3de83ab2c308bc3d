"""``kgroup migrate`` on brokers of every migration policy, and on those that do not have the new protocol.

What kgroup says of a live group is compared with what the broker then does, when a member of the other protocol
really joins. group.consumer.migration.policy can't be changed on a running broker, so each has its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kgroup.sandbox import Sandbox
from kgroup.sandbox.ports import choose, is_free
from tests.conftest import BROKER_PROPERTIES
from tests.helpers import by_hand
from tests.helpers.command_line import CommandLine, QuietReporter, Result
from tests.helpers.journals import changes
from tests.helpers.kafka_proxy import CONSUMER_GROUP_HEARTBEAT, KafkaProxy
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
TOPIC = "orders-of-the-policies"
POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
WITHOUT = {
    "version": ({}, ("--feature", "group.version=0")),
    "protocol": ({"group.coordinator.rebalance.protocols": "classic"}, ()),
}
"""Brokers without the consumer protocol, by what is missing: settings, and arguments for formatting."""

LIMITS = {"group.consumer.max.size": "1", "group.consumer.assignors": "range"}
"""Further settings of the broker with the policy DISABLED, which no other test there meets."""

METADATA = "pay\u00e9 \u0001 {}"

pytestmark = [pytest.mark.usefixtures("bystanders"), pytest.mark.soak]  # five brokers with settings of their own


@dataclass(frozen=True)
class Broker:
    """One of them, with ``orders`` (two partitions)."""

    world: KafkaWorld
    members: Members

    def __call__(self, *arguments: str, exit_code: int = 0) -> Result:
        return CommandLine()("migrate", *arguments, "-b", self.world.bootstrap, exit_code=exit_code)

    def row(self, *arguments: str, exit_code: int) -> dict[str, Any]:
        """The one row of a plan."""
        (row,) = self(*arguments, "-o", "json", exit_code=exit_code).data
        return dict(row)

    def idle(self, group: str) -> str:
        """A group of assign(): commits with all that they may have, and no member ever."""
        self.world.commit(group, {(TOPIC, 0): (3, METADATA, 0), (TOPIC, 1): (0, "", None)})
        return group

    def old(self, group: str, assignor: str = "range") -> by_hand.ClassicMember:
        """The one member of a live classic group with the same commits; it stays for 15 s."""
        return by_hand.join(self.world, self.idle(group), {TOPIC: [0, 1]}, assignors=[assignor])


@pytest.fixture(scope="module")
def proxy() -> Iterator[KafkaProxy]:
    """Before the broker with the policy UPGRADE, for whom it is told of."""
    proxy = KafkaProxy()
    yield proxy
    proxy.close()


@pytest.fixture(scope="module")
def brokers(bootstrap: str, proxy: KafkaProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Broker]]:
    """All of them, by policy or by what is missing, booted side by side; the shared one is BIDIRECTIONAL."""
    wanted: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
        policy: ({"group.consumer.migration.policy": policy}, ()) for policy in POLICIES[1:]
    }
    wanted["disabled"][0].update(LIMITS)
    wanted |= WITHOUT
    sandboxes = {name: Sandbox(tmp_path_factory.mktemp(name)) for name in wanted}
    (port,) = choose(1, free=is_free)
    advertised = f"PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{proxy.port}"

    def boot(name: str) -> str:
        settings, format_arguments = wanted[name]
        proxied = name == "upgrade"
        status = sandboxes[name].up(
            port=port if proxied else None,
            listeners={"PROXIED": "PLAINTEXT"} if proxied else None,
            properties=BROKER_PROPERTIES | settings | ({"advertised.listeners": advertised} if proxied else {}),
            format_arguments=format_arguments,
            reporter=QuietReporter(),
        )
        if proxied:
            proxy.target = int(status.listeners["PROXIED"].rpartition(":")[2])
            return f"127.0.0.1:{port}"
        assert status.bootstrap_servers
        return status.bootstrap_servers

    try:
        with ThreadPoolExecutor(len(wanted)) as pool, contextlib.ExitStack() as stack:
            addresses = {"bidirectional": bootstrap} | dict(zip(wanted, pool.map(boot, wanted), strict=True))
            found: dict[str, Broker] = {}
            for name, address in addresses.items():
                world = stack.enter_context(KafkaWorld(address))
                world.topic(TOPIC, partitions=2)
                found[name] = Broker(world, stack.enter_context(Members(address)))
            yield found
    finally:
        for sandbox in sandboxes.values():
            sandbox.down(wipe=True, reporter=QuietReporter())


@pytest.fixture
def bystanders(brokers: dict[str, Broker]) -> Iterator[None]:
    """On each broker a group that no test may touch."""
    for broker in brokers.values():
        broker.world.commit("bystander", {(TOPIC, 0): (7, "mine", 0)})
    yield
    for broker in brokers.values():
        assert broker.world.exact("bystander") == {(TOPIC, 0): (7, "mine", 0)}
        assert broker.world.groups()["bystander"][0] == "classic"


# Live groups


def rolls(policy: str, protocol: str) -> bool:
    """Whether the broker lets a live group go over to this protocol, member by member."""
    return policy in {"consumer": ("bidirectional", "upgrade"), "classic": ("bidirectional", "downgrade")}[protocol]


@pytest.mark.parametrize("policy", POLICIES)
def test_live_classic_group(brokers: dict[str, Broker], policy: str, name: Name) -> None:
    """Rolling or stop as the broker itself then does; and --execute refuses it under every policy."""
    broker, possible = brokers[policy], rolls(policy, "consumer")
    member = broker.old(name("old"))
    group = member.group
    before = broker.world.exact(group)
    row = broker.row(group, exit_code=0 if possible else 9)
    assert (row["type"], row["state"], row["member_count"], row["target"]) == ("classic", "Stable", 1, "consumer")
    assert row["readiness"] == "ready"
    assert row["how"] == ("rolling" if possible else "stop")
    assert not row["converted"]
    (check,) = (check for check in row["checks"] if check["id"] == "migration-policy")
    assert policy in check["evidence"].lower()
    assert check["offline_only"] is not possible
    screen = broker(group, exit_code=0 if possible else 9).stdout
    assert row["how"] in screen
    assert "Nothing was changed" in screen
    member.heartbeat()
    refused = broker(group, "--execute", exit_code=9)
    assert "[not-empty]" in refused.stderr
    assert "kafka-python" in refused.stderr, "its member's client id"
    assert broker.world.groups()[group] == ("classic", "stable")
    assert broker.world.exact(group) == before

    # What the broker does: a member of the consumer protocol joins.
    answer = by_hand.heartbeat(broker.world, group, "m" * 22, 0, TOPIC)
    assert answer == (0 if possible else by_hand.GROUP_ID_NOT_FOUND)
    assert broker.world.groups()[group][0] == ("consumer" if possible else "classic")


@pytest.mark.parametrize("policy", POLICIES)
def test_live_consumer_group(brokers: dict[str, Broker], policy: str, name: Name) -> None:
    """Under UPGRADE classic members may join; but the group stays of the consumer type when the others have left."""
    broker, possible = brokers[policy], rolls(policy, "classic")
    group = name("new")
    member = broker.members.consumer(group, TOPIC, client_id="new-0")
    broker.members.stable(member, partitions=2)
    row = broker.row(group, "--protocol", "classic", exit_code=0 if possible else 9)
    assert (row["type"], row["state"], row["member_count"], row["target"]) == ("consumer", "Stable", 1, "classic")
    assert row["how"] == ("rolling" if possible else "stop")
    assert row["readiness"] == "ready"
    (check,) = (check for check in row["checks"] if check["id"] == "migration-policy")
    assert policy in check["evidence"].lower()
    assert check["offline_only"] is not possible
    assert {row["readiness"] for row in broker(group, "-o", "json").data} == {"done"}
    refused = broker(group, "--protocol", "classic", "--execute", exit_code=9)
    assert "[not-empty]" in refused.stderr
    assert "new-0" in refused.stderr
    assert broker.world.groups()[group] == ("consumer", "stable")

    # What the broker does: a classic member joins, and the last one of the consumer protocol leaves.
    answer = by_hand.first_classic_join(broker.world, group, TOPIC)
    if policy == "disabled":
        assert answer == by_hand.INCONSISTENT_GROUP_PROTOCOL
        return
    assert answer == by_hand.MEMBER_ID_REQUIRED
    classic = broker.members.classic(group, TOPIC)
    broker.members.stable(classic, member, partitions=2)
    member.close()
    if possible:
        wait_for(lambda: broker.world.groups()[group] == ("classic", "stable"), "downgraded")
    else:
        wait_for(lambda: broker.world.groups()[group][1] != "stable", "the other one gone")
        assert broker.world.groups()[group][0] == "consumer"


# Empty groups


@pytest.mark.parametrize("policy", POLICIES)
def test_empty_group_there_and_back_under_every_policy(brokers: dict[str, Broker], policy: str, name: Name) -> None:
    broker = brokers[policy]
    group = broker.idle(name("idle"))
    before = broker.world.exact(group)
    assert len(before) == 2
    for source, target in (("classic", "consumer"), ("consumer", "classic")):
        row = broker.row(group, "--protocol", target, exit_code=0)
        assert (row["readiness"], row["how"], row["type"], row["target"]) == ("ready", "now", source, target)
        assert broker.world.groups()[group][0] == source, "a plan only"
        row = broker.row(group, "--protocol", target, "--execute", exit_code=0)
        assert (row["converted"], row["read_back_count"], row["error_code"]) == (True, 2, None)
        assert broker.world.groups()[group] == (target, "empty")
        assert broker.world.exact(group) == before
        assert broker.row(group, "--protocol", target, "--execute", exit_code=0)["readiness"] == "done"


# No consumer protocol

CAUSES = {"version": "group.version", "protocol": "group.coordinator.rebalance.protocols"}


@pytest.mark.parametrize("missing", WITHOUT)
def test_without_the_consumer_protocol(brokers: dict[str, Broker], missing: str, name: Name, tmp_path: Path) -> None:
    """The broker answers both with the same error: kgroup tells which it is, and touches nothing."""
    broker, other = brokers[missing], next(cause for key, cause in CAUSES.items() if key != missing)
    idle, member = broker.idle(name("idle")), broker.old(name("old"))
    live = member.group
    before = {group: broker.world.exact(group) for group in (idle, live)}
    for group in (idle, live):
        member.heartbeat()
        row = broker.row(group, exit_code=6)
        assert (row["readiness"], row["how"]) == ("blocked", None)
        (check,) = (check for check in row["checks"] if check["status"] == "blocked")
        assert CAUSES[missing] in check["evidence"] + check["remedy"]
        assert other not in check["evidence"] + check["remedy"]
        assert check["source"]
        assert other not in row["reason"]
    screen = broker(idle, exit_code=6).stdout
    assert "BLOCKED" in screen
    assert CAUSES[missing] in screen
    result = broker(idle, "--execute", "--accept", "active-committer", exit_code=6)
    assert "[blocked]" in result.stderr
    member.heartbeat()
    watched = broker(live, "--watch", "--within", "60s", exit_code=6).stderr
    assert f"{live} cannot move to the consumer protocol" in watched
    assert "ROLLOUT" not in watched, "nothing is followed that can never come"
    assert broker(idle, "--only", "ready", "--execute", exit_code=0)
    states = broker.world.groups()
    assert (states[idle], states[live]) == (("classic", "empty"), ("classic", "stable"))
    assert {group: broker.world.exact(group) for group in before} == before
    assert changes(tmp_path / "state") == [], "nothing to take back"


# A proxy in between


def test_proxy_that_knows_an_older_version_is_no_old_broker(
    brokers: dict[str, Broker], proxy: KafkaProxy, name: Name
) -> None:
    """Kroxylicious caps ConsumerGroupHeartbeat at version 0, in which the broker gives the member its id."""
    broker = brokers["upgrade"]
    group = broker.idle(name("idle"))
    before = broker.world.exact(group)
    proxy.first_version_only.add(CONSUMER_GROUP_HEARTBEAT)
    through = ("migrate", group, "-b", f"127.0.0.1:{proxy.port}")
    try:
        (row,) = CommandLine()(*through, "-o", "json").data
        assert row["readiness"] == "ready"
        assert "proxy" in str(row["checks"])
        assert "older than" not in str(row["checks"])
        assert broker.world.groups()[group] == ("classic", "empty")
        CommandLine()(*through, "--execute")
    finally:
        proxy.first_version_only.clear()
    assert broker.world.groups()[group] == ("consumer", "empty")
    assert broker.world.exact(group) == before


# Further limits of a broker


def test_more_members_than_the_broker_takes(brokers: dict[str, Broker], name: Name) -> None:
    """Two classic members where group.consumer.max.size is 1: the second would be turned away."""
    broker, group = brokers["disabled"], name("crowd")
    both = [broker.members.classic(group, TOPIC) for _ in range(2)]
    broker.members.stable(*both, partitions=2)
    row = broker.row(group, exit_code=6)
    (check,) = (check for check in row["checks"] if "group.consumer.max.size" in str(check))
    assert (row["readiness"], check["status"]) == ("blocked", "blocked")
    assert {"1", "2"} <= set(check["evidence"].replace(",", " ").replace(":", " ").split())
    for member in both:
        member.end()


def test_assignor_that_the_broker_does_not_offer(brokers: dict[str, Broker], name: Name) -> None:
    """cooperative-sticky would become uniform, which is not among group.consumer.assignors; range is.

    It is no more than a warning: a client that names no assignor gets the first of the broker's.
    """
    broker, group, plain = brokers["disabled"], name("sticky"), name("plain")
    for member in (broker.old(group, "cooperative-sticky"), broker.old(plain)):
        member.leave()
    row = broker.row(group, exit_code=0)
    assert (row["readiness"], row["how"]) == ("warning", "now")
    (check,) = (check for check in row["checks"] if check["status"] == "warning")
    for word in ("cooperative-sticky", "uniform", "group.consumer.assignors", "range"):
        assert word in check["evidence"] + check["remedy"]
    assert "assignor" in row["reason"]
    assert broker.row(plain, exit_code=0)["readiness"] == "ready"
