"""What is wrong with answers about all groups, pure; and that the fleet is there, on a broker."""

from dataclasses import replace
from typing import Any

import pytest

from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.situations.conclude import Worth
from tests.situations.fleet import GROUPS, Pages, conclude_fleet, make_fleet
from tests.situations.row import Program, Row, Says

SICK = Row(id="sick", cause="", programs=(Program(commit="each"),))
WELL = replace(SICK, id="h-well", healthy=True, allowed=Says(rules="no-reader"))
ROWS = {"sick.g": SICK, "h-well.g": WELL}
IDLE = "\n".join(f"fleet.{n:03} Empty 400" for n in range(GROUPS))


def group(name: str, status: str, *, in_per_s: float = 1.0, stuck: bool = True) -> dict[str, Any]:
    partitions = [{"topic": "t", "partition": 0, "lag_status": "stop" if stuck else status}]
    return {"group": name, "lag": 120, "lag_status": status, "in_per_s": in_per_s, "partitions": partitions}


def finding(name: str, rule: str, severity: str) -> dict[str, Any]:
    return {"group": name, "findings": [{"rule": rule, "severity": severity}]}


RIGHT = Pages(
    lag=f"GROUP STATE LAG\nsick.g Stable 120\n{IDLE}\nh-well.g Stable 0\n",
    top="GROUP STATE LAG\nsick.g Stable 120\n",
    lag_json={"data": [group("sick.g", "stop"), group("h-well.g", "ok", stuck=False)]},
    metrics='kafka_consumergroup_group_max_lag{cluster_name="c",group="sick.g"} 120.0\n',
    doctor_json={
        "data": [finding("sick.g", "stalled-commits", "warning"), finding("h-well.g", "no-reader", "warning")]
    },
)
AFTER = f"{IDLE}\nsick.g Stable 120\n"
UNREAD = {"data": [group("sick.g", "no-reader", stuck=False)]}
ENDED = {"data": [group("sick.g", "no-reader", in_per_s=0, stuck=False)]}

WRONG = {
    "right": (RIGHT, {}),
    "one that stands": (
        replace(RIGHT, lag=AFTER),
        {"lag": "sick.g (stop, lag 120) comes after idle groups"},
    ),
    "one that is not read": (
        replace(RIGHT, lag=AFTER, lag_json=UNREAD),
        {"lag": "sick.g (no-reader, lag 120) comes after idle groups"},
    ),
    "nothing comes any more": (replace(RIGHT, lag=AFTER, lag_json=ENDED), {}),
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
    cells = conclude_fleet(pages, ROWS)
    assert {cell.verb: cell.why for cell in cells if cell.worth is Worth.WRONG} == wrong
    assert {cell.worth for cell in cells if cell.verb not in wrong} <= {Worth.RIGHT}


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
