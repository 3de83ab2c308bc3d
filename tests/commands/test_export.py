"""``kgroup export``: offsets out of the cluster, in forms that Kafka's own tool and kgroup read back."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kgroup.groups.offset_files import FileRow, parse_offsets
from kgroup.queries.offset_file import read_offsets
from kgroup.support.errors import UsageError
from tests.commands.test_describe_groups import ODD
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_tools import CONSUMER_GROUPS, KafkaTools
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Member, Members
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
Commits = dict[tuple[str | None, str, int], int | None]

pytestmark = pytest.mark.usefixtures("bystander")


def commits(rows: tuple[FileRow, ...]) -> Commits:
    return {row.key: row.offset for row in rows}


@pytest.fixture
def kcg(bootstrap: str, kafka_tool: KafkaTools) -> Callable[..., str]:
    """What kafka-consumer-groups.sh prints for a reset with these arguments."""

    def run(*arguments: str) -> str:
        connection = ("--bootstrap-server", bootstrap, "--timeout", "60000")
        done = kafka_tool(CONSUMER_GROUPS, *connection, "--reset-offsets", *arguments)
        assert done.returncode == 0, done.stderr
        assert "Error" not in done.stdout, done.stdout
        return done.stdout

    return run


def has_committed(world: KafkaWorld, group: str, member: Member) -> bool:
    """Whether this running member has committed both partitions; it does so again."""
    member.commit()
    return world.groups()[group][1] == "stable" and len(world.committed(group)) == 2


@pytest.fixture
def two(world: KafkaWorld, name: Name) -> tuple[list[str], str, str]:
    """Two groups without members, one of them with a comma, on two topics; the first has more to say."""
    orders, clicks = world.topic(name("orders"), partitions=2), world.topic(name("clicks"))
    for topic, partition in ((orders, 0), (orders, 1), (clicks, 0)):
        world.produce(topic, 9, partition)
    groups = [name("a, nightly"), name("b")]
    world.commit(groups[0], {(orders, 0): (3, 'by hand, "really"', 0), (orders, 1): 7, (clicks, 0): 5})
    world.commit(groups[1], {(orders, 0): 9})
    return groups, orders, clicks


@pytest.mark.parametrize("form", ["kcg", "csv", "json", "yaml"])
def test_every_form_is_read_back_whatever_the_groups_are_called(
    kgroup: CommandLine, world: KafkaWorld, name: Name, tmp_path: Path, form: str
) -> None:
    """What a form cannot carry is left out, and said: one such group must not cost the others their offsets."""
    topic, base = world.topic(name("orders"), partitions=2), name("g")
    world.produce(topic, 99)
    # U+FEFF is what some editors begin a file with; the empty id is one that Kafka takes, and keeps.
    groups = [base + odd for odd in ODD.values()] + ["", f"\ufeff{base}"]
    for number, group in enumerate(groups, 1):
        world.commit(group, {(topic, 0): number})
    world.commit(base, {(topic, 0): 50, (topic, 1): (0, "a\0b", None)})
    before = {group: world.exact(group) for group in (*groups, base)}
    chosen = ("--regex", f"(?s)(\ufeff?{re.escape(base)}.*)?")
    odd = [group for group in groups if "\0" in group]
    nul = odd if form in ("kcg", "csv") else []
    try:
        exported = kgroup("export", *chosen, "-o", form, exit_code=7 if nul else 0)
        file = tmp_path / "offsets"
        file.write_bytes(exported.stdout.encode())
        for group in before:
            world.commit(group, dict.fromkeys(before[group], 0))
        kgroup("reset", *chosen, "--from-file", str(file), "--execute")

        expected = dict(before)
        for group in nul:
            expected[group] = {(topic, 0): (0, "", None)}
            assert f"{topic}:0: left out: its group id has a NUL character" in exported.stderr
        if nul:  # 0 is what it was set to meanwhile: kcg has no metadata, csv leaves that commit out
            expected[base] = {(topic, 0): (50, "", None), (topic, 1): (0, "", None)}
        if form == "csv":
            assert f"{topic}:1: left out: its metadata has a NUL character" in exported.stderr
        assert {group: world.exact(group) for group in before} == expected
    finally:
        for group in ("", *odd):  # what other tests export
            world.delete_group(group)


def test_one_group_goes_to_kafkas_tool_and_back(
    kgroup: CommandLine,
    world: KafkaWorld,
    kcg: Callable[..., str],
    two: tuple[list[str], str, str],
    tmp_path: Path,
) -> None:
    (group, _), orders, clicks = two
    file, theirs = tmp_path / "ours.csv", tmp_path / "theirs.csv"
    exported = kgroup("export", group)
    file.write_text(exported.stdout)
    assert exported.stdout.splitlines() == [f"{clicks},0,5", f"{orders},0,3", f"{orders},1,7"], "no header, no group"
    before = world.committed(group)

    theirs.write_text(kcg("--group", group, "--all-topics", "--to-current", "--dry-run", "--export"))
    assert commits(read_offsets(str(theirs))) == commits(read_offsets(str(file)))

    world.commit(group, dict.fromkeys(before, 0))
    kcg("--group", group, "--from-file", str(file), "--execute")
    assert {place: found[0] for place, found in world.committed(group).items()} == {
        place: found[0] for place, found in before.items()
    }


def test_several_groups_go_to_kafkas_tool_and_back(
    kgroup: CommandLine,
    world: KafkaWorld,
    kcg: Callable[..., str],
    two: tuple[list[str], str, str],
    tmp_path: Path,
) -> None:
    groups, orders, _ = two
    both = [word for group in groups for word in ("--group", group)]
    file = tmp_path / "ours.csv"
    file.write_text(kgroup("export", *groups).stdout)
    assert f'"{groups[0]}",{orders},0,3' in file.read_text().splitlines()

    theirs = parse_offsets(kcg(*both, "--all-topics", "--to-current", "--dry-run", "--export"), "theirs")
    assert commits(theirs) == commits(read_offsets(str(file)))

    world.commit(groups[1], {(orders, 0): 1})
    again = parse_offsets(kcg(*both, "--from-file", str(file), "--execute", "--export"), "theirs")
    assert commits(again) == commits(theirs)
    assert world.committed(groups[1])[orders, 0][0] == 9


def test_the_group_stands_in_the_file_unless_just_one_is_named(
    kgroup: CommandLine, two: tuple[list[str], str, str]
) -> None:
    (group, other), orders, _ = two
    for chosen in ([other], ["--group", other], [other, "--topic", orders], [other, other]):
        assert kgroup("export", *chosen).stdout == f"{orders},0,9\n"
    for chosen in (["--regex", other], [other, "--regex", other], ["--regex", other, "--topic", orders]):
        assert kgroup("export", *chosen).stdout == f"{other},{orders},0,9\n"
    # Of the shared broker only the groups of this test: others may have names that no file can hold.
    ours = [
        [line for line in kgroup("export", *chosen).stdout.splitlines(keepends=True) if orders in line]
        for chosen in (["--all-groups"], [])
    ]
    assert ours[0] == ours[1]
    assert {(group, orders, 0), (other, orders, 0)} <= commits(parse_offsets("".join(ours[0]), "f")).keys()
    assert kgroup("export", group, "--expect", "2", exit_code=6).stdout == ""


def test_a_topic_narrows_groups_and_offsets(kgroup: CommandLine, two: tuple[list[str], str, str]) -> None:
    groups, orders, clicks = two
    assert kgroup("export", *groups, "--topic", clicks).stdout == f'"{groups[0]}",{clicks},0,5\n'
    assert kgroup("export", *groups, "--topic", f"{clicks}:0").stdout == f'"{groups[0]}",{clicks},0,5\n'
    assert kgroup("export", *groups, "--topic", f"{clicks}:1").stdout == ""
    document = kgroup("export", *groups, "--topic", orders, "-o", "json").data
    assert [[(o["topic"], o["partition"]) for o in g["offsets"]] for g in document] == [
        [(orders, 0), (orders, 1)],
        [(orders, 0)],
    ]


def test_metadata_and_epochs(kgroup: CommandLine, two: tuple[list[str], str, str], tmp_path: Path) -> None:
    (group, other), orders, clicks = two
    plain = kgroup("export", group)
    assert "1 commit has metadata" in plain.stderr
    assert "-o json" in plain.stderr
    assert kgroup("export", other).stderr == ""

    shown = kgroup("export", group, "-o", "json")
    assert shown.stderr == ""
    assert (shown.json["kind"], shown.json["executed"]) == ("kgroup.export/v1", False)
    (document,) = shown.data
    told = {"group": group, "type": "classic", "state": "Empty", "source": "coordinator", "offsets_at": None}
    assert document | {"offsets": []} == told | {"offsets": [], "hidden_commits": []}
    assert document["offsets"][1] == {
        "topic": orders,
        "partition": 0,
        "offset": 3,
        "leader_epoch": 0,
        "metadata": 'by hand, "really"',
    }
    assert document["offsets"][0]["leader_epoch"] is None

    rich = {
        (group, clicks, 0): (5, None, ""),
        (group, orders, 0): (3, 0, 'by hand, "really"'),
        (group, orders, 1): (7, None, ""),
    }
    for form in ("json", "yaml", "csv"):
        file = tmp_path / form
        file.write_text(kgroup("export", group, "-o", form).stdout)
        rows = read_offsets(str(file))
        assert {row.key: (row.offset, row.leader_epoch, row.metadata) for row in rows} == rich, form
    described = parse_offsets(kgroup("describe", group, "-o", "csv").stdout, "described")
    assert {row.key: (row.offset, row.leader_epoch, row.metadata) for row in described} == rich


def test_running_groups_of_both_protocols(kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name) -> None:
    topic, old, new = world.topic(name("orders"), partitions=2), name("old"), name("new")
    for partition in range(2):
        world.produce(topic, 4, partition)
    running = {old: members.classic(old, topic), new: members.consumer(new, topic)}
    for group, member in running.items():
        members.stable(member, partitions=2)
        wait_for(partial(has_committed, world, group, member), f"commits of {group}")

    found = kgroup("export", old, new, "-o", "json").data
    assert [(group["group"], group["type"], group["state"]) for group in found] == [
        (old, "classic", "Stable"),
        (new, "consumer", "Stable"),
    ]
    for group in (old, new):
        expected = {(topic, number): offset for (_, number), (offset, _) in world.committed(group).items()}
        rows = parse_offsets(kgroup("export", group).stdout, "f")
        assert {(row.topic, row.partition): row.offset for row in rows} == expected


def test_the_file_is_utf8_whatever_the_terminal_is(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, group = world.topic(name("orders")), name("заказы")
    world.commit(group, {(topic, 0): 2})
    process = kgroup.start("export", "--regex", group, env={"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"})
    assert process.communicate(timeout=30)[0] == f"{group},{topic},0,2\n"


def test_groups_without_commits_and_names_that_are_none(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, two: tuple[list[str], str, str]
) -> None:
    (_, other), orders, _ = two
    empty, missing = name("silent"), name("missing")
    members.stable(members.classic(empty, world.topic(name("quiet"))), partitions=1)
    nothing = kgroup("export", empty)
    assert nothing.stdout == ""
    assert f"no committed offsets: {empty}" in nothing.stderr
    with pytest.raises(UsageError, match="the file has no offsets"):
        parse_offsets(nothing.stdout, "f")
    assert kgroup("export", empty, "-o", "json").data[0]["offsets"] == []

    partly = kgroup("export", other, missing, exit_code=7)
    assert partly.stdout == f"{other},{orders},0,9\n"
    assert missing in partly.stderr
    typo = kgroup("export", other + "x", exit_code=5)
    assert (typo.stdout, other in typo.stderr) == ("", True)
    none = kgroup("export", other, "--in-state", "Stable")
    assert (none.stdout, "nothing to export" in none.stderr) == ("", True)
    kgroup("export", "--regex", "(", exit_code=2)


def test_kcg_is_the_form_of_export_alone(
    kgroup: CommandLine, two: tuple[list[str], str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (_, group), orders, _ = two
    for words in (["list"], ["describe", group], ["context", "list"]):
        refused = kgroup(*words, "-o", "kcg", exit_code=2)
        assert (refused.stdout, "-o kcg is a format of kgroup export only" in refused.stderr) == ("", True)
    monkeypatch.setenv("KGROUP_OUTPUT", "kcg")
    assert kgroup("export", group).stdout == f"{orders},0,9\n"
    assert "KGROUP_OUTPUT=kcg is a format of kgroup export only" in kgroup("list", exit_code=2).stderr
    assert kgroup("list", group, "-o", "csv").rows[0]["group"] == group
