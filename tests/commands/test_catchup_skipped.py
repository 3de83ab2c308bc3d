"""``kgroup catchup start --skipped-by``: the gap that a journaled reset left, replayed without moving the group."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.helpers.catchup.catchups import Crash, plan_id
from tests.helpers.command_line import CommandLine, Result
from tests.helpers.kafka_world import KafkaWorld

pytestmark = pytest.mark.usefixtures("ledger")

Name = Callable[[str], str]


def change_id(result: Result) -> str:
    (found,) = set(re.findall(r"\bch-[2-9a-z]{4}\b", result.stdout))
    return str(found)


def test_what_a_reset_skipped_is_the_gap(kgroup: CommandLine, world: KafkaWorld, crashed: Crash) -> None:
    change = change_id(kgroup("reset", crashed.group, "--topic", crashed.topic, "--to-latest", "--execute"))
    before = world.exact(crashed.group)

    shown = kgroup("catchup", "start", "--skipped-by", change, "-o", "json")
    one = kgroup(
        "catchup", "start", crashed.group, "--skipped-by", change, "--topic", f"{crashed.topic}:1", "-o", "json"
    )
    made = kgroup("catchup", "start", "--skipped-by", change, "--release-only", "--execute", "--reason", "INC-7")

    assert [(r["partition"], r["start"], r["end"]) for r in shown.data[0]["ranges"]] == [(0, 70, 120), (1, 20, 50)]
    assert [(r["partition"], r["start"], r["end"]) for r in one.data[0]["ranges"]] == [(1, 20, 50)]
    (plan,) = kgroup("catchup", "show", plan_id(made), "-o", "json").data
    assert (plan["group"], plan["totals"]["offset_count"]) == (None, 80)
    assert all(word in plan["comment"] for word in ("INC-7", change, crashed.group))
    assert world.exact(crashed.group) == before
    assert "[plan-overlaps]" in kgroup("catchup", "start", "--skipped-by", change, exit_code=6).stderr


def test_what_was_taken_back_skipped_nothing(kgroup: CommandLine, crashed: Crash) -> None:
    change = change_id(kgroup("reset", crashed.group, "--topic", crashed.topic, "--to-latest", "--execute"))
    kgroup("undo", change, "--execute")

    nothing = kgroup("catchup", "start", "--skipped-by", change, "--release-only", "--execute")

    assert "was undone" in nothing.stderr
    assert "nothing to do" in nothing.stderr
    assert kgroup("catchup", "list", "-o", "json").data == []


def test_an_undo_may_have_skipped_something_too(kgroup: CommandLine, crashed: Crash) -> None:
    change = change_id(kgroup("reset", crashed.group, "--topic", crashed.topic, "--to-earliest", "--execute"))
    done = kgroup("undo", change, "--execute").stdout
    (undo,) = set(re.findall(r"\bch-[2-9a-z]{4}\b", done)) - {change}

    (plan,) = kgroup("catchup", "start", "--skipped-by", undo, "-o", "json").data

    assert [(row["start"], row["end"]) for row in plan["ranges"]] == [(0, 70), (0, 20)]


def test_a_group_that_was_moved_back_by_hand_is_warned_of(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash
) -> None:
    change = change_id(kgroup("reset", crashed.group, "--topic", crashed.topic, "--to-latest", "--execute"))
    world.commit(crashed.group, {(crashed.topic, 0): 100})

    said = kgroup("catchup", "start", "--skipped-by", change).stderr

    assert f"the committed offset of {crashed.group} on {crashed.topic}:0 is 100, below 120" in said


def test_one_of_several_groups_is_named(kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name) -> None:
    other, third = name("other"), name("third")
    world.commit(other, {(crashed.topic, 0): 10})
    world.commit(third, {(crashed.topic, 0): 10})
    groups = (crashed.group, other)
    change = change_id(kgroup("reset", *groups, "--topic", crashed.topic, "--to-latest", "--execute"))

    refused = kgroup("catchup", "start", "--skipped-by", change, exit_code=2)
    named = kgroup("catchup", "start", other, "--skipped-by", change, "-o", "json")
    stranger = kgroup("catchup", "start", third, "--skipped-by", change, exit_code=5)

    assert other in refused.stderr
    assert [(row["start"], row["end"]) for row in named.data[0]["ranges"]] == [(10, 120)]
    assert f"did not change {third}" in stranger.stderr


def test_an_unknown_change_has_near_ids(kgroup: CommandLine, crashed: Crash) -> None:
    change = change_id(kgroup("reset", crashed.group, "--topic", crashed.topic, "--to-latest", "--execute"))
    typed = change[:-1] + ("2" if change[-1] != "2" else "3")

    assert change in kgroup("catchup", "start", "--skipped-by", typed, exit_code=5).stderr
