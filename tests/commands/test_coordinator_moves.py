"""``list`` and ``describe`` while brokers die: three brokers, one after the other killed."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from kgroup.cluster.group_partition import OFFSETS_TOPIC, partition_of
from kgroup.sandbox import Sandbox
from tests.helpers import three_brokers
from tests.helpers.command_line import CommandLine, QuietReporter
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.three_brokers import BROKERS
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.soak  # three brokers

Name = Callable[[str], str]


def topic_on(world: KafkaWorld, name: str, *replicas: int) -> str:
    """A topic of one partition on these brokers, the first of which leads it."""
    return three_brokers.topic_on(world, name, replicas, records=5)


def is_at_its_preferred_leader(world: KafkaWorld, group: str) -> bool:
    """Whether the group's partition is led by the first of its replicas, as it is not after that one was down."""
    partitions = (
        AdminClient({"bootstrap.servers": world.bootstrap}).list_topics(OFFSETS_TOPIC, 30).topics[OFFSETS_TOPIC]
    )
    found = partitions.partitions[partition_of(group, len(partitions.partitions))]
    return bool(found.leader == found.replicas[0])


def test_groups_of_all_coordinators(three: KafkaWorld, name: Name) -> None:
    topic = topic_on(three, name("orders"), 1, 2, 3)
    stem = name("svc")
    groups = sorted(f"{stem}-{number}" for number in range(12))
    for group in groups:
        three.commit(group, {(topic, 0): 2})
    documents = CommandLine()("describe", *groups, "-o", "json").data
    places = [three.coordinator(group) for group in groups]
    assert len(set(places)) > 1, "several coordinators"
    assert [found["coordinator"]["id"] for found in sorted(documents, key=lambda found: found["group"])] == places
    assert {found["totals"]["lag"] for found in documents} == {3}
    listed = CommandLine()("list", *groups, "-o", "json").data
    assert [found["coordinator"]["id"] for found in listed] == places


@pytest.mark.parametrize("verb", ["describe", "list"])
def test_coordinator_killed(three: KafkaWorld, sandbox: Sandbox, name: Name, verb: str) -> None:
    """Asked while the coordinator has just died: waits for the new one, and then shows the group from there."""
    topic, group = topic_on(three, name("orders"), 2, 1, 3), name("svc")
    three.commit(group, {(topic, 0): (2, "kept", 0)})
    victim = three.coordinator(group)
    sandbox.kill(victim)

    with three_brokers.busy_partition(three, group, topic):
        (document,) = CommandLine()(verb, group, "--timeout", "60s", "-o", "json").data

    assert document["group"] == group
    assert document["coordinator"]["id"] in BROKERS - {victim}
    if verb == "describe":
        assert [(row["committed"], row["metadata"], row["lag"]) for row in document["partitions"]] == [(2, "kept", 3)]


def test_deadline_is_kept(three: KafkaWorld, sandbox: Sandbox, name: Name) -> None:
    """All brokers dead: kgroup says so within its timeout, not after minutes."""
    topic, group = topic_on(three, name("orders"), 1), name("svc")
    three.commit(group, {(topic, 0): 2})
    sandbox.kill(1)
    sandbox.kill(2)
    sandbox.kill(3)
    started = time.monotonic()
    result = CommandLine()("describe", group, "--timeout", "3s", exit_code=3)
    assert time.monotonic() - started < 20
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def test_leader_down_costs_its_rows_only(three: KafkaWorld, sandbox: Sandbox, name: Name) -> None:
    """A topic with its only replica on a dead broker; the group lives elsewhere, other groups are unaffected."""
    group, other = name("svc"), name("other")
    victim = next(iter(BROKERS - {three.coordinator(group), three.coordinator(other)}))
    others = sorted(BROKERS - {victim})
    dead, alive = topic_on(three, name("dead"), victim), topic_on(three, name("alive"), *others)
    three.commit(group, {(dead, 0): 1, (alive, 0): 2})
    three.commit(other, {(alive, 0): 4})
    sandbox.kill(victim)

    result = CommandLine()("describe", group, other, "--timeout", "8s", "-o", "json", exit_code=7)

    by_group = {found["group"]: found for found in result.data}
    rows = {row["topic"]: row for row in by_group[group]["partitions"]}
    assert (rows[alive]["lag"], rows[alive]["error_code"]) == (3, None)
    assert (rows[dead]["committed"], rows[dead]["lag"], rows[dead]["log_end"]) == (1, None, None)
    assert rows[dead]["error_code"]
    assert by_group[other]["partitions"][0]["lag"] == 1
    assert [(error["group"], error["topic"], error["partition"]) for error in result.json["errors"]] == [
        (group, dead, 0)
    ]
    CommandLine()("describe", other, "-o", "json")


def test_all_groups_with_one_broker_dead(three: KafkaWorld, sandbox: Sandbox, name: Name) -> None:
    """All groups move to the brokers that live; none is left out, and streams groups are not either."""
    topic = topic_on(three, name("orders"), 1, 2, 3)
    stem = name("svc")
    streams = {f"{stem}-streams-{number}" for number in range(6)}
    for group in streams:
        three.streams_group(group, topic, stopped=True)
    groups = streams | {f"{stem}-{number}" for number in range(12)}
    # When the second commit is acknowledged, all followers know that the first one is: any of them shows the group.
    for group in [*groups, *groups]:
        three.commit(group, {(topic, 0): 2})
    victim = three.coordinator(min(groups))
    sandbox.kill(victim)
    listed = CommandLine()("list", "--timeout", "60s", "-o", "json")
    assert groups <= {found["group"] for found in listed.data}
    described = CommandLine()("describe", "--all-groups", "--topic", topic, "--timeout", "60s", "-o", "json")
    assert {found["group"] for found in described.data} == groups
    assert {found["coordinator"]["id"] for found in described.data} <= BROKERS - {victim}
    behind = CommandLine()("lag", "--type", "streams", "--topic", topic, "--timeout", "60s", "-o", "json").data
    assert {found["group"]: found["lag"] for found in behind} == dict.fromkeys(streams, 3)


def test_from_log_while_the_coordinator_is_stopped(three: KafkaWorld, sandbox: Sandbox, name: Name) -> None:
    """Nobody waits for a new coordinator: the partition's new leader has the log, and the group is read out of it."""
    topic, new = topic_on(three, name("orders"), 1, 2, 3), name("new")
    # Of a broker that is down it is known what it would lead, not what it led in another one's place.
    group = next(each for each in (name("svc") for _ in range(200)) if is_at_its_preferred_leader(three, each))
    three.commit(group, {(topic, 0): (2, "kept", 0)})
    before, victim = three.exact(group), three.coordinator(group)
    sandbox.kill(victim)

    (document,) = CommandLine()("describe", group, "--from-log", "--timeout", "60s", "-o", "json").data
    assert (document["source"], document["state"]) == ("log", "Empty")
    assert [(row["committed"], row["metadata"], row["lag"]) for row in document["partitions"]] == [(2, "kept", 3)]
    listed = CommandLine()("list", "--coordinator", str(victim), "--from-log", "--timeout", "60s", "-o", "json").data
    assert listed
    (line,) = (found for found in listed if found["group"] == group)
    assert line["coordinator"]["id"] in BROKERS - {victim}
    assert CommandLine()("export", group, "--from-log", "--timeout", "60s").stdout == f"{topic},0,2\n"
    rescue = ("reset", new, "--create", "--from-group", group, "--from-log", "--timeout", "60s", "--execute")
    CommandLine()(*rescue)
    assert three.exact(new) == before


def test_commits_survive_many_coordinator_kills(three: KafkaWorld, sandbox: Sandbox, name: Name) -> None:
    """A commit that was acknowledged before the kill is never shown as missing after it (seen for 1 s)."""
    topic, group = topic_on(three, name("orders"), 1, 2, 3), name("svc")
    for turn in range(1, 9):
        three.commit(group, {(topic, 0): turn})
        victim = three.coordinator(group)
        sandbox.kill(victim)
        with three_brokers.busy_partition(three, group, topic):
            (document,) = CommandLine()("describe", group, "--timeout", "60s", "-o", "json").data
        assert [row["committed"] for row in document["partitions"]] == [turn]
        sandbox.restart(victim, reporter=QuietReporter())
        wait_for(lambda: shows_it_alone(group), "a healthy cluster")


def shows_it_alone(group: str) -> bool:
    """Whether every broker answers, and one of them has this group; one that comes back may answer with an error."""
    listed = CommandLine()("list", group, "-o", "json", exit_code=None)
    return listed.exit_code == 0 and len(listed.data) == 1
