"""What is said of the runner of a plan: it works, it is silent, it has ended, there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgroup.groups.catchup.model import PlanState, RunnerEpoch
from kgroup.groups.catchup.plan_state import VerifiedPlan
from kgroup.groups.catchup.verification import verify
from tests.support.catchup.plans import NOW_MS, ledgered, make_plan


@pytest.mark.parametrize(
    ("who", "silent_ms", "state", "text"),
    [
        ("me@here", 2_000, PlanState.RELEASED, "epoch 2, last heartbeat 2s ago"),
        ("you@there", 2_000, PlanState.RELEASED, "epoch 2 (you@there), last heartbeat 2s ago"),
        ("me@here", 15_000, PlanState.RELEASED, "epoch 2, last heartbeat 15s ago"),
        ("me@here", 15_001, PlanState.RELEASED, "epoch 2, silent since 22:13:04Z (15s)"),
        ("me@here", 240_000, PlanState.RELEASING, "epoch 2, silent since 22:09:20Z (4m)"),
        ("me@here", None, PlanState.RELEASED, "epoch 2, ended"),
        ("me@here", 240_000, PlanState.DONE, "epoch 2, ended"),  # a closed plan has no runner
        ("me@here", 2_000, PlanState.CANCELLED, "epoch 2, ended"),
    ],
)
def test_the_runner(who: str, silent_ms: int | None, state: PlanState, text: str) -> None:
    epoch = RunnerEpoch(2, who, 5, 0 if silent_ms is None else NOW_MS - silent_ms)
    found = replace(ledgered(make_plan(), state), epoch=epoch)

    assert VerifiedPlan(found, verify(found), NOW_MS).runner_text == text


def test_no_runner_yet() -> None:
    found = ledgered(make_plan(), PlanState.PLANNED)

    assert VerifiedPlan(found, verify(found), NOW_MS).runner_text == "none yet"
