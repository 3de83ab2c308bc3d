"""Rules of ``kgroup doctor`` that need a past: commits that repeat, stand, expire, or belong to another log.

The offsets that expire, the transaction in ``__consumer_offsets`` and the three brokers have brokers of their own.
"""

from __future__ import annotations

import shlex
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from kgroup.sandbox import Sandbox
from kgroup.support.clock import utc_ms
from tests.commands.test_coordinator_moves import topic_on
from tests.commands.test_doctor import TRANSACTIONS, rules_of, severities
from tests.conftest import BROKER_PROPERTIES
from tests.helpers.command_line import CommandLine, QuietReporter
from tests.helpers.hanging import hang_offsets
from tests.helpers.kafka_tools import run_tool
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members
from tests.helpers.three_brokers import PROPERTIES
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
OFFSETS_TOPIC = "__consumer_offsets"
RETENTION_S, CHECK_S = 60, 5


@pytest.mark.soak
def test_a_static_member_that_came_back_too_late(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    """Its session had ended, and the group had become Empty."""
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    pod = members.classic(group, topic, group_instance_id="pod-0", session_timeout_ms=5000)
    members.stable(pod, partitions=2)
    pod.close()
    wait_for(lambda: world.groups()[group][1] == "empty", "the end of its session")
    pod.start_again()
    members.stable(pod, partitions=2)

    finding = rules_of(kgroup, group)[group]["session-restart"]

    assert (finding["severity"], finding["affected"]) == ("warning", ["pod-0"])
    numbers = finding["numbers"]
    assert (numbers["restart_count"], numbers["too_long_count"], numbers["session_timeout_ms"]) == (1, 1, 5000)
    assert numbers["longest_away_ms"] > 5000


@pytest.mark.soak
def test_a_static_member_that_was_down_once(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    """Away for more than three sessions: no session timeout is made of that."""
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    pod = members.classic(group, topic, group_instance_id="pod-0", session_timeout_ms=5000)
    members.stable(pod, partitions=2)
    pod.kill()
    wait_for(lambda: world.groups()[group][1] == "empty", "the end of its session")
    back = time.monotonic() + 12
    wait_for(lambda: time.monotonic() > back, "three sessions")
    pod.start_again()
    members.stable(pod, partitions=2)

    assert "session-restart" not in rules_of(kgroup, group)[group]


@pytest.mark.soak
def test_an_offset_that_an_open_transaction_holds(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str
) -> None:
    """For a minute, as shorter ones are usual; when it ends, its producer is named no more."""
    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 20)
    world.commit(group, {(topic, 0): 5})

    with world.pending(group, {(topic, 0): 12}, timeout_ms=600_000):
        finding = wait_for(lambda: rules_of(kgroup, group)[group].get("pending-commit"), "a minute", 120)
        (described,) = kgroup("describe", group, "-o", "json").json["data"]

    whose = f"an open transaction of {group}-"
    assert (finding["severity"], finding["affected"]) == ("warning", [f"{topic}:0"])
    assert f"{topic}:0: {whose}" in finding["evidence"]
    assert "holds offset 12 since" in finding["evidence"]
    assert finding["numbers"]["held_ms"] >= 60_000
    (command,) = finding["commands"]
    assert command.startswith(
        f"kafka-transactions.sh --bootstrap-server {world.bootstrap} describe --transactional-id {group}-"
    )
    assert whose in described["verdict"]["next"]
    assert "pending-commit" not in rules_of(kgroup, group)[group]


def test_commits_that_repeat(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    """As auto-commit does over a quiet partition."""
    topic, group, works = world.topic(name("orders")), name("svc"), name("works")
    world.produce(topic, 120)
    for offset in range(120):
        world.commit(group, {(topic, 0): 120})
        world.commit(works, {(topic, 0): offset + 1})

    found = rules_of(kgroup, group, works)

    assert found[group]["idle-commits"]["severity"] == "info"
    assert found[group]["idle-commits"]["numbers"]["without_progress_count"] == 119
    assert found[group]["idle-commits"]["affected"] == [f"{topic}:0"]
    assert "idle-commits" not in found[works]


def put_into_log(world: KafkaWorld, group: str, topic: str, at_ms: int) -> None:
    """A commit of 0 on partition 0 as the coordinator writes it, of any age (OffsetCommitKey 1, OffsetCommitValue 3).

    It reads it when it writes there itself. Brokers take records for their own topics from this client alone.
    """
    key = struct.pack(">h", 1) + _text(group) + _text(topic) + struct.pack(">i", 0)
    value = struct.pack(">hqi", 3, 0, -1) + _text("") + struct.pack(">q", at_ms)
    producer = Producer({"bootstrap.servers": world.bootstrap, "client.id": "__admin_client"})
    failed: list[object] = []
    producer.produce(
        OFFSETS_TOPIC,
        value,
        key,
        0,
        timestamp=at_ms,
        on_delivery=lambda error, _: failed.append(error) if error else None,
    )
    assert producer.flush(30) == 0
    assert not failed


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


# Brokers of their own


@contextmanager
def brokers(directory: Path, monkeypatch: pytest.MonkeyPatch, count: int, **properties: str) -> Iterator[Sandbox]:
    """A cluster for one test, as KGROUP_BOOTSTRAP_SERVER; properties with _ for the dots."""
    sandbox = Sandbox(directory)
    usual = PROPERTIES if count > 1 else BROKER_PROPERTIES
    try:
        given = {key.replace("_", "."): value for key, value in properties.items()}
        status = sandbox.up(brokers=count, properties={**usual, **given}, reporter=QuietReporter())
        assert status.bootstrap_servers
        monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", status.bootstrap_servers)
        yield sandbox
    finally:
        sandbox.down(wipe=True, reporter=QuietReporter())


def bootstrap_of(sandbox: Sandbox) -> str:
    status = sandbox.up(reporter=QuietReporter())
    assert status.bootstrap_servers
    return status.bootstrap_servers


def of_the_cluster(exit_code: int = 0) -> dict[str, dict[str, Any]]:
    """The cluster's findings by their rules."""
    (found,) = CommandLine()("doctor", "--cluster", "-o", "json", exit_code=exit_code).data
    return {finding["rule"]: finding for finding in found["findings"]}


@pytest.mark.soak
def test_members_whose_commits_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: Name) -> None:
    """While records wait: they hang, or go round a record. Their first commits are some minutes old in the log."""
    with (
        brokers(tmp_path, monkeypatch, 1, offsets_topic_num_partitions="1") as sandbox,
        KafkaWorld(bootstrap_of(sandbox)) as world,
        Members(world.bootstrap) as members,
    ):
        kgroup, topic = CommandLine(), world.topic(name("orders"), partitions=2)
        world.commit(name("first"), {(topic, 0): 0})
        tries_of: dict[str, int] = {}
        expected: dict[str, tuple[str, int] | None] = {}
        for minutes, severity in ((4, None), (6, "warning"), (16, "critical")):
            for tries in (1, 3):
                group = name(f"svc-{minutes}-{tries}")
                put_into_log(world, group, topic, utc_ms() - minutes * 60_000)
                tries_of[group] = tries
                expected[group] = (severity, tries) if severity else None
        world.commit(name("next"), {(topic, 0): 0})  # whereupon the coordinator finds out, and reads its log again
        read = {(topic, 0): (0, "")}
        wait_for(lambda: all(world.committed(group) == read for group in tries_of), "a coordinator that has read them")
        for group, tries in tries_of.items():
            member = members.classic(group, topic)
            members.stable(member, partitions=2)
            for _ in range(tries - 1):
                member.commit()
            member.hold()
        world.produce_at(topic, 0, [utc_ms() - 3_600_000] + 149 * [utc_ms()])

        found = rules_of(kgroup, *expected)

        stalls = {group: found[group].get("stalled-commits") for group in expected}
        assert {
            group: stall and (stall["severity"], stall["numbers"]["attempt_count"]) for group, stall in stalls.items()
        } == expected
        for stall in filter(None, stalls.values()):
            assert (stall["affected"], stall["numbers"]["partition_count"], stall["numbers"]["lag"]) == (
                [f"{topic}:0"],
                1,
                150,
            )
            assert ("no commit for" in stall["evidence"]) is (stall["numbers"]["attempt_count"] == 1)


@pytest.mark.soak
def test_offsets_that_are_about_to_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: Name) -> None:
    """Warned of, then critical, then gone: of a group that became Empty, of one that only commits, of a topic left."""
    retention = {"offsets_retention_minutes": "1", "offsets_retention_check_interval_ms": str(CHECK_S * 1000)}
    with (
        brokers(tmp_path, monkeypatch, 1, **retention) as sandbox,
        KafkaWorld(bootstrap_of(sandbox)) as world,
        Members(world.bootstrap) as members,
    ):
        kgroup, topic, left = CommandLine(), world.topic(name("orders")), world.topic(name("left"))
        world.produce(topic, 3)
        gone, simple, live = name("gone"), name("simple"), name("live")
        rules = {gone: "offsets-expire", simple: "offsets-expire-in-use", live: "offsets-expire-in-use"}
        was = members.classic(gone, topic)
        members.stable(was, partitions=1)
        was.commit()
        was.close()
        wait_for(lambda: world.groups()[gone] == ("classic", "empty"), "Empty")
        world.commit(simple, {(topic, 0): 3})
        world.commit(live, {(left, 0): 0})
        members.stable(members.classic(live, topic), partitions=1)
        said: dict[str, list[tuple[str, tuple[str, ...]]]] = {group: [] for group in rules}

        def over() -> bool:
            found = {
                one["group"]: {finding["rule"]: finding for finding in one["findings"]}
                for one in kgroup("doctor", "--all-groups", "-o", "json").data
            }
            for group, rule in rules.items():
                finding = found.get(group, {}).get(rule)
                if finding and (now := (finding["severity"], tuple(finding["affected"]))) not in said[group]:
                    assert finding["numbers"]["retention_ms"] == RETENTION_S * 1000
                    said[group].append(now)
            return not {gone, simple} & world.groups().keys() and (left, 0) not in world.committed(live)

        assert not over()
        assert list(said.values()) == [[], [], []], "not yet"
        wait_for(over, "all of them gone", RETENTION_S + 8 * CHECK_S)
        for group, place in ((gone, f"{topic}:0"), (simple, f"{topic}:0"), (live, f"{left}:0")):
            assert said[group] == [("warning", (place,)), ("critical", (place,))], group
        (history,) = kgroup("history", live, "--commits", "-o", "json").data
        (expired,) = (jump for jump in history["commits"]["jumps"] if jump["move"] == "deleted")
        (place,) = expired["partitions"]
        assert place == {
            "topic": left,
            "partition": 0,
            "old_offset": 0,
            "new_offset": None,
            "log_start_offset": None,
        }


@pytest.mark.soak
def test_a_topic_that_is_deleted_under_its_group(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, bystander: str
) -> None:
    """The broker deletes its offsets, and librdkafka leaves it out of its subscription: nothing of it is left."""
    topic, bills, group = world.topic(name("views")), world.topic(name("bills"), partitions=2), name("svc")
    world.produce(topic, 3)
    for partition in range(2):
        world.produce(bills, 3, partition=partition)
    app = members.classic(group, topic, bills, topic_metadata_refresh_interval_ms=1000)
    members.stable(app, partitions=3)
    app.commit()
    wait_for(lambda: len(world.committed(group)) == 3, "its commits")
    assert "topic-gone" not in rules_of(kgroup, group)[group]

    world.delete_topic(bills)
    wait_for(lambda: set(world.committed(group)) == {(topic, 0)}, "the end of its offsets")

    said = "while members subscribed to it, and 2 committed offsets with it"
    finding = rules_of(kgroup, group)[group]["topic-gone"]
    assert (finding["severity"], finding["affected"]) == ("warning", [bills])
    assert finding["evidence"].startswith(f"{bills} was deleted at ")
    assert said in finding["evidence"]
    wait_for(lambda: kgroup("describe", group, exit_code=None).exit_code == 0, "that its members have left it out")
    (described,) = kgroup("describe", group, "-o", "json").data
    assert described["verdict"]["conclusion"]["cause"] == "topic-gone"
    assert said in described["verdict"]["next"]
    assert "deleted with its topic" in kgroup("history", group, "--commits").stdout


@pytest.mark.soak
def test_a_topic_that_was_made_again_while_the_coordinator_was_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: Name
) -> None:
    """Else the broker forgets the commits of a topic that is deleted."""
    with (
        brokers(tmp_path, monkeypatch, 3, offsets_topic_replication_factor="1") as sandbox,
        KafkaWorld(bootstrap_of(sandbox)) as world,
    ):
        kgroup, topic, stem = CommandLine(), name("orders"), name("svc")
        topic_on(world, topic, 1)
        group = next(group for number in range(100) if world.coordinator(group := f"{stem}-{number}") == 3)
        world.commit(group, {(topic, 0): 3})
        assert severities(rules_of(kgroup, group)[group]) == {}
        sandbox.kill(3)
        admin = AdminClient({"bootstrap.servers": world.bootstrap, "log_level": 0})
        wait_for(lambda: set(admin.list_topics(timeout=10).brokers) == {1, 2}, "that the broker is gone")
        with KafkaWorld(world.bootstrap) as anew:  # whose clients never knew that broker
            anew.delete_topic(topic)
            topic_on(anew, topic, 1)
        sandbox.restart(3, reporter=QuietReporter())
        assert world.committed(group) == {(topic, 0): (3, "")}

        found = rules_of(kgroup, group)[group]

        assert severities(found) == {"topic-recreated": "critical"}
        finding = found["topic-recreated"]
        assert finding["affected"] == [f"{topic}:0"]
        assert finding["numbers"] == {
            "topic_count": 1,
            "commit_count": 1,
            "by_topic_id_count": 1,
            "inside_log_count": 1,
        }
        (command,) = finding["commands"]
        assert kgroup(*shlex.split(command)[1:]).stdout.startswith("PLAN  reset ")


@pytest.mark.soak
def test_a_transaction_that_hangs_in_the_topic_of_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: Name
) -> None:
    """Its commit is pending until the command that is printed has aborted it."""
    with (
        brokers(tmp_path, monkeypatch, 1, transaction_max_timeout_ms="2000") as sandbox,
        KafkaWorld(bootstrap_of(sandbox)) as world,
    ):
        topic, group = world.topic(name("orders")), name("svc")
        world.commit(group, {(topic, 0): (1, "kept", 0)})
        assert "hanging-offsets-transaction" not in of_the_cluster()
        transactional_id = hang_offsets(world.bootstrap, group, topic)
        finding = wait_for(lambda: of_the_cluster().get("hanging-offsets-transaction"), "that it hangs")
        assert finding["severity"] == "critical"
        assert transactional_id in finding["evidence"]
        assert finding["affected"][0].startswith(f"{OFFSETS_TOPIC}:")
        (abort,) = finding["commands"]
        tool, *arguments = shlex.split(abort)
        assert tool == "kafka-transactions.sh"
        done = run_tool(TRANSACTIONS, arguments)
        assert done.returncode == 0, done.stderr
        assert "hanging-offsets-transaction" not in of_the_cluster()
        assert world.exact(group) == {(topic, 0): (1, "kept", 0)}


@pytest.mark.soak
def test_replicas_and_coordinators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: Name) -> None:
    """One broker coordinates nearly all groups; then one broker is gone."""
    with (
        brokers(tmp_path, monkeypatch, 3, offsets_topic_num_partitions="6") as sandbox,
        KafkaWorld(bootstrap_of(sandbox)) as world,
    ):
        topic, stem = world.topic(name("orders")), name("svc")
        world.commit(stem, {(topic, 0): 0})
        counts = Counter((world.coordinator(stem),))
        for number in range(1000):
            group = f"{stem}-{number}"
            broker = world.coordinator(group)
            if counts[broker] < (110 if broker == 1 else 1):
                world.commit(group, {(topic, 0): 0})
                counts[broker] += 1
            if counts == {1: 110, 2: 1, 3: 1}:
                break
        found = of_the_cluster()
        assert set(found) == {"coordinator-load"}
        load = found["coordinator-load"]
        assert (load["severity"], load["affected"][0]) == ("warning", "broker 1")
        assert load["numbers"] == {
            "group_count": 112,
            "busiest_group_count": 110,
            "fair_share_group_count": 38,
            "broker_count": 3,
        }

        sandbox.kill(3)
        admin = AdminClient({"bootstrap.servers": world.bootstrap, "log_level": 0})

        def in_sync(count: int) -> bool:
            partitions = admin.list_topics(OFFSETS_TOPIC, 10).topics[OFFSETS_TOPIC].partitions.values()
            return all(len(partition.isrs) == count for partition in partitions)

        wait_for(lambda: in_sync(2), "two in sync")
        finding = of_the_cluster()["offsets-topic-replication"]
        assert finding["severity"] == "warning"
        assert (finding["numbers"]["under_replicated_count"], finding["numbers"]["partition_count"]) == (6, 6)
        assert (finding["numbers"]["without_leader_count"], finding["numbers"]["replication_factor"]) == (0, 3)
