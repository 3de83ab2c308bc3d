"""What a plan of dead letters remembers of the plans before it."""

from __future__ import annotations

from msgspec.structs import replace

from kgroup.catchup.service.from_dead_letters import earlier_plans
from kgroup.groups.catchup.dead_letters import REDRIVE, EarlierPlan, Letters, Redrive
from kgroup.groups.catchup.model import Delivery, Order, PlanSnapshot, PlanState
from kgroup.model.records import OffsetRange
from tests.helpers.catchup.ledgers import new_plan, state
from tests.helpers.catchup.plans import made


def plan(start: int, end: int, letters: Letters | None = None, done: PlanState = PlanState.DONE) -> PlanSnapshot:
    options = {REDRIVE: Redrive("orders", letters or Letters()).encode()}
    delivery = Delivery("source", Order.PARTITION, (), options)
    return PlanSnapshot(new_plan(None, start=start, end=end), 0, state(done), None, delivery, {})


def test_plans_that_choose_the_same_are_one() -> None:
    some = Letters(keys=("k",))
    abandoned = replace(plan(30, 40, done=PlanState.CANCELLED), progress={0: made(0, 34, 4)})
    plans = (plan(0, 10), plan(10, 20), plan(25, 27, some), abandoned, plan(90, 99))

    found = tuple(earlier_plans(plans, [OffsetRange("orders", 0, 5, 80)]))

    assert found == (
        EarlierPlan(Letters(), True, ((0, 5, 20), (0, 30, 34))),
        EarlierPlan(some, True, ((0, 25, 27),)),
    )
