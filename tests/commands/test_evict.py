"""``kgroup evict``: static members that left without leaving, and what happens to live ones."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.command_line import CommandLine, Result
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Member, Members
from tests.helpers.waiting import wait_for
from tests.helpers.wire import just_before

Name = Callable[[str], str]

FIELDS = {"group", "member_id", "instance_id", "client_id", "host", "partition_count", "removed", "error_code",
          "error_message"}  # fmt: skip
LONG: dict[str, Any] = {"session_timeout_ms": 30000}
"""Sessions of classic members that no test outlives."""

pytestmark = pytest.mark.usefixtures("bystander")


@pytest.fixture
def topic(world: KafkaWorld, name: Name) -> str:
    return world.topic(name("orders"), partitions=2)


@pytest.fixture(params=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def group(world: KafkaWorld, name: Name, topic: str) -> str:
    """A group with a commit, and without members yet."""
    group = name("svc")
    world.commit(group, {(topic, 0): 0})
    return group


def joined(members: Members, protocol: str, group: str, topic: str, *instances: str | None) -> list[Member]:
    """Members that share two partitions; an instance id of None is a dynamic member."""
    start = members.classic if protocol == "classic" else members.consumer
    common: dict[str, Any] = LONG if protocol == "classic" else {}
    found = [
        start(group, topic, client_id=f"pay-svc-{number}", **common, **({"group_instance_id": one} if one else {}))
        for number, one in enumerate(instances)
    ]
    members.stable(*found, partitions=2)
    return found


def not_fencing(result: Result) -> None:
    """The screen says plainly what eviction is not."""
    assert "not fencing" in result.stdout
    assert re.search(r"(joins again|come back|comes back|rejoins) within seconds", result.stdout)


def in_group(kgroup: CommandLine, group: str) -> dict[str, str | None]:
    """Instance id by member id, as ``describe`` has them."""
    (document,) = kgroup("describe", group, "--no-generation", "-o", "json").data
    return {member["member_id"]: member["instance_id"] for member in document["members"]}


def test_static_members_that_were_killed(
    kgroup: CommandLine, world: KafkaWorld, members: Members, group: str, topic: str, protocol: str
) -> None:
    """kill -9 leaves the group non-empty until the sessions end; evict empties it at once, and it can be reset."""
    if protocol == "consumer":
        world.configure_group(group, consumer_session_timeout_ms="30000")
    for member in joined(members, protocol, group, topic, "pay-0", "pay-1"):
        member.kill()
    refused = kgroup("reset", group, "--topic", topic, "--to-latest", "--execute", exit_code=9)
    assert "pay-0" in refused.stderr
    assert "evict" in refused.stderr, "names what helps against a static member that has gone"
    started = time.monotonic()
    kgroup("evict", group, "--instance", "pay-0", "--execute")
    assert set(in_group(kgroup, group).values()) == {"pay-1"}
    result = kgroup("evict", group, "--instance", "pay-1", "--execute")
    assert "Empty" in result.stdout
    assert world.groups()[group] == (protocol, "empty")
    assert time.monotonic() - started < 20, "their sessions last 30 s"
    kgroup("reset", group, "--topic", topic, "--to-latest", "--execute")
    assert group in kgroup("delete", group, "--execute").stdout


def test_dry_run_changes_nothing(kgroup: CommandLine, members: Members, group: str, topic: str, protocol: str) -> None:
    """Each way to choose; unknown ones are 5 and name those that exist, and then nothing at all is done."""
    joined(members, protocol, group, topic, "pay-0", "pay-1")
    before = in_group(kgroup, group)
    ids = {str(instance): member for member, instance in before.items()}
    assert set(ids) == {"pay-0", "pay-1"}
    for chosen, expected in (
        (("--instance", "pay-0"), {"pay-0"}),
        (("--member", ids["pay-1"], "--instance", "pay-0"), {"pay-0", "pay-1"}),
        (("--member", "pay-svc-1"), {"pay-1"}),
        (("--all-members",), {"pay-0", "pay-1"}),
    ):
        document = kgroup("evict", group, *chosen, "-o", "json").json
        assert (document["kind"], document["executed"], document["errors"]) == ("kgroup.evict/v1", False, [])
        assert {row["instance_id"] for row in document["data"]} == expected
        assert len(document["data"]) == len(expected)
        for row in document["data"]:
            assert set(row) == FIELDS
            assert (row["group"], row["host"], row["partition_count"]) == (group, "127.0.0.1", 1)
            assert row["member_id"] == ids[row["instance_id"]]
            assert (row["removed"], row["error_code"]) == (None, None)
        screen = kgroup("evict", group, *chosen)
        assert "Nothing was changed." in screen.stdout
        assert screen.stdout.rstrip().endswith("--execute")
        assert all(instance in screen.stdout for instance in expected)
        not_fencing(screen)
    for chosen, word in (
        (("--instance", "pay-0", "--instance", "nope"), "nope"),
        (("--member", "no-such-member"), "no-such-member"),
    ):
        for execute in ((), ("--execute",)):
            result = kgroup("evict", group, *chosen, *execute, exit_code=5)
            assert f"{word}" in result.stderr
            existing = set(ids) if "--instance" in chosen else set(before)
            assert all(one in result.stderr for one in existing), "those that exist"
            assert "--execute" not in result.stdout, "nothing to apply"
            assert "Done." not in result.stdout
    rows = kgroup("evict", group, "--all-members", "-o", "csv").rows
    assert sorted(row["instance_id"] for row in rows) == ["pay-0", "pay-1"]
    assert kgroup("evict", group, "--all-members", "--expect", "3", "--execute", exit_code=6).stderr
    refused = kgroup("evict", group, "--all-members", "--expect", "3", exit_code=6)
    assert refused.stdout.rstrip().endswith("Nothing was changed."), "no command that would be refused"
    assert in_group(kgroup, group) == before


def test_live_dynamic_member_comes_back(
    kgroup: CommandLine, world: KafkaWorld, members: Members, group: str, topic: str, protocol: str
) -> None:
    """By member id; it is another member soon, which the screen has said."""
    joined(members, protocol, group, topic, None)
    (before,) = in_group(kgroup, group)
    result = kgroup("evict", group, "--member", before, "--execute")
    not_fencing(result)
    assert result.stdout.startswith("DONE  evict")

    def back() -> bool:
        return world.groups()[group][1] == "stable" and len(in_group(kgroup, group)) == 1

    wait_for(back, "the member back")
    assert world.committed(group) == {(topic, 0): (0, "")}


def test_all_members(
    kgroup: CommandLine, world: KafkaWorld, members: Members, group: str, topic: str, protocol: str
) -> None:
    """Static and dynamic ones alike, in one go; the result per member, and it can't be taken back."""
    for member in joined(members, protocol, group, topic, "pay-0", None):
        member.kill()
    before = in_group(kgroup, group)
    document = kgroup("evict", group, "--all-members", "--reason", "INC-4711", "--execute", "-o", "json").json
    assert document["executed"] is True
    assert document["errors"] == []
    assert {row["member_id"]: row["removed"] for row in document["data"]} == dict.fromkeys(before, True)
    assert world.groups()[group] == (protocol, "empty")
    kgroup("reset", group, "--topic", topic, "--to-latest", "--execute")
    listed = kgroup("undo").stdout
    (line,) = (line for line in listed.splitlines() if f"evict {group}" in line)
    assert line.rstrip().endswith("cannot")
    for execute in ((), ("--execute",)):
        refused = kgroup("undo", line.split()[0], *execute, exit_code=6)
        assert "cannot be undone" in refused.stderr
        assert "evict" in refused.stderr


def test_undo_right_after_evict(kgroup: CommandLine, members: Members, group: str, topic: str) -> None:
    """Nothing else is in the journal: it says that an eviction can't be taken back, not that there was nothing."""
    joined(members, "classic", group, topic, "pay-0")[0].kill()
    kgroup("evict", group, "--instance", "pay-0", "--execute")
    for execute in ((), ("--execute",)):
        result = kgroup("undo", *execute, exit_code=6)
        assert f"evict {group}" in result.stderr
        assert "cannot be undone" in result.stderr


def test_an_eviction_does_not_hide_the_change_before_it(
    kgroup: CommandLine, world: KafkaWorld, members: Members, group: str, topic: str, name: Name
) -> None:
    other = name("other")
    world.produce(topic, 3)
    world.commit(other, {(topic, 0): 1})
    before = world.exact(other)
    kgroup("reset", other, "--topic", f"{topic}:0", "--to-earliest", "--execute")
    joined(members, "classic", group, topic, "pay-0")[0].kill()
    kgroup("evict", group, "--instance", "pay-0", "--execute")

    assert world.exact(other) != before
    kgroup("undo", "--execute")
    assert world.exact(other) == before


def test_without_a_journal_no_option_is_advised_that_evict_does_not_have(
    kgroup: CommandLine, members: Members, group: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined(members, "classic", group, topic, "pay-0")
    monkeypatch.setenv("KGROUP_STATE_DIR", "/proc/kgroup-state")
    for how in ((), ("--execute",)):
        refused = kgroup("evict", group, "--all-members", *how, exit_code=6).stderr
        assert "[no-journal]" in refused
        assert "set KGROUP_STATE_DIR" in refused
        assert "--backup" not in refused


def test_empty_and_unknown_groups(kgroup: CommandLine, world: KafkaWorld, group: str) -> None:
    assert "nothing to do" in kgroup("evict", group, "--all-members", "--execute").stderr
    result = kgroup("evict", group, "--instance", "pay-0", "--execute", exit_code=5)
    assert "pay-0" in result.stderr
    near = kgroup("evict", group + "x", "--all-members", "--execute", exit_code=5)
    assert group in near.stderr.partition("Near:")[2]
    assert group + "x" not in world.groups()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("svc",), "the members are missing"),
        (("--all-members",), "Missing argument 'GROUP'"),
        (
            ("svc", "--all-members", "--instance", "pay-0"),
            "--all-members and --instance or --member are mutually exclusive",
        ),
        (
            ("svc", "--all-members", "--member", "pay-0"),
            "--all-members and --instance or --member are mutually exclusive",
        ),
        (("svc", "other", "--all-members"), "extra argument(s) (other)"),
        (("svc", "--instance", ""), "--instance is empty"),
    ],
)
def test_usage(kgroup: CommandLine, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str) -> None:
    """Said before a broker is asked: there is none at this address."""
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", "127.0.0.1:1")
    assert said in kgroup("evict", *arguments, exit_code=2).stderr


def test_member_that_goes_meanwhile(
    kgroup: CommandLine,
    world: KafkaWorld,
    members: Members,
    group: str,
    topic: str,
    protocol: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between the plan and the request one of two has left by itself: the other is removed all the same."""
    leaves, stays = joined(members, protocol, group, topic, None, "pay-1")
    stays.kill()

    def leave() -> None:
        leaves.close()
        wait_for(lambda: len(in_group(CommandLine(), group)) == 1, "one left")

    left = just_before(monkeypatch, "LeaveGroup", leave)
    evict = ("evict", group, "--all-members", "--execute", "--timeout", "60s", "-o", "json")
    document = kgroup(*evict, exit_code=7).json
    assert left
    by_instance = {row["instance_id"]: row for row in document["data"]}
    assert by_instance["pay-1"]["removed"] is True
    assert by_instance["pay-1"]["error_code"] is None
    assert by_instance[None]["removed"] is False
    assert by_instance[None]["error_code"] == "no-member"
    assert world.groups()[group] == (protocol, "empty")
