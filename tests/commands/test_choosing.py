"""Which groups ``list`` and ``describe`` take: by topic in every view, and counted before anything is shown."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kgroup.cluster.coordinator.groups import row_of_each_group
from tests.helpers.command_line import CommandLine
from tests.helpers.conversion import to_consumer
from tests.helpers.kafka_world import KafkaWorld

Name = Callable[[str], str]
VIEWS: tuple[list[str], ...] = ([], ["--offsets"], ["--members"], ["--state"])


@pytest.fixture
def two(world: KafkaWorld, name: Name) -> tuple[str, list[str]]:
    """A topic, and two groups without members that commit to it; a third one commits elsewhere."""
    topic, other, stem = world.topic(name("orders")), world.topic(name("clicks")), name("svc")
    groups = [f"{stem}-{number}" for number in range(2)]
    for group in groups:
        world.commit(group, {(topic, 0): 0})
    world.commit(f"{stem}-else", {(other, 0): 0})
    return topic, groups


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_a_topic_chooses_the_same_groups_in_every_view(
    kgroup: CommandLine, two: tuple[str, list[str]], view: list[str]
) -> None:
    topic, groups = two
    for chosen in (["--all-groups"], [*groups, groups[0][:-1] + "else"]):
        found = kgroup("describe", *chosen, "--topic", topic, *view, "-o", "json").data
        assert [document["group"] for document in found] == groups


@pytest.mark.programs("bash", "head")
def test_a_reader_that_stops_early_does_not_hide_a_failure(
    kgroup: CommandLine, bootstrap: str, two: tuple[str, list[str]]
) -> None:
    command = f"{sys.executable} -m kgroup describe {two[1][0]} no-such-group -b {bootstrap}"
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1; echo ${{PIPESTATUS[0]}}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "7"
    assert "no-such-group" in done.stderr


def test_a_group_that_is_called_like_an_option(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    """The printed command means the group."""
    topic, group = world.topic(name("orders")), name("--help")
    world.produce(topic, 5)
    world.commit(group, {(topic, 0): 3})
    world.commit(name("other"), {(topic, 0): 5})
    (line,) = (line for line in kgroup("lag", "--topic", topic).stdout.splitlines() if line.startswith("-> kgroup"))
    command = shlex.split(line.removeprefix("-> kgroup"))
    assert command[-2:] == ["--", group]
    assert group in kgroup(*command).stdout


@pytest.mark.soak
def test_an_unknown_topic(kgroup: CommandLine, world: KafkaWorld, two: tuple[str, list[str]], name: Name) -> None:
    """It may be a typing error, so that an empty table would be a false answer."""
    missing = name("nope")
    for verb in ("list", "lag", "describe", "doctor"):
        for topic in (missing, f"{missing}:7"):
            result = kgroup(verb, "--topic", topic, "-o", "json", exit_code=5)
            (error,) = result.json["errors"]
            assert (error["code"], error["message"]) == ("not-found", f"there is no topic {missing}")
    read_by_none = world.topic(name("unread"))
    for check in (("lag", "--max-lag", "5"), ("doctor", "--fail-on", "info")):
        assert "nothing was checked" in kgroup(*check, "--topic", read_by_none, exit_code=5).stderr
    result = kgroup("list", "--topic", missing, "--topic", two[0], "-o", "json")
    assert [row["group"] for row in result.data] == two[1]
    assert f'no topic "{missing}"' in result.stderr


def test_a_group_that_its_coordinator_denies_is_no_deleted_one(
    kgroup: CommandLine, world: KafkaWorld, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listed, not found, and listed still: an error where the conclusion is drawn, not a group less."""
    topic, stem = world.topic(name("orders")), name("svc")
    groups = [f"{stem}-{number}" for number in range(2)]
    for group in groups:
        world.commit(group, {(topic, 0): 0})
        to_consumer(world, group)
    believed = row_of_each_group

    def denying(rows: Any) -> dict[str, tuple[int, Any]]:
        return {group: (69, None) if group == groups[0] else told for group, told in believed(rows).items()}

    monkeypatch.setattr("kgroup.cluster.coordinator.groups.row_of_each_group", denying)
    chosen = ("--regex", f"{stem}-.*", "-o", "json")
    for verb in (("list",), ("describe",), ("lag",), ("export",), ("reset", "--to-latest", "--all-topics")):
        document = kgroup(*verb, *chosen, exit_code=3 if verb[0] == "reset" else 7).json
        assert [(error["group"], error["code"]) for error in document["errors"]] == [(groups[0], "no-coordinator")]
        assert groups[1] in {row["group"] for row in document["data"]}
