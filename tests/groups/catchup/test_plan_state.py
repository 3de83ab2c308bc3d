"""What is said of the runner of a plan: it works, it is silent, it has ended, there is none; and a plan in a list."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.catchup.documents import catchup_plan
from kgroup.groups.catchup.model import Delivery, Order, PlanState, RunnerEpoch, Task
from kgroup.groups.catchup.plan_state import VerifiedPlan, list_order, sink_name
from kgroup.groups.catchup.verification import verify
from tests.helpers.catchup.plans import NOW_MS, gap_range, ledgered, made, make_plan

PLAN = make_plan(gap_range(deadline_ms=NOW_MS + 1), gap_range(1, deadline_ms=NOW_MS + 2))
DELIVERY = Delivery("topic", Order.PARTITION, (Task(0, (0,)), Task(1, (1,))), {"topic": "copy"})


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


@pytest.mark.parametrize("delivery", [None, DELIVERY])
@pytest.mark.parametrize("state", PlanState)
@pytest.mark.parametrize("delivered", [(), (made(0, 120, 50),), (made(0, 120, 50), made(1, 120, 50))])
def test_a_summary_shows_the_same(state: PlanState, delivery: Delivery | None, delivered: tuple[object, ...]) -> None:
    found = ledgered(PLAN, state, delivered, delivery=delivery)  # type: ignore[arg-type]
    whole = VerifiedPlan(found, verify(found), NOW_MS)

    brief = whole.summary()

    assert catchup_plan(brief) == catchup_plan(whole)
    assert (brief.phase, brief.pending, brief.offsets, brief.name) == (
        whole.phase,
        whole.pending,
        whole.offsets,
        whole.name,
    )
    assert list_order(brief) == list_order(whole)
    assert (brief.snapshot.plan.chunks == ()) is not state.is_open


@pytest.mark.parametrize(
    ("sink", "options", "shown"),
    [
        ("topic", {"topic": "copy", "timestamps": "now"}, "topic copy"),
        ("files", {"dir": "/data/gap", "where": "partition = 3"}, "files /data/gap where partition = 3"),
        ("spark", {"format": "delta", "option.path": "/lake"}, "spark delta /lake"),
        ("spark", {"format": "iceberg", "option.Path": "lake.db.gap"}, "spark iceberg lake.db.gap"),
        ("command", {"command": "curl -H 'Authorization: Bearer abcdefgh1234'"}, "[hidden]"),
    ],
)
def test_a_sink_is_named_without_secrets(sink: str, options: dict[str, str], shown: str) -> None:
    name = sink_name(sink, options)

    assert shown in name
    assert "abcdefgh1234" not in name
