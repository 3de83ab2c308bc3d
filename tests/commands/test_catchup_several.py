"""A group with several open plans, as ``kgroup.consumer`` leaves them: named by the group, and one row of the list."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.helpers.catchup.catchups import Crash, crash, offsets, released
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld

pytestmark = pytest.mark.usefixtures("ledger", "importable")

Name = Callable[[str], str]


@pytest.fixture
def crashed(world: KafkaWorld, name: Name) -> Crash:
    return crash(world, name("orders"), name("svc"))


def released_often(kgroup: CommandLine, world: KafkaWorld, crashed: Crash, times: int) -> list[str]:
    """Plans of the group, one after the other: the first has its gap, and the others 10 records each."""
    plans = [released(kgroup, crashed)]
    while len(plans) < times:
        world.produce(crashed.topic, 10, 0)
        plans.append(released(kgroup, crashed))
    return plans


@pytest.mark.soak
def test_five_plans_are_one_row(kgroup: CommandLine, world: KafkaWorld, crashed: Crash) -> None:
    plans = released_often(kgroup, world, crashed, 5)

    page = kgroup("catchup", "list", crashed.group).stdout.splitlines()
    verbose = kgroup("catchup", "list", crashed.group, "--verbose").stdout

    assert page[1].split()[:6] == ["5", "plans", crashed.group, "pending", "120", "120"]
    assert (len(page), page[-1]) == (3, "each plan: --verbose")
    assert all(plan in verbose for plan in plans)
    assert len(kgroup("catchup", "list", crashed.group, "-o", "json").data) == 5
    assert [row["plan_id"] for row in kgroup("catchup", "list", plans[1], "-o", "json").data] == [plans[1]]


@pytest.mark.soak
def test_cancelled_by_the_group_the_newest_first(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, bystander: str
) -> None:
    others, plans = world.exact(bystander), released_often(kgroup, world, crashed, 3)

    planned = kgroup("catchup", "cancel", crashed.group)
    unchanged = offsets(world, crashed.group)
    done = kgroup("catchup", "cancel", crashed.group, "--execute")

    assert f"note: after it, of {crashed.group}: {plans[1]}, {plans[0]}" in planned.stderr
    assert unchanged[crashed.topic, 0] == 140
    assert re.findall(r"CANCELLED +(cu-\w{4});", done.stderr) == plans[::-1]
    assert offsets(world, crashed.group) == {(crashed.topic, 0): 70, (crashed.topic, 1): 20}
    assert world.exact(bystander) == others


def test_resumed_by_the_group(kgroup: CommandLine, world: KafkaWorld, crashed: Crash) -> None:
    plans = released_often(kgroup, world, crashed, 2)

    planned = kgroup("catchup", "resume", crashed.group, "--to-topic", "copy", "-o", "json")
    refused = kgroup("catchup", "resume", crashed.group, "--release-only", exit_code=2)

    assert sorted(row["plan_id"] for row in planned.data) == sorted(plans)
    assert f"{crashed.group} has 2 plans: {plans[1]}, {plans[0]}" in refused.stderr
