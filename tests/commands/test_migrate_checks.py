"""``kgroup migrate``: what it refuses by name, and its checks on real groups, each with what to do and its source.

Which assignor, userData, session timeout a group's members had, the broker tells while they are there; of an Empty
group the log still has it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import by_hand
from tests.helpers.command_line import CommandLine
from tests.helpers.journals import changes
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members

Name = Callable[[str], str]
Row = dict[str, Any]
STATUSES = {"ok", "info", "unknown", "warning", "blocked"}
CHECK = {"id", "status", "evidence", "remedy", "source", "offline_only"}

pytestmark = pytest.mark.usefixtures("bystander")


@pytest.fixture
def topic(world: KafkaWorld, name: Name) -> str:
    topic = world.topic(name("orders"), partitions=2)
    world.produce(topic, 5)
    return topic


def planned(kgroup: CommandLine, group: str, *arguments: str, exit_code: int = 0) -> Row:
    """The group's row of a plan; its checks are whole, and the verdict is that of the worst of them."""
    (row,) = kgroup("migrate", group, *arguments, "-o", "json", exit_code=exit_code).data
    for check in row["checks"]:
        assert set(check) >= CHECK
        assert check["status"] in STATUSES
        assert check["evidence"]
        assert check["source"]
        assert check["remedy"] or check["status"] not in ("warning", "blocked"), check
    statuses = {check["status"] for check in row["checks"]}
    if "blocked" in statuses:
        assert row["readiness"] == "blocked"
    elif row["readiness"] != "done":
        assert row["readiness"] == ("warning" if "warning" in statuses else "ready")
    assert len({check["id"] for check in row["checks"]}) == len(row["checks"])
    return dict(row)


def about(row: Row, word: str) -> dict[str, Any]:
    """The one check with this word in its id."""
    (check,) = (check for check in row["checks"] if word in check["id"])
    return dict(check)


def words_of(check: dict[str, Any]) -> str:
    """What was found, and what to do."""
    return f"{check['evidence']}; {check['remedy'] or ''}"


# Refused by name


def refused(kgroup: CommandLine, world: KafkaWorld, group: str, *words: str) -> None:
    """With and without --execute: 6, by name, and the group is as it was."""
    before, offsets = world.groups()[group], world.exact(group)
    for execute in ((), ("--execute",), ("--execute", "--partial")):
        result = kgroup("migrate", group, *execute, exit_code=6)
        for word in (group, *words):
            assert word in result.stderr + result.stdout
        assert "Done." not in result.stdout
    assert world.groups()[group] == before
    assert world.exact(group) == offsets
    row = planned(kgroup, group, exit_code=6)
    assert (row["readiness"], row["how"]) == ("blocked", None)


def test_connect(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    group = name("workers")
    world.join_as(group, "connect")
    refused(kgroup, world, group, "Kafka Connect", 'protocol type "connect"')


def test_empty_connect_group_is_not_converted_either(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    """The broker would do it without objection."""
    group = name("workers")
    member = by_hand.joined_as(world, group, b"\0\1\xff", protocol_type="connect").member_id
    by_hand.ClassicMember(world, group, member, 1).leave()
    assert world.groups()[group] == ("classic", "empty")
    refused(kgroup, world, group, "Kafka Connect")
    for execute in ((), ("--execute",)):
        kgroup("migrate", group, "--accept", "foreign-owner", *execute, exit_code=6)
    assert world.groups()[group] == ("classic", "empty"), "never: this is no guess"


def test_connect_by_the_name_alone(kgroup: CommandLine, world: KafkaWorld, name: Name, topic: str) -> None:
    """A guess, as with the other verbs: refused by its own code, which can be passed."""
    group = f"connect-s3-archive-{os.urandom(3).hex()}"
    world.commit(group, {(topic, 0): 3})
    refused(kgroup, world, group, "Kafka Connect", "[foreign-owner]", "--accept foreign-owner")
    kgroup("migrate", group, "--accept", "foreign-owner", "--execute")
    assert world.groups()[group] == ("consumer", "empty")


def test_no_group_named(kgroup: CommandLine) -> None:
    for words in ((), ("--execute",)):
        assert "kgroup: no group is named [usage]" in kgroup("migrate", *words, exit_code=2).stderr


def test_protocol_that_is_no_choice(kgroup: CommandLine) -> None:
    refused = kgroup("migrate", "svc", "--protocol", "streams", exit_code=2)
    assert "'--protocol': 'streams' is not one of 'consumer', 'classic'" in refused.stderr


# Assignors


def test_custom_assignor(kgroup: CommandLine, world: KafkaWorld, name: Name, topic: str) -> None:
    """BLOCKED, live and Empty, with what KIP-848 offers instead: uniform, range, or a class in the broker."""
    group = name("geo-router")
    world.commit(group, {(topic, 0): 3})
    member = by_hand.join(world, group, {topic: [0, 1]}, assignors=["com.acme.Geo"])
    for leave in (member.leave, lambda: None):
        row = planned(kgroup, group, exit_code=6)
        check = about(row, "assignor")
        assert check["status"] == "blocked"
        assert "com.acme.Geo" in check["evidence"]
        for offered in ("uniform", "range", "group.consumer.assignors"):
            assert offered in check["remedy"]
        assert (row["readiness"], row["how"]) == ("blocked", None)
        assert "com.acme.Geo" in row["reason"]
        leave()
    for accept in ((), ("--accept", "active-committer"), ("--partial",)):
        result = kgroup("migrate", group, "--execute", *accept, exit_code=6)
        assert "[blocked]" in result.stderr
    assert world.groups()[group] == ("classic", "empty")


# userData, static members, racks, sessions: by members that say just this


def test_user_data_blocks_the_online_way_alone(kgroup: CommandLine, world: KafkaWorld, name: Name, topic: str) -> None:
    """That of assignments; that of subscriptions does not. Proved with a member of the consumer protocol."""
    inside, asked = name("inside"), name("asked")
    by_hand.join(world, inside, {topic: [0, 1]}, assignment_data=b"\1\2")
    by_hand.join(world, asked, {topic: [0, 1]}, subscription_data=b"\1\2")
    row = planned(kgroup, inside, exit_code=9)
    check = about(row, "user")
    assert "userdata" in words_of(check).lower().replace(" ", "")
    assert check["offline_only"] is True
    assert (row["how"], row["readiness"]) == ("stop", "ready")
    page = " ".join(kgroup("migrate", inside, exit_code=9).stdout.split())
    assert "stop: it can only be converted while it is Empty. user-data: the assignments of 1 member carry" in page
    other = planned(kgroup, asked)
    assert other["how"] == "rolling"
    assert about(other, "user")["offline_only"] is False
    assert by_hand.heartbeat(world, inside, "m" * 22, 0, topic) == by_hand.GROUP_ID_NOT_FOUND
    assert by_hand.heartbeat(world, asked, "m" * 22, 0, topic) == 0
    by_hand.heartbeat(world, asked, "m" * 22, -1)


def test_session_timeout_that_is_kept(kgroup: CommandLine, world: KafkaWorld, name: Name, topic: str) -> None:
    """A session in the range but not the broker's own: the group config that keeps it is printed, and can be set."""
    group = name("svc")
    world.commit(group, {(topic, 0): 3, (topic, 1): 4})
    before = world.exact(group)
    by_hand.join(world, group, {topic: [0, 1]}, session_ms=20_000).leave()
    check = about(planned(kgroup, group), "session")
    assert "consumer.session.timeout.ms" in check["remedy"]
    assert "--session-timeout 20s (the group config consumer.session.timeout.ms=20000)" in check["remedy"]
    wanted = ("--session-timeout", "20s", "--heartbeat-interval", "2s")
    plan = kgroup("migrate", group, *wanted).stdout
    assert "consumer.session.timeout.ms=20000, consumer.heartbeat.interval.ms=2000: to be set" in plan
    assert world.group_config(group) == {}
    kgroup("migrate", group, *wanted, "--execute")
    ours = world.group_config(group).items()
    assert {key: value for key, value in ours if key.startswith("consumer.")} == {
        "consumer.session.timeout.ms": "20000",
        "consumer.heartbeat.interval.ms": "2000",
    }
    assert world.groups()[group] == ("consumer", "empty")
    assert world.exact(group) == before


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--session-timeout", "90s"), ("group.consumer.max.session.timeout.ms", "1s to 1m")),
        (("--session-timeout", "500ms"), ("group.consumer.min.session.timeout.ms", "1s to 1m")),
        (("--heartbeat-interval", "20s"), ("group.consumer.max.heartbeat.interval.ms", "100ms to 15s")),
        (("--heartbeat-interval", "50ms"), ("group.consumer.min.heartbeat.interval.ms", "100ms to 15s")),
        (("--session-timeout", "2s", "--heartbeat-interval", "3s"), ("heartbeat", "session")),
    ],
    ids=" ".join,
)
def test_group_settings_out_of_range(
    kgroup: CommandLine,
    world: KafkaWorld,
    name: Name,
    topic: str,
    tmp_path: Path,
    flags: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    """6 before anything is touched, with the broker's range."""
    group = name("svc")
    world.commit(group, {(topic, 0): 3})
    before = world.exact(group)
    for execute in ((), ("--execute",)):
        result = kgroup("migrate", group, *flags, *execute, exit_code=6)
        for word in words:
            assert word in result.stderr
    assert world.groups()[group] == ("classic", "empty")
    assert world.exact(group) == before
    assert world.group_config(group) == {}
    assert changes(tmp_path / "state") == []


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--session-timeout", "20"), "--session-timeout 20: the unit is missing"),
        (("--heartbeat-interval", "soon"), "--heartbeat-interval soon: not a duration"),
    ],
)
def test_group_settings_need_a_unit(kgroup: CommandLine, bystander: str, flags: tuple[str, ...], said: str) -> None:
    assert said in kgroup("migrate", bystander, *flags, exit_code=2).stderr


# What members read


def test_regex_of_a_live_consumer_group(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, topic: str
) -> None:
    """The broker's regex is RE2/J and has to match the whole name; a classic client's does not mean the same."""
    group = name("svc")
    member = members.consumer(group, f"^{topic}.*")
    members.stable(member, partitions=2)
    row = planned(kgroup, group, "--protocol", "classic")
    check = about(row, "regex")
    assert check["status"] == "warning"
    assert f"^{topic}.*" in check["evidence"]
    assert row["how"] == "rolling"


def test_no_group_is_made_by_asking_for_the_protocol(kgroup: CommandLine, world: KafkaWorld, bystander: str) -> None:
    """The probe asks for a group that does not exist."""
    before = set(world.groups())
    row = planned(kgroup, bystander)
    assert any("4.4" in check["evidence"] for check in row["checks"]), "the broker's version"
    assert set(world.groups()) == before
