"""``kgroup delete`` and ``kgroup delete-offsets``; what every changing verb refuses is in test_guards.py."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from kgroup.support.clock import utc_now
from tests.helpers.command_line import CommandLine, Result
from tests.helpers.journals import WAITS, locked
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members
from tests.helpers.running import running
from tests.helpers.waiting import wait_for
from tests.helpers.wire import just_before

Name = Callable[[str], str]

SHIFTED = """
import sys
from datetime import timedelta
import kgroup.support.clock as clock
now, shift = clock.utc_now, timedelta(days=int(sys.argv.pop(1)))
clock.utc_now = lambda: now() + shift
from kgroup.cli.app import main
main()
"""
"""kgroup with a clock that is some days ahead; what stands in for clocks of other kinds stops librdkafka."""

pytestmark = pytest.mark.usefixtures("bystander")


@pytest.fixture
def topic(world: KafkaWorld, name: Name) -> str:
    topic = world.topic(name("orders"), partitions=3)
    world.produce(topic, 10)
    return topic


@pytest.fixture
def three(world: KafkaWorld, name: Name, topic: str) -> list[str]:
    """Idle groups of one stem with commits on partitions 0 and 1."""
    stem = name("old")
    groups = [f"{stem}-{number}" for number in range(3)]
    for group in groups:
        world.commit(group, {(topic, 0): (3, "kept", 0), (topic, 1): 0})
    return groups


def offsets(world: KafkaWorld, group: str) -> dict[int, int]:
    """Committed offsets by partition, of a group with one topic."""
    return {partition: offset for (_, partition), (offset, _) in world.committed(group).items()}


# delete


def test_execute_and_undo(world: KafkaWorld, kgroup: CommandLine, three: list[str], topic: str) -> None:
    """One of three goes, and comes back with offsets and metadata."""
    before = world.committed(three[0])
    result = kgroup("delete", three[0], "--execute")
    assert result.stdout.startswith("DONE  delete")
    assert "Done." in result.stdout
    assert "kgroup undo ch-" in result.stdout
    groups = world.groups()
    assert three[0] not in groups
    assert set(three[1:]) <= set(groups)
    kgroup("undo", "--execute")
    assert world.committed(three[0]) == before
    assert world.committed(three[0])[topic, 0] == (3, "kept")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_that_had_members(
    world: KafkaWorld, members: Members, name: Name, kgroup: CommandLine, topic: str, protocol: str
) -> None:
    """Of both types, with and without commits."""
    start = members.classic if protocol == "classic" else members.consumer
    with_commits, without = name("svc"), name("bare")
    both = [start(with_commits, topic), start(without, topic)]
    for member in both:
        members.stable(member, partitions=3)
    both[0].commit()
    for member in both:
        member.close()
    wait_for(lambda: {world.groups()[group][1] for group in (with_commits, without)} == {"empty"}, "Empty")
    result = kgroup("delete", with_commits, without, "-o", "json", "--execute")
    assert {row["group"]: (row["type"], row["commit_count"], row["deleted"]) for row in result.data} == {
        with_commits: (protocol, 3, True),
        without: (protocol, 0, True),
    }
    assert not {with_commits, without} & set(world.groups())


def test_unknown_group(world: KafkaWorld, kgroup: CommandLine, three: list[str]) -> None:
    """5 with near misses, and nothing is deleted; with --partial the others are."""
    absent = three[0] + "x"
    for given in ((absent,), (absent, three[1])):
        result = kgroup("delete", *given, "--execute", exit_code=5)
        assert f'no group "{absent}"' in result.stderr
        assert three[0] in result.stderr.partition("Near:")[2]
        assert "--create" not in result.stderr
    assert set(three) <= set(world.groups())
    document = kgroup("delete", absent, three[1], "--partial", "--execute", "-o", "json", exit_code=7).json
    assert [error["code"] for error in document["errors"]] == ["not-found"]
    assert set(three) & set(world.groups()) == {three[0], three[2]}
    assert absent not in world.groups()


def test_no_group_is_usage(kgroup: CommandLine) -> None:
    assert "--regex" in kgroup("delete", exit_code=2).stderr
    assert "--regex" in kgroup("delete", "--idle-for", "30d", exit_code=2).stderr


def test_idle_for(
    world: KafkaWorld, members: Members, name: Name, kgroup: CommandLine, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the last commit: what was used within the hour stays, as do groups with members, and that is no error."""
    stem = name("fleet")
    idle, busy, live = (f"{stem}-{kind}" for kind in ("idle", "busy", "live"))
    world.commit(idle, {(topic, 0): 3})
    world.commit(live, {(topic, 0): 3})
    members.stable(members.classic(live, topic), partitions=3)
    chosen = ("delete", "--regex", f"{stem}-.*", "--idle-for")
    early = kgroup(*chosen, "1h", "--execute")
    assert "nothing to do" in early.stderr
    assert "--execute" not in early.stdout, "nothing to apply"
    assert {idle, live} <= set(world.groups())

    # It is half a minute later for the brokers: what the busy group commits from now on is less than that ago.
    between = utc_now()
    wait_for(lambda: utc_now() - between > timedelta(milliseconds=2), "another millisecond")

    async def later(client: object) -> int:
        return round((between + timedelta(seconds=30)).timestamp() * 1000)

    monkeypatch.setattr("kgroup.cluster.broker_clock._controllers_now", later)
    world.commit(busy, {(topic, 0): 3})
    found = [row["group"] for row in kgroup(*chosen, "30s", "-o", "json").data]
    assert found == [idle], "the busy one has committed since, the live one has a member"
    screen = kgroup(*chosen, "30s")
    assert "NOT YET" not in screen.stdout
    world.commit(busy, {(topic, 0): 4})
    document = kgroup(*chosen, "30s", "--execute", "-o", "json").json
    (row,) = document["data"]
    assert (row["group"], row["deleted"], row["last_activity_at"] is not None) == (idle, True, True)
    assert {group for group in world.groups() if group.startswith(stem)} == {busy, live}


def test_idle_for_by_a_clock_that_may_be_ahead_deletes_nothing(
    world: KafkaWorld, name: Name, kgroup: CommandLine, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a user without DESCRIBE on the cluster, or brokers on ZooKeeper. It can be accepted."""
    group, ours = name("used"), utc_now() + timedelta(days=40)
    by_ours = f"only if this machine's clock is right ({ours:%Y-%m-%dT%H:%M}"
    world.commit(group, {(topic, 0): 3})
    before = world.exact(group)
    monkeypatch.setattr("kgroup.cluster.broker_clock.utc_ms", lambda: round(ours.timestamp() * 1000))

    async def unknown(client: object) -> None: ...

    monkeypatch.setattr("kgroup.cluster.broker_clock._controllers_now", unknown)
    for arguments in (("--execute",), (), ("-o", "json")):
        refused = kgroup("delete", group, "--idle-for", "30d", *arguments, exit_code=6)
        assert f"{group} was idle for 30d {by_ours}" in refused.stderr
        assert "[clock-skew]" in refused.stderr
        assert f" is {ours - timedelta(days=40):%Y-%m-%dT}" in refused.stderr, "the brokers' clock"
        assert "Either no group has committed anything since" in refused.stderr
    assert world.exact(group) == before

    kgroup("delete", group, "--idle-for", "30d", "--accept", "clock-skew", "--execute")

    assert group not in world.groups()


@pytest.mark.soak
def test_what_a_shifted_clock_does(kgroup: CommandLine, world: KafkaWorld, name: Name, topic: str) -> None:
    """As a process with another clock: nothing is deleted by it, and all that shows ages warns."""
    group = name("used")
    world.produce(topic, 5)
    world.commit(group, {(topic, 0): 3})

    def shown(days: int, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", SHIFTED, str(days), *arguments], capture_output=True, text=True, timeout=120
        )

    def shifted(days: int, *arguments: str) -> tuple[int, str]:
        done = shown(days, *arguments)
        return done.returncode, done.stderr

    code, said = shifted(-40, "delete", group, "--idle-for", "30d", "--execute")
    assert (code, "40d behind the brokers'" in said) == (0, True), said
    code, said = shifted(40, "delete", group, "--idle-for", "30d", "--execute")
    assert (code, "40d ahead of the brokers'" in said, "no group is chosen" in said) == (0, True, True), said
    assert group in world.groups()
    moment = f"{utc_now() - timedelta(hours=1):%Y-%m-%dT%H:%MZ}"
    for arguments, expected in (
        (("lag", group), 0),
        (("lag", group, "-o", "prometheus"), 0),
        (("wait", group, "--for", "lag-time=100d", "--within", "10s"), 0),
        (("export", group, "--as-of", moment), 5),
        (("undo", group, "--as-of", moment), 5),
    ):
        code, said = shifted(40, *arguments)
        assert (code, "40d ahead of the brokers'" in said) == (expected, True), (arguments, said)
        assert "brokers'" not in kgroup(*arguments, exit_code=expected).stderr, arguments
    (warning,) = json.loads(shown(40, "lag", group, "-o", "json").stdout)["warnings"]
    assert "40d ahead of the brokers'" in warning
    (warning,) = yaml.safe_load(shown(40, "undo", group, "--as-of", moment, "-o", "yaml").stdout)["warnings"]
    assert "40d ahead of the brokers'" in warning, "also where the verb fails"
    assert f"\nWARNING {warning[:20]}" in shown(40, "lag", group, "-o", "markdown").stdout
    assert "40d behind the brokers'" in shifted(-40, "describe", group)[1]


def test_idle_for_counts_members(
    world: KafkaWorld, members: Members, name: Name, kgroup: CommandLine, topic: str
) -> None:
    """A group that has only now lost its member is not idle, though it never committed."""
    group = name("svc")
    member = members.classic(group, topic)
    members.stable(member, partitions=3)
    member.close()
    wait_for(lambda: world.groups()[group][1] == "empty", "Empty")
    assert kgroup("delete", group, "--idle-for", "1h", "--execute", "-o", "json").data == []
    assert group in world.groups()
    wait_for(lambda: kgroup("delete", group, "--idle-for", "1s", "-o", "json").data, "idle")


@pytest.mark.parametrize("given", ["30", "d", "-1d", ""])
def test_idle_for_needs_a_unit(kgroup: CommandLine, given: str) -> None:
    assert "--idle-for" in kgroup("delete", "svc", f"--idle-for={given}", exit_code=2).stderr


@pytest.mark.soak
def test_after_waiting_for_its_turn(
    world: KafkaWorld, kgroup: CommandLine, three: list[str], topic: str, tmp_path: Path
) -> None:
    """Another kgroup holds the lock for a while: nothing has moved, so everything is done then."""
    created = f"{three[0]}-created"
    kgroup("reset", created, "--create", "--topic", topic, "--to-latest", "--execute")
    before = world.exact(three[0])
    with (
        locked(tmp_path / "state") as release,
        running("delete", three[0], "--execute") as deletes,
        running("undo", "--execute") as undoes,
        running("delete-offsets", three[1], "--topic", topic, "--execute") as forgets,
    ):
        for each in (deletes, undoes, forgets):
            each.says(WAITS)
        threading.Timer(2.0, release).start()
        back = change_id(deletes.ends(0).stdout)
        undoes.ends(0)
        forgets.ends(0)
    assert {three[0], created}.isdisjoint(world.groups())
    assert world.exact(three[1]) == {}
    kgroup("undo", back, "--execute")
    assert world.exact(three[0]) == before


def change_id(text: str) -> str:
    """The id in the line that takes a change back."""
    (found,) = re.findall(r"kgroup undo (ch-\w+) --execute", text)
    return str(found)


def way_back(result: Result) -> list[str]:
    """The words after ``kgroup`` of the command that is said to take it back."""
    text = result.stdout.partition("To undo it with the backup:")[2].partition("\n\n")[0]
    words = shlex.split(text.replace("\\\n", " "))
    assert words[:1] == ["kgroup"], result
    return words[1:]


@pytest.mark.parametrize("count", [1, 6])
@pytest.mark.parametrize("verb", ["delete", "delete-offsets"])
def test_way_back_without_a_journal(
    world: KafkaWorld,
    kgroup: CommandLine,
    name: Name,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    count: int,
) -> None:
    """Only --backup has the offsets: the command that is printed brings them back, of many groups too."""
    stem, file = name("old"), tmp_path / "the backup.json"
    groups = [f"{stem}-{number}" for number in range(count)]
    for group in groups:
        world.commit(group, {(topic, 0): (3, "kept", 0), (topic, 1): 0})
    before = [world.exact(group) for group in groups]
    monkeypatch.setenv("KGROUP_STATE_DIR", "/dev/null/state")
    chosen = ("--topic", topic) if verb == "delete-offsets" else ()
    done = kgroup(verb, *groups, *chosen, "--execute", "--backup", str(file))
    assert [world.exact(group) for group in groups if group in world.groups()] in ([], [{}] * count)
    # It has to have a backup of its own, where there is no journal.
    kgroup(*way_back(done), "--backup", str(tmp_path / "second.json"))
    assert [world.exact(group) for group in groups] == before


@pytest.mark.parametrize("others", [0, 1])
def test_group_that_goes_meanwhile(
    world: KafkaWorld, kgroup: CommandLine, three: list[str], monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """Deleted by somebody else between plan and request: not found, and the others go all the same."""
    gone, *rest = three[: 1 + others]

    def go() -> None:
        with KafkaWorld(world.bootstrap) as elsewhere:
            elsewhere.delete_group(gone)

    went = just_before(monkeypatch, "DeleteGroups", go)
    result = kgroup("delete", gone, *rest, "--execute", "-o", "json", exit_code=7 if others else 5)
    assert went
    assert [(error["group"], error["code"]) for error in result.json["errors"]] == [(gone, "not-found")]
    assert {row["group"]: row["deleted"] for row in result.data} == {gone: False} | dict.fromkeys(rest, True)
    assert not {gone, *rest} & set(world.groups())


# delete-offsets


def test_offsets_of_a_topic(world: KafkaWorld, name: Name, kgroup: CommandLine, three: list[str], topic: str) -> None:
    other = world.topic(name("other"))
    world.commit(three[0], {(other, 0): 7})
    before = world.committed(three[0])
    plan = kgroup("delete-offsets", three[0], "--topic", topic)
    assert f"{topic}:1" in plan.stdout
    assert other not in plan.stdout
    assert "skipped" not in plan.stdout.lower(), "nothing is skipped by forgetting"
    assert plan.stdout.rstrip().splitlines()[-1].split()[-1] == "--execute"
    assert world.committed(three[0]) == before
    document = kgroup("delete-offsets", three[0], "--topic", topic, "--execute", "-o", "json").json
    assert document["executed"] is True
    assert [
        (row["topic"], row["partition"], row["old_offset"], row["new_offset"], row["error_code"])
        for row in document["data"]
    ] == [
        (topic, 0, 3, None, None),
        (topic, 1, 0, None, None),
    ]
    assert world.committed(three[0]) == {(other, 0): (7, "")}
    assert offsets(world, three[1]) == {0: 3, 1: 0}
    kgroup("undo", "--execute")
    assert world.committed(three[0]) == before


def test_offsets_of_some_partitions(world: KafkaWorld, kgroup: CommandLine, three: list[str], topic: str) -> None:
    kgroup("delete-offsets", three[0], three[1], "--topic", f"{topic}:0", "--execute")
    assert [offsets(world, group) for group in three] == [{1: 0}, {1: 0}, {0: 3, 1: 0}]
    kgroup("delete-offsets", three[0], "--topic", f"{topic}:0,1", "--execute", exit_code=5)
    assert offsets(world, three[0]) == {1: 0}
    kgroup("delete-offsets", three[0], "--topic", f"{topic}:0,1", "--partial", "--execute", exit_code=7)
    assert three[0] not in world.groups() or offsets(world, three[0]) == {}


def test_offsets_that_are_not_there(world: KafkaWorld, name: Name, kgroup: CommandLine, three: list[str]) -> None:
    """5, and it is said what there is."""
    (topic,) = {place[0] for place in world.committed(three[0])}
    other = world.topic(name("other"))
    for absent in (other, "no-such-topic"):
        result = kgroup("delete-offsets", three[0], "--topic", absent, "--execute", exit_code=5)
        assert absent in result.stderr
        assert topic in result.stderr
        assert result.stderr.count(three[0]) >= 1
    result = kgroup("delete-offsets", three[0], "--topic", f"{topic}:2", "--execute", exit_code=5)
    assert f"{topic}:2" in result.stderr
    assert offsets(world, three[0]) == {0: 3, 1: 0}


def test_offsets_need_a_topic(kgroup: CommandLine, three: list[str]) -> None:
    assert "--topic" in kgroup("delete-offsets", three[0], exit_code=2).stderr
    assert "no group" in kgroup("delete-offsets", "--topic", "orders", exit_code=2).stderr


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_of_a_live_group(
    world: KafkaWorld, members: Members, name: Name, kgroup: CommandLine, topic: str, protocol: str
) -> None:
    """What a member is subscribed to stays, and why is said; what it has ceased to read can be forgotten."""
    group, old = name("svc"), world.topic(name("ceased"))
    world.commit(group, {(topic, 0): 3, (old, 0): 0})
    start = members.classic if protocol == "classic" else members.consumer
    members.stable(start(group, topic, client_id="pay-0"), partitions=3)
    before = world.committed(group)
    for execute in ((), ("--execute",)):
        result = kgroup("delete-offsets", group, "--topic", topic, *execute, exit_code=9)
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in result.stderr
        assert "is subscribed to" in result.stderr
        assert topic in result.stderr
        assert any("pay-0" in line and "127.0.0.1" in line for line in result.stderr.splitlines())
        assert "NOT YET" in result.stdout
        assert f"{topic}:0" in result.stdout
        assert result.stdout.rstrip().splitlines()[-1].count("--execute") == 1
    both = ("delete-offsets", group, "--topic", topic, "--topic", old)
    kgroup(*both, "--execute", exit_code=9)
    assert world.committed(group) == before
    plan = kgroup("delete-offsets", group, "--topic", old)
    assert "NOT YET" not in plan.stdout
    kgroup("delete-offsets", group, "--topic", old, "--execute")
    assert set(world.committed(group)) == {(topic, 0)}
    assert world.groups()[group] == (protocol, "stable")


def test_partly_subscribed(world: KafkaWorld, members: Members, name: Name, kgroup: CommandLine, topic: str) -> None:
    group, old = name("svc"), world.topic(name("ceased"))
    world.commit(group, {(topic, 0): 3, (old, 0): 0})
    members.stable(members.classic(group, topic), partitions=3)
    both = ("delete-offsets", group, "--topic", topic, "--topic", old)
    document = kgroup(*both, "--partial", "--execute", "-o", "json", exit_code=7).json
    assert {row["topic"]: bool(row["error_code"]) for row in document["data"]} == {topic: True, old: False}
    assert set(world.committed(group)) == {(topic, 0)}
