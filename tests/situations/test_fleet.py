"""What is wrong with answers about all groups, pure; and that the fleet is there, on a broker."""

from dataclasses import replace
from typing import Any

import pytest

from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.situations.conclude import Worth
from tests.situations.fleet import GROUPS, Pages, Stuck, conclude_fleet, make_fleet, stuck
from tests.situations.harm import Group, Log, State
from tests.situations.programs.logs import fold
from tests.situations.row import Program, Row, Says

SICK = Row(id="sick", cause="", programs=(Program(commit="each"),))
WELL = replace(SICK, id="h-well", healthy=True, allowed=Says(rules="no-reader"))
ROWS = {"sick.g": SICK, "h-well.g": WELL}
IDLE = "\n".join(f"fleet.{n:03} Empty 400" for n in range(GROUPS))


def finding(name: str, rule: str, severity: str) -> dict[str, Any]:
    return {"group": name, "findings": [{"rule": rule, "severity": severity}]}


RIGHT = Pages(
    lag=f"GROUP STATE LAG\nsick.g Stable 120\n{IDLE}\nh-well.g Stable 0\n",
    top="GROUP STATE LAG\nsick.g Stable 120\n",
    metrics='kafka_consumergroup_group_max_lag{cluster_name="c",group="sick.g"} 120.0\n',
    doctor_json={
        "data": [finding("sick.g", "stalled-commits", "warning"), finding("h-well.g", "no-reader", "warning")]
    },
)
AFTER = f"{IDLE}\nsick.g Stable 120\n"
STUCK = {"sick.g": Stuck(120)}

WRONG = {
    "right": (RIGHT, {}),
    "one that is stuck": (
        replace(RIGHT, lag=AFTER),
        {"lag": "sick.g (stuck, lag 120) comes after idle groups"},
    ),
    "some are not listed": (
        replace(RIGHT, lag=RIGHT.lag.replace("fleet.007", "other")),
        {"lag": f"lists {GROUPS - 1} of {GROUPS} idle groups"},
    ),
    "hidden": (
        replace(RIGHT, top="not-sick.g Stable 120"),
        {"lag --top": "hides sick.g, the largest that is stuck, with a lag of 120"},
    ),
    "no metric": (replace(RIGHT, metrics=""), {"lag -o prometheus": "max_lag of sick.g is None"}),
    "an alarm": (
        replace(RIGHT, doctor_json={"data": [finding("h-well.g", "never-read", "warning")]}),
        {"doctor": "h-well.g: never-read (warning)"},
    ),
}


@pytest.mark.parametrize(("pages", "wrong"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_about_all_groups(pages: Pages, wrong: dict[str, str]) -> None:
    cells = conclude_fleet(pages, ROWS, STUCK)
    assert {cell.verb: cell.why for cell in cells if cell.worth is Worth.WRONG} == wrong
    assert {cell.worth for cell in cells if cell.verb not in wrong} <= {Worth.RIGHT}


def test_one_that_is_not_stuck_may_come_anywhere() -> None:
    cells = conclude_fleet(replace(RIGHT, lag=AFTER, top="", metrics=""), ROWS, {})
    assert {cell.worth for cell in cells} == {Worth.RIGHT}


STOPS = replace(SICK, right=Says(lag="stop"))
TRUTHS = [
    pytest.param(STOPS, 100_000, True, {"sick.g": Stuck(8)}, id="none was processed for two minutes"),
    pytest.param(STOPS, 101_000, True, {}, id="one was processed since"),
    pytest.param(replace(SICK, allowed=Says(lag="no-reader")), 100_000, True, {"sick.g": Stuck(8)}, id="as is allowed"),
    pytest.param(replace(SICK, right=Says(lag="unsubscribed")), 100_000, True, {}, id="a topic that was left"),
    pytest.param(replace(STOPS, healthy=True), 100_000, True, {}, id="a healthy one"),
    pytest.param(STOPS, 100_000, False, {}, id="a job that has ended"),
]


@pytest.mark.parametrize(("row", "last_ms", "lives", "expected"), TRUTHS)
def test_who_is_stuck_is_known_by_members_and_offsets(
    row: Row, last_ms: int, lives: bool, expected: dict[str, Stuck]
) -> None:
    """Statuses of kgroup have no part in it."""
    did = fold({"app-0": [f"{last_ms} P t:0 11"]}, ["app-0"])
    state = State(220_500, {"sick.g": Group(did, {("t", 0): 12})}, {("t", 0): Log(0, 20)})
    assert stuck(row, state, fed=lives, run=lives) == expected


def test_the_fleet_is_of_ended_jobs_with_old_records(world: KafkaWorld, kgroup: CommandLine) -> None:
    make_fleet(world, groups=2)
    try:
        groups = kgroup("lag", "--regex", r"fleet\.\d+", "-o", "json").json["data"]
        assert [(each["group"], each["lag"]) for each in groups] == [("fleet.001", 400), ("fleet.000", 3)]
        assert all(each["state"] == "Empty" and each["time_lag_ms"] > 3_600_000 for each in groups)
    finally:
        world.delete_group("fleet.000")
        world.delete_group("fleet.001")
        world.delete_topic("fleet.t")
