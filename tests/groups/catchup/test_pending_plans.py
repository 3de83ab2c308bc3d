"""Which open plans are continued, in which order, and which are left to others."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.catchup.model import Delivery, Order, PlanState, RunnerEpoch, Task
from kgroup.groups.catchup.pending_plans import next_plan, pending_plans
from kgroup.groups.catchup.plan_state import VerifiedPlan
from kgroup.groups.catchup.takeover import SIGNED_OFF
from kgroup.groups.catchup.verification import verify
from kgroup.support.errors import Refused
from tests.helpers.catchup.plans import NOW_MS, gap_range, ledgered, make_plan

TO_TOPIC = Delivery("topic", Order.PARTITION, (Task(0, (0,)),), {"topic": "copy"})
IN_SESSION = replace(TO_TOPIC, sink="session")


def plan(
    plan_id: str = "cu-7f3a",
    state: PlanState = PlanState.RELEASED,
    delivery: Delivery | None = TO_TOPIC,
    *,
    deadline_ms: int | None = None,
    seen_ago: int | None = 60_000,
    made_ago: int = 3_600_000,
    damage: Refused | None = None,
) -> VerifiedPlan:
    """``seen_ago``: ms since the last heartbeat of its runner; 0: it has ended, None: there was none."""
    made = replace(make_plan(gap_range(deadline_ms=deadline_ms)), id=plan_id, created_ms=NOW_MS - made_ago)
    seen_ms = SIGNED_OFF if seen_ago == 0 else NOW_MS - (seen_ago or 0)
    epoch = None if seen_ago is None else RunnerEpoch(1, "me@here", 5, seen_ms)
    found = replace(ledgered(made, state, delivery=delivery), epoch=epoch, damage=damage)
    return VerifiedPlan(found, verify(found), NOW_MS)


@pytest.mark.parametrize(
    ("found", "has_destination", "why"),
    [
        (plan(), False, None),
        (plan(seen_ago=0), False, None),
        (plan(seen_ago=30_000), False, None),
        (plan(seen_ago=29_999), False, "another run works on it"),
        (plan(delivery=None), True, None),
        (plan(delivery=None), False, "it has no destination"),
        (plan(delivery=IN_SESSION), True, "a Spark session of its user's own delivers it"),
        (plan(damage=Refused("a record cannot be read")), True, "it is damaged"),
        # A start that was interrupted, and one that may still be under way.
        (plan(state=PlanState.RELEASING), False, None),
        (plan(state=PlanState.RELEASING, seen_ago=5_000), False, "another run works on it"),
        (plan(state=PlanState.PLANNED, seen_ago=None), False, None),
        (plan(state=PlanState.PLANNED, seen_ago=None, made_ago=29_999), False, "another run works on it"),
        (plan(state=PlanState.CANCELLING), False, "it is being cancelled"),
    ],
)
def test_what_is_continued(found: VerifiedPlan, has_destination: bool, why: str | None) -> None:
    pending = pending_plans([found], "session", has_destination=has_destination)

    assert [one.why for one in pending.left] == ([] if why is None else [why])
    assert [*pending.resumable] == ([found] if why is None else [])


@pytest.mark.parametrize("state", [PlanState.DONE, PlanState.CANCELLED])
def test_what_is_finished_is_not_named(state: PlanState) -> None:
    pending = pending_plans([plan(state=state)], "session", has_destination=True)
    assert (pending.resumable, pending.left) == ((), ())


def test_what_expires_first_comes_first() -> None:
    plans = [
        plan("cu-none"),
        plan("cu-soon", deadline_ms=NOW_MS + 1),
        plan("cu-2222", seen_ago=1_000, deadline_ms=NOW_MS),
        plan("cu-late", deadline_ms=NOW_MS + 2),
    ]

    pending = pending_plans(plans, "session", has_destination=False)

    assert [one.snapshot.plan.id for one in pending.resumable] == ["cu-soon", "cu-late", "cu-none"]
    assert next_plan(pending, {"cu-soon"}) == plans[3]
    assert next_plan(pending, {"cu-soon", "cu-late", "cu-none"}) is None
