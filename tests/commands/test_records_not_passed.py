"""A record that no member gets past: ``lag``, ``peek``, ``history`` and ``doctor`` conclude the same from one log."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest
from confluent_kafka import Producer

from tests.commands.test_doctor import rules_of
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members, commit_to
from tests.helpers.stuck_application import POISON
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]


HABITS = {
    "auto-commit": ("delivery", {}),
    "auto-commit-848": ("delivery", {"group.protocol": "consumer"}),
    "each": ("each", {}),
    "batch": ("batch", {}),
    "flip": ("flip", {}),
    "batch-end": ("batch-end", {}),
}
BACK_AND_FORTH = ("flip", "batch-end")


def with_poison(world: KafkaWorld, bootstrap: str, name: Name) -> str:
    """A topic of 200 records, of which number 12 cannot be processed."""
    topic = world.topic(name("orders"))
    producer = Producer({"bootstrap.servers": bootstrap})
    for offset in range(200):
        producer.produce(topic, POISON if offset == 12 else b"fine", partition=0)
    assert producer.flush(30) == 0
    return topic


def trying(bootstrap: str, group: str, topic: str, habit: str, tries: IO[bytes] | int) -> subprocess.Popen[bytes]:
    """An application that tries the record again and again, with one of HABITS; it writes each of its tries."""
    how, settings = HABITS[habit]
    given = json.dumps({"bootstrap.servers": bootstrap, "group.id": group} | settings)
    return subprocess.Popen([sys.executable, "-m", "tests.helpers.stuck_application", given, topic, how], stdout=tries)


@pytest.mark.soak
def test_the_command_that_skips_never_skips_a_good_record(
    kgroup: CommandLine,
    world: KafkaWorld,
    bootstrap: str,
    name: Name,
    bystander: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Applications that try record 12 again and again. Their commits differ, and one habit alone shows the record."""
    topic = with_poison(world, bootstrap, name)
    groups = {habit: name(habit) for habit in HABITS}
    with ExitStack() as stack:
        for habit, group in groups.items():
            # One after the other: the start of the next one would slow down the commits that are judged.
            tries = stack.enter_context((tmp_path / habit).open("wb"))
            process = stack.enter_context(trying(bootstrap, group, topic, habit, tries))
            stack.callback(process.kill)
            wait_for(lambda: (tmp_path / habit).read_bytes().count(b"again") > 3, f"{habit}: tries", 60)  # noqa: B023
            expected = {"each": 12, "batch": 0, "batch-end": 12}.get(habit, 13)
            # With automatic commits there is none before the first interval has ended.
            at_first = ((topic, 0), (expected, ""))
            wait_for(lambda: at_first in world.committed(group).items(), f"{habit} at {expected}")  # noqa: B023
        for habit in BACK_AND_FORTH:
            # No REWIND at any time, whose undo would skip the record.
            (lag,) = kgroup("lag", groups[habit], "-o", "json").data
            assert lag["lag_status"] in (None, "stall")
            assert not any("undo" in command for command in lag["verdict"]["commands"])
        # Later by more than max.poll.interval.ms, and the clock goes on: so does what is committed again and again.
        monkeypatch.setattr("kgroup.cluster.connection.utc_ms", lambda: round(time.time() * 1000) + 310_000)

        found = {}
        for habit, group in groups.items():
            (lag,) = kgroup("lag", group, "-o", "json").data
            commands = [*lag["verdict"]["commands"], *rules_of(kgroup, group)[group]["stalled-commits"]["commands"]]
            peeked = kgroup("peek", group, "-o", "table").stdout
            pages = [kgroup("describe", group).stdout, kgroup("lag", group).stdout, peeked, *commands]
            skips = set(re.findall(r"--to-offset \S+:0=(\d+)", "\n".join(pages)))
            texts = {line["word"]: line["text"] for line in lag["verdict"]["lines"]}
            if habit not in BACK_AND_FORTH:
                assert ("(the record: " in lag["verdict"]["next"]) == ("record" in texts)
            rows = [int(row.split()[0]) for row in peeked.splitlines() if re.match(r" +\d+  ", row)]
            assert not any("kgroup undo" in page for page in pages)
            found[habit] = (skips, texts.get("record", "").partition(": ")[2].partition(" (")[0], rows)
            assert ("not known" in peeked) == ("record" in texts)
            if habit == "each":
                assert f" are at {topic}:0 offset 12 too, or next to it" in lag["verdict"]["next"]

    # Where they stand at that moment changes.
    assert not any(found.pop(habit)[0] for habit in BACK_AND_FORTH)
    before = "or the one before if the client commits at delivery"
    assert found == {
        "auto-commit": (set(), f"offset 13 of {topic}:0 or a later one, {before}", [12, 13, 14, 15]),
        "auto-commit-848": (set(), f"offset 13 of {topic}:0 or a later one, {before}", [12, 13, 14, 15]),
        "each": ({"13"}, "", [12, 13, 14]),
        "batch": (set(), f"offset 0 of {topic}:0 or a later one", [0, 1, 2]),
    }


@pytest.mark.soak
def test_a_crash_loop_that_creeps(
    kgroup: CommandLine, world: KafkaWorld, bootstrap: str, name: Name, bystander: str
) -> None:
    """Each process commits a record and ends. Of a third group each record comes just before its process: a job."""
    loops = {"classic": name("loop"), "consumer": name("loop-848")}
    topic, fed, job = world.topic(name("orders")), world.topic(name("jobs")), name("job")
    world.produce(topic, 50)

    def live(group: str, topic: str, protocol: str) -> subprocess.Popen[bytes]:
        given = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol}
        classic = {"session.timeout.ms": 6_000} if protocol == "classic" else {}
        command = [sys.executable, "-m", "tests.helpers.stuck_application", json.dumps(given | classic), topic, "creep"]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL)

    for life in range(7):
        world.produce(fed, 1)
        lives = [live(group, topic, protocol) for protocol, group in loops.items()]
        for process in (*lives, live(job, fed, "classic")):
            assert process.wait(60) == 1, life
    world.produce(fed, 1)

    for group in loops.values():
        loop = rf"crash loop at {topic}:0 offset 7: \d members came and went in .*, and none committed more than one"
        wait_for(lambda: re.match(loop, kgroup("lag", group, "-o", "json").data[0]["verdict"]["next"] or ""), loop)  # noqa: B023
        (lag,) = kgroup("lag", group, "-o", "json").data
        assert not any(re.search("kgroup (undo|reset)", command) for command in lag["verdict"]["commands"])
        assert re.match(loop, rules_of(kgroup, group)[group]["rebalance-storm"]["evidence"])
        assert re.search(loop, kgroup("history", group).stdout)
        assert re.search(r"^ +7  ", kgroup("peek", group, "-o", "table").stdout, re.MULTILINE)
    assert "rebalance-storm" not in rules_of(kgroup, job)[job] or "crash loop" not in str(rules_of(kgroup, job))
    assert "crash loop" not in kgroup("describe", job).stdout + kgroup("history", job).stdout


@pytest.mark.soak  # half a minute of commits
def test_commits_back_and_forth_are_a_stall_at_the_lowest(
    kgroup: CommandLine, world: KafkaWorld, bootstrap: str, name: Name, bystander: str
) -> None:
    topic = with_poison(world, bootstrap, name)
    groups = {habit: name(habit) for habit in BACK_AND_FORTH}
    with ExitStack() as stack:
        for habit, group in groups.items():
            process = stack.enter_context(trying(bootstrap, group, topic, habit, subprocess.DEVNULL))
            stack.callback(process.kill)
        for habit, group in groups.items():
            wait_for(lambda: world.committed(group), f"{habit}: commits")  # noqa: B023
            wait_for(lambda: kgroup("lag", group, "-o", "json").data[0]["lag_status"] == "stall", habit, 90)  # noqa: B023

            (lag,) = kgroup("lag", group, "-o", "json").data
            (lowest, highest) = {"flip": (12, 13), "batch-end": (1, 12)}[habit]
            texts = {line["word"]: line["text"] for line in lag["verdict"]["lines"]}
            assert texts["stuck"].startswith(f"{topic}:0 at {lowest}: ")
            assert f"none past {highest}" in texts["stuck"]
            assert [command.split()[1] for command in lag["verdict"]["commands"]][:1] == ["peek"]
            # At that moment the doctor may have read one commit more, or less.
            found = wait_for(lambda: rules_of(kgroup, group)[group].get("stalled-commits"), "the rule", 30)  # noqa: B023
            assert "back and forth" in found["evidence"]

            def peeked() -> str | None:
                """From where the commits are at that moment, which may be too far below the record."""
                page = kgroup("peek", group, "-o", "table").stdout  # noqa: B023
                return page if re.search(r"^ +12  .*poison", page, re.MULTILINE) else None

            pages = [kgroup("describe", group).stdout, wait_for(peeked, "the record", 30)]
            pages += [*lag["verdict"]["commands"], *found["commands"]]
            assert not any(re.search("kgroup (undo|reset)", page) for page in pages)


@pytest.mark.soak
@pytest.mark.parametrize("protocol", ["classic", "consumer", "pattern"])
def test_a_topic_that_the_group_has_left(
    kgroup: CommandLine,
    world: KafkaWorld,
    members: Members,
    name: Name,
    bystander: str,
    protocol: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its offsets stay, and no member reads it: no record is to blame, and no verb has a command that skips one."""
    old, new, group = world.topic(name("old")), world.topic(name("new")), name("svc")
    start = members.classic if protocol == "classic" else members.consumer
    reads = f"^{new}$" if protocol == "pattern" else new
    world.produce(old, 5)
    world.produce(new, 5)
    member = start(group, old, new)
    members.stable(member, partitions=2)
    commit_to(world, member, 5)
    member.close()
    member = start(group, reads)
    members.stable(member, partitions=1)
    world.produce(old, 2000)
    later_ms = round(time.time() * 1000) + 3_700_000
    monkeypatch.setattr("kgroup.cluster.connection.utc_ms", lambda: later_ms)

    (lag,) = kgroup("lag", group, "-o", "json", "--fail-on", "stop").data

    assert (lag["lag"], lag["lag_status"], lag["verdict"]["stuck_partitions"]) == (2000, "unsubscribed", [])
    assert {p["topic"]: p["lag_status"] for p in lag["partitions"]} == {old: "unsubscribed", new: "ok"}
    assert lag["verdict"]["next"] == f"no member subscribes to {old}: delete the offsets if none should"
    (leave,) = lag["verdict"]["commands"]
    assert leave.startswith(f"kgroup delete-offsets {group} --topic {old}")
    kgroup("lag", group, "--fail-on", "warn", exit_code=8)
    for level in ("group", "topic", "partition"):
        kgroup("lag", group, "--by", level, "--max-lag", "100", "--max-lag-time", "1m")
    written = kgroup("lag", group, "-o", "prometheus").stdout
    assert re.findall(r"^kafka_consumergroup_group_(?:max|sum)_lag\{[^}]*\} (\d+)$", written, re.MULTILINE) == [
        "0",
        "0",
    ]
    found = rules_of(kgroup, group)[group]
    assert found["unsubscribed"]["severity"] == "warning"
    assert found["unsubscribed"]["commands"][-1] == leave
    assert not found.keys() & {"stalled-commits", "skewed-lag", "large-gap", "no-reader"}
    pages = [kgroup("describe", group).stdout, kgroup("peek", group, "-o", "table").stdout]
    assert not any(word in page for word in ("\nSTUCK", "stuck", "kgroup reset", "catchup") for page in pages)

    (_, *words) = shlex.split(leave)
    assert f"kgroup undo restores the offsets only once {group} is Empty." in kgroup(*words).stdout
    done = kgroup(*words, "--execute").stdout
    (undo,) = re.findall(rf"To undo it once {group} is Empty:\n  kgroup (undo \S+ --wait-empty --execute)", done)
    assert set(world.committed(group)) == {(new, 0)}
    assert kgroup("lag", group, "-o", "json").data[0]["lag_status"] == "ok"
    member.close()
    kgroup(*undo.split())
    assert set(world.committed(group)) == {(old, 0), (new, 0)}


def test_a_group_that_no_member_reads_is_no_cause(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lags for ever, whatever the topic's other groups do."""
    topic, group, other = world.topic(name("orders")), name("svc"), name("left")
    world.produce(topic, 20)
    world.commit(group, {(topic, 0): 10})
    world.commit(other, {(topic, 0): 0})
    later_ms = round(time.time() * 1000) + 60_000
    monkeypatch.setattr("kgroup.cluster.connection.utc_ms", lambda: later_ms)

    (lag,) = kgroup("lag", group, "-o", "json").data

    assert lag["verdict"]["other_groups"]["without_reader"] == [other]
    assert lag["verdict"]["other_groups"]["lagging"] == []
    assert "lag too" not in kgroup("lag", group).stdout
