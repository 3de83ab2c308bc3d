"""``kgroup list``: every group as what it is, and output that shell loops can use."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.support.command_line import CommandLine
from tests.support.kafka_world import KafkaWorld
from tests.support.members import Members
from tests.support.waiting import wait_for

Name = Callable[[str], str]

pytestmark = pytest.mark.usefixtures("bystander")

KGROUP = f"{shlex.quote(sys.executable)} -m kgroup"


def names(kgroup: CommandLine, *flags: str, exit_code: int = 0) -> list[str]:
    return [group["group"] for group in kgroup("list", *flags, "-o", "json", exit_code=exit_code).data]


def shell(script: str) -> subprocess.CompletedProcess[str]:
    """A script as a person would type it, with ``kgroup`` on the path."""
    return subprocess.run(
        ["sh", "-c", f'kgroup() {{ {KGROUP} "$@"; }}\n{script}'],
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
    assert [group["members"] for group in listed][:3] == [2, 3, 0]
    assert listed[4]["members"] == 1
    assert all(group["coordinator"]["port"] for group in listed)
    screen = kgroup("list", "--regex", f"{stem}.*").stdout
    headings = next(line for line in screen.splitlines() if "GROUP" in line).split()
    assert headings == ["GROUP", "TYPE", "STATE", "PROTOCOL", "COORDINATOR", "MEMBERS"]
    assert all(group["group"] in screen for group in listed)


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
    assert names(kgroup, *mine, "--topic", name("never")) == []
    assert names(kgroup, live, simple) == [live, simple]
    assert names(kgroup, "--group", live) == [live]
    assert {live, new, simple, elsewhere} <= set(names(kgroup))
    assert {live, new, simple, elsewhere} <= set(names(kgroup, "--all-groups"))


def test_filters_refuse_what_does_not_exist(kgroup: CommandLine) -> None:
    for flags in (("--type", "clasic"), ("--in-state", "Stabel"), ("--regex", "(")):
        result = kgroup("list", *flags, exit_code=2)
        assert result.stdout == ""
        assert flags[1] in result.stderr


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


def test_sorted_by_name(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, stem = world.topic(name("orders")), name("g")
    for ending in ("b", "a", "10", "2", "é", "B"):
        world.commit(f"{stem}-{ending}", {(topic, 0): 0})
    found = names(kgroup, "--regex", f"{stem}.*")
    assert found == sorted(found)
    csv = [row["group"] for row in kgroup("list", "--regex", f"{stem}.*", "-o", "csv").rows]
    assert csv == found


def test_csv_has_a_header_and_plain_values(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.commit(group, {(topic, 0): 0})
    result = kgroup("list", group, "-o", "csv")
    header, line = result.stdout.splitlines()
    assert header.split(",")[:4] == ["group", "type", "state", "protocol_type"]
    assert line.split(",")[:4] == [group, "classic", "Empty", ""]
    assert line.endswith(",0")
    assert result.stderr == ""


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


def test_plain_output_in_a_shell_loop(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    """The table too, with awk, without width limits or colours."""
    topic, group = world.topic(name("orders")), name("svc") + "-" + "x" * 150
    world.commit(group, {(topic, 0): 0})
    done = shell(f"kgroup list --topic {topic} | awk '$2 == \"classic\" {{print $1}}'")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [group]


def test_closed_pipe(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    """``| head -1`` ends kgroup silently, however much it still had to say."""
    topic, stem = world.topic(name("orders")), name("g") + "x" * 200
    for number in range(60):
        world.commit(f"{stem}-{number}", {(topic, 0): 0})
    for output in ("table", "csv", "json", "yaml"):
        done = shell(f"kgroup list -o {output} | head -1")
        assert (done.returncode, done.stderr) == (0, ""), output
        assert len(done.stdout.splitlines()) == 1


def test_closed_pipe_that_nobody_reads(kgroup: CommandLine) -> None:
    process = kgroup.start("list")
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(30) == 0
    process.stderr.close()


def test_all_formats(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.commit(group, {(topic, 0): 0})
    for output in ("table", "wide", "json", "yaml", "csv", "markdown"):
        result = kgroup("list", group, "-o", output)
        assert group in result.stdout
        assert result.stderr == ""
    fields = kgroup("list", group, "-o", "json").data[0].keys()
    assert list(fields) == ["group", "type", "state", "protocol_type", "coordinator", "members", "source", "as_of"]


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
    assert (found["state"], found["members"]) == ("PreparingRebalance", 2)
    slow.go()
