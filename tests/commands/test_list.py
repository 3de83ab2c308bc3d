"""``kgroup list``: every group as what it is, and output that shell loops can use."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]

pytestmark = pytest.mark.usefixtures("bystander")

KGROUP = f"{shlex.quote(sys.executable)} -m kgroup"


def names(kgroup: CommandLine, *flags: str, exit_code: int = 0) -> list[str]:
    return [group["group"] for group in kgroup("list", *flags, "-o", "json", exit_code=exit_code).data]


def shell(script: str) -> subprocess.CompletedProcess[str]:
    """A script as a person would type it, with ``kgroup`` on the path."""
    return subprocess.run(
        ["/bin/sh", "-c", f'kgroup() {{ {KGROUP} "$@"; }}\n{script}'],
        capture_output=True,
        text=True,
        env=dict(os.environ),
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_every_type_and_state(kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name) -> None:
    topic, stem = world.topic(name("orders"), partitions=2), name("g")
    classic, consumer, simple, share, connect = (f"{stem}-{i}-{kind}" for i, kind in enumerate(
        ("classic", "consumer", "simple", "share", "connect")))  # fmt: skip
    old = [members.classic(classic, topic) for _ in range(2)]
    new = [members.consumer(consumer, topic) for _ in range(3)]
    members.stable(*old, partitions=2)
    members.stable(*new, partitions=2)
    world.commit(simple, {(topic, 0): 0})
    world.share_group(share, topic)
    world.join_as(connect, "connect")
    wait_for(
        lambda: world.groups()[classic] == ("classic", "stable") and world.groups()[consumer] == ("consumer", "stable"),
        "both stable",
    )

    result = kgroup("list", "--regex", f"{stem}.*", "-o", "json")

    assert result.json["kind"] == "kgroup.list/v1"
    listed = result.data
    assert [group["group"] for group in listed] == [classic, consumer, simple, share, connect]
    assert [group["type"] for group in listed] == ["classic", "consumer", "classic", "share", "classic"]
    assert [group["protocol_type"] for group in listed][:3] == ["consumer", "consumer", ""]
    assert listed[4]["protocol_type"] == "connect"
    assert [group["state"] for group in listed][:3] == ["Stable", "Stable", "Empty"]
    assert [group["member_count"] for group in listed][:3] == [2, 3, 0]
    assert listed[4]["member_count"] == 1
    assert all(group["coordinator"]["port"] for group in listed)
    screen = kgroup("list", "--regex", f"{stem}.*").stdout
    headings = next(line for line in screen.splitlines() if "GROUP" in line).split()
    assert headings == ["GROUP", "TYPE", "STATE", "PROTOCOL-TYPE", "COORDINATOR", "MEMBERS", "IDLE"]
    assert all(group["group"] in screen for group in listed)


@pytest.mark.soak
def test_filters(kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name) -> None:
    topic, other, stem = world.topic(name("orders")), world.topic(name("other")), name("g")
    live, new, simple, elsewhere = (f"{stem}-{kind}" for kind in ("a-live", "b-new", "c-simple", "d-elsewhere"))
    old = members.classic(live, topic)
    members.stable(old, partitions=1)
    members.stable(members.consumer(new, topic), partitions=1)
    world.commit(simple, {(topic, 0): 0})
    world.commit(elsewhere, {(other, 0): 0})
    wait_for(lambda: world.groups()[new] == ("consumer", "stable"), "stable")
    mine = ("--regex", f"{stem}.*")

    assert names(kgroup, *mine) == [live, new, simple, elsewhere]
    assert names(kgroup, *mine, "--type", "consumer") == [new]
    assert names(kgroup, *mine, "--type", "classic") == [live, simple, elsewhere]
    assert names(kgroup, *mine, "--type", "share") == []
    assert names(kgroup, *mine, "--in-state", "Stable") == [live, new]
    assert names(kgroup, *mine, "--in-state", "stable") == [live, new], "states in any case, as KCG takes them"
    assert names(kgroup, *mine, "--in-state", "Stable,Empty") == [live, new, simple, elsewhere]
    assert names(kgroup, *mine, "--in-state", "Stable", "--in-state", "Empty") == [live, new, simple, elsewhere]
    assert names(kgroup, *mine, "--in-state", "Empty", "--type", "classic") == [simple, elsewhere]
    assert names(kgroup, *mine, "--topic", topic) == [live, new, simple], "assigned or committed"
    assert names(kgroup, *mine, "--topic", other) == [elsewhere]
    assert kgroup("list", *mine, "--topic", topic, "-o", "name").stdout.splitlines() == [live, new, simple]
    assert kgroup("describe", *mine, "-o", "name").stdout.splitlines() == [live, new, simple, elsewhere]
    assert set(kgroup("doctor", *mine, "-o", "name").stdout.split()) <= {live, new, simple, elsewhere}
    headed, bare = (kgroup("list", *mine, *flag).stdout.splitlines() for flag in ((), ("--no-headers",)))
    assert [line.split()[0] for line in headed] == ["GROUP", live, new, simple, elsewhere]
    assert [line.split()[0] for line in bare] == [live, new, simple, elsewhere]
    assert simple in names(kgroup, *mine, "-t", f"{topic}:0,1")
    assert names(kgroup, *mine, "-t", f"{topic}:999") == []
    kgroup("list", *mine, "--topic", name("never"), exit_code=5)
    assert names(kgroup, live, simple) == [live, simple]
    assert names(kgroup, "--group", live) == [live]
    assert {live, new, simple, elsewhere} <= set(names(kgroup))
    assert {live, new, simple, elsewhere} <= set(names(kgroup, "--all-groups"))


def test_protocol_is_shown_where_it_is_not_the_consumers(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name
) -> None:
    """TYPE shows who speaks which group protocol; "consumer" next to it would be read as the new one."""
    topic, stem = world.topic(name("orders")), name("g")
    members.stable(members.classic(f"{stem}-live", topic), partitions=1)
    world.commit(f"{stem}-simple", {(topic, 0): 0})
    world.join_as(f"{stem}-connect", "connect")

    def rows(*flags: str) -> list[list[str]]:
        return [line.split() for line in kgroup("list", *flags).stdout.splitlines()]

    assert "PROTOCOL-TYPE" not in rows(f"{stem}-live", f"{stem}-simple")[0]
    headings, connect, live, simple = rows("--regex", f"{stem}.*")
    protocol = headings.index("PROTOCOL-TYPE")
    assert [row[protocol] for row in (connect, live, simple)] == ["connect", "-", "-"]


@pytest.mark.soak
def test_how_long_groups_are_idle(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, stem = world.topic(name("orders")), name("g")
    old, new, mine = f"{stem}-old", f"{stem}-new", ("--regex", f"{stem}.*")
    before_ms = time.time() * 1000
    world.commit(old, {(topic, 0): 0})
    wait_for(lambda: names(kgroup, *mine, "--idle-for", "2s") == [old], "it is idle")
    between = datetime.now(UTC)
    world.commit(new, {(topic, 0): 0})

    first, second = (
        datetime.fromisoformat(group["last_activity_at"]) for group in kgroup("list", *mine, "-o", "json").data
    )
    assert second < between < first, "new comes before old"
    assert before_ms - 1000 < second.timestamp() * 1000
    idle = {line.split()[0]: line.split()[-1] for line in kgroup("list", *mine).stdout.splitlines()}
    assert re.fullmatch(r"\d+s", idle[old])
    assert idle["GROUP"] == "IDLE"
    assert names(kgroup, *mine, "--idle-for", "8d") == []
    assert names(kgroup, *mine, "--idle-for", "2s")[-1:] == [old]
    wait_for(lambda: names(kgroup, *mine, "--idle-for", "2s") == [new, old], "both are idle")
    world.commit(old, {(topic, 0): 1})
    assert names(kgroup, *mine, "--idle-for", "2s") == [new]
    world.commit(old, {(topic, 0): 2})
    kgroup("list", *mine, "--idle-for", "2s", "--expect", "2", exit_code=6)
    assert "--idle-for" in kgroup("list", "--idle-for", "soon", exit_code=2).stderr
    assert "--idle-for" in kgroup("list", "--idle-for", "8d", "--from-log", exit_code=2).stderr


def test_names_and_patterns_that_match_nothing(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.commit(group, {(topic, 0): 0})
    before = world.groups()

    typo = kgroup("list", group + "x", exit_code=5)
    assert typo.stdout == ""
    assert f'"{group}x"' in typo.stderr
    assert group + " " in typo.stderr.replace('"', " ").replace(",", " ").split("\n", 1)[1], "a near miss"
    assert "[not-found]" in typo.stderr
    kgroup("list", "--regex", name("nothing"), exit_code=5)
    partly = kgroup("list", group, name("missing"), "-o", "json", exit_code=7)
    assert [found["group"] for found in partly.data] == [group]
    assert [error["code"] for error in partly.json["errors"]] == ["not-found"]
    assert set(world.groups()) <= set(before)


@pytest.mark.programs("cut", "tail")
def test_csv_in_a_shell_loop(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    """As ``kgroup list --help`` has it."""
    topic = world.topic(name("orders"))
    groups = sorted(name("svc") for _ in range(3))
    for group in groups:
        world.commit(group, {(topic, 0): 0})
    done = shell(
        f"for g in $(kgroup list --topic {topic} -o csv | tail -n +2 | cut -d, -f1); do\n"
        '  kgroup describe "$g" --no-generation -o csv | tail -n +2 | cut -d, -f1-3\n'
        "done"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"{group},{topic},0" for group in groups]


@pytest.mark.programs("awk")
def test_plain_output_in_a_shell_loop(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    """The table too, with awk, without width limits or colours."""
    topic, group = world.topic(name("orders")), name("svc") + "-" + "x" * 150
    world.commit(group, {(topic, 0): 0})
    done = shell(f"kgroup list --topic {topic} | awk '$2 == \"classic\" {{print $1}}'")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [group]


def test_member_counts_of_a_rebalancing_group(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name
) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    slow = members.classic(group, topic)
    members.stable(slow, partitions=2)
    slow.hold()
    members.classic(group, topic)
    wait_for(lambda: world.groups()[group][1] == "preparingrebalance", "a rebalance")
    (found,) = kgroup("list", group, "-o", "json").data
    assert (found["state"], found["member_count"]) == ("PreparingRebalance", 2)
    slow.go()
