"""The pages of one plan: what they advise while it is replayed, and what they show at its end."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.catchup.documents import catchup_plan
from kgroup.groups.catchup.model import Delivery, Order, PlanState, RunnerEpoch, Task
from kgroup.groups.catchup.plan_state import PlanCommands, VerifiedPlan
from kgroup.groups.catchup.results import PlanStatus, ReplayedPlan
from kgroup.groups.catchup.verification import verify
from kgroup.output.pages.catchup import outcome
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.command_line import CommandLine
from kgroup.support.errors import Refused
from tests.helpers import pages
from tests.helpers.catchup.plans import NOW_MS, gap_range, ledgered, made, make_plan

PLAN = make_plan(gap_range(), gap_range(1))
DELIVERY = Delivery("topic", Order.PARTITION, (Task(0, (0,)), Task(1, (1,))), {"topic": "copy"})
COMMAND = CommandLine(("kgroup", "catchup", "show"), ("cu-7f3a",))
TYPED = PlanCommands("resume", "cancel", "abandon", "stop", "show", "done")


def drawn(result: PlanStatus | ReplayedPlan) -> list[str]:
    return pages.drawn(outcome(result, ClusterRef("id", "b1:9092"), COMMAND))


@pytest.mark.parametrize(
    ("silent_ms", "word", "overdue", "commands"),
    [
        (5_000, "replaying", False, ["stop"]),
        (8_000, "replaying", True, ["resume", "stop"]),
        (31_000, "stopped", True, ["resume"]),
    ],
)
def test_the_next_command_after_a_kill(silent_ms: int, word: str, overdue: bool, commands: list[str]) -> None:
    epoch = RunnerEpoch(2, "me@here", 5, NOW_MS - silent_ms)
    found = replace(ledgered(PLAN, PlanState.RELEASED, delivery=DELIVERY), epoch=epoch)
    state = VerifiedPlan(found, verify(found), NOW_MS)

    shown = drawn(PlanStatus(state, TYPED, None))

    assert (state.phase, state.is_overdue) == (word, overdue)
    assert [line.split()[1] for line in shown if line.startswith("-> ")] == commands


def test_a_plan_that_is_never_verified_does_not_promise_that_nothing_is_lost() -> None:
    found = ledgered(PLAN, PlanState.RELEASED, [made(0, 120, 50)], delivery=DELIVERY)
    found = replace(found, state=replace(found.state, note="not verified: copy has lost orders:0 [70, 90)"))

    shown = drawn(PlanStatus(VerifiedPlan(found, verify(found), NOW_MS), TYPED, None))

    assert [line for line in shown if line.startswith("-> ")] == [
        "-> resume   shows why the plan is NOT VERIFIED, and which commands help"
    ]


def test_what_a_finished_plan_delivered_is_unknown_if_its_totals_are_damaged() -> None:
    """Its chunks are deleted from the ledger: nothing says that they were not delivered."""
    found = replace(
        ledgered(PLAN, PlanState.DONE, delivery=DELIVERY),
        damage=Refused("totals cannot be read", code="ledger-damaged"),
    )
    status = PlanStatus(VerifiedPlan(found, verify(found), NOW_MS), TYPED, None)
    document = catchup_plan(status.state)

    assert [line for line in drawn(status) if "DELIVERED" in line or "VERIFIED" in line] == [
        "DELIVERED  unknown: totals cannot be read"
    ]
    assert (document.totals.verified, document.totals.undelivered_offset_count) == (None, None)
    assert [row.verified for row in document.ranges] == [None, None]


def test_what_is_delivered_and_may_be_delivered_twice() -> None:
    delivered = (made(0, 120, 50), replace(made(1, 120, 50), may_repeat=7))
    handled = replace(DELIVERY, sink="python", options={"function": "app:handle"})
    states = [
        VerifiedPlan(found, verify(found), NOW_MS)
        for found in (
            ledgered(PLAN, PlanState.RELEASED, delivered[:1], delivery=handled),
            ledgered(PLAN, PlanState.DONE, delivered, delivery=handled),
            ledgered(PLAN, PlanState.DONE, (made(0, 120, 50), made(1, 120, 50)), delivery=DELIVERY),
        )
    ]

    assert [state.progress_text for state in states] == ["50 of 100 offsets", "all 100 offsets", "all 100 offsets"]
    pages = [drawn(ReplayedPlan(state, 1.0, True, ())) for state in states]
    found = [[line for line in page if line.startswith("POSSIBLE DUPLICATES")] for page in pages]
    assert found == [
        ["POSSIBLE DUPLICATES  at most 0 records"],
        ["POSSIBLE DUPLICATES  at most 7 records"],
        [],
    ]


def test_an_open_plan_has_bars() -> None:
    found = ledgered(PLAN, PlanState.RELEASED, [made(0, 120, 50)], delivery=DELIVERY)
    page = drawn(PlanStatus(VerifiedPlan(found, verify(found), NOW_MS), TYPED, None))

    assert "DELIVERED  [##########----------]  50 of 100 offsets" in page
    assert [line.split()[5] for line in page if line.startswith("orders:")] == ["[----------]", "-"]
    done = ledgered(PLAN, PlanState.DONE, [made(0, 120, 50), made(1, 120, 50)], delivery=DELIVERY)
    assert not any("[#" in line for line in drawn(PlanStatus(VerifiedPlan(done, verify(done), NOW_MS), TYPED, None)))
