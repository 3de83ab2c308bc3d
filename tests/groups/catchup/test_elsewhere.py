"""The gap as a batch job of Spark takes it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.catchup.elsewhere import spark_options
from kgroup.groups.catchup.model import PlanSnapshot, PlanState
from kgroup.support.errors import Refused
from tests.helpers.catchup.plans import gap_range, ledgered, made, make_plan

PLAN = make_plan()


@pytest.mark.parametrize(
    ("snapshot", "options"),
    [
        (
            ledgered(PLAN),
            {
                "assign": '{"orders":[0]}',
                "startingOffsets": '{"orders":{"0":70}}',
                "endingOffsets": '{"orders":{"0":120}}',
            },
        ),
        (
            ledgered(make_plan(gap_range(2), gap_range(10, 0, 5), gap_range(topic="refunds"))),
            {
                "assign": '{"orders":[2,10],"refunds":[0]}',
                "startingOffsets": '{"orders":{"2":70,"10":0},"refunds":{"0":70}}',
                "endingOffsets": '{"orders":{"2":120,"10":5},"refunds":{"0":120}}',
            },
        ),
        (ledgered(make_plan(gap_range(0, 0, 5), gap_range(0, 7, 9))), {}),
        (ledgered(make_plan(gap_range(0, 5, 5))), {}),
        (ledgered(PLAN, PlanState.RELEASING), {}),
        (ledgered(PLAN, PlanState.CANCELLED), {}),
        (ledgered(PLAN, progress=[made(0, 80)]), {}),
        (replace(ledgered(PLAN), damage=Refused("a record cannot be read")), {}),
    ],
)
def test_what_spark_is_given(snapshot: PlanSnapshot, options: dict[str, str]) -> None:
    assert spark_options(snapshot) == options
