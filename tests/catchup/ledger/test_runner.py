"""Runners of a plan on a real broker: superseded, killed, several at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from kgroup.catchup.ledger import transactional_ids
from kgroup.catchup.ledger.ledger import Ledger
from kgroup.catchup.ledger.records import RecordKey, RecordKind
from kgroup.catchup.ledger.runner import Runner
from kgroup.groups.catchup.model import PlanState, RunnerEpoch
from kgroup.groups.catchup.verification import totals_of
from kgroup.model.records import LostOffsets
from kgroup.support.errors import Refused
from tests.helpers.catchup.ledgers import (
    code_of,
    created,
    delivery,
    killed_in_transaction,
    new_plan,
    progress,
    state,
    taken,
    written,
)
from tests.helpers.catchup.plans import ME, NOW_MS

Name = Callable[[str], str]
Config = dict[str, Any]
TIMEOUT_S = 15.0


def test_a_runner_writes_and_another_goes_on(ledger: Ledger, name: Name) -> None:
    plan = new_plan(name("group"), chunks=2)
    made = created(ledger, plan)
    with ledger.take_over(plan.id, who=ME, now_ms=NOW_MS, offset=made.offset) as runner:
        assert runner.epoch == RunnerEpoch(1, ME, NOW_MS, NOW_MS)
        assert runner.snapshot == replace(made, epoch=runner.epoch)
        runner.write(state(PlanState.RELEASING, log_position=12))
        runner.write(state(PlanState.RELEASED), delivery((0,), (1,)))
        runner.heartbeat(NOW_MS + 5)
        assert runner.snapshot == runner.read() == ledger.read(plan.id)
        assert runner.snapshot.state == replace(state(PlanState.RELEASED), epoch=1)
        assert runner.snapshot.epoch == RunnerEpoch(1, ME, NOW_MS, NOW_MS + 5)

    with taken(ledger, plan, "you@there") as second:
        assert second.epoch.number == 2
        assert second.snapshot == replace(runner.snapshot, epoch=second.epoch)


@pytest.mark.parametrize(("chunks", "has_totals"), [(1, True), (40, False)])
def test_the_end_of_a_plan_comes_with_totals_unless_they_are_larger_than_the_plan(
    ledger: Ledger, name: Name, chunks: int, has_totals: bool
) -> None:
    """The ledger has accepted the plan's own record, so it accepts one that is not larger."""
    plan = new_plan(name("group"), chunks=chunks)
    created(ledger, plan)
    lost = [
        replace(progress(number, chunk.end), lost=(LostOffsets(chunk.start, chunk.end, f"why {number}"),))
        for number, chunk in enumerate(plan.chunks)
    ]
    with taken(ledger, plan) as runner:
        runner.write(state(PlanState.RELEASED), *lost)
        assert RecordKey(plan.id, RecordKind.TOTALS).encode() not in ledger.view(plan.id).keys(plan.id)
        runner.write(state(PlanState.DONE))
        assert runner.snapshot == runner.read()

    view = ledger.view(plan.id)
    totals = view.value(RecordKey(plan.id, RecordKind.TOTALS))
    assert totals == (totals_of(view.ledgered(plan.id)) if has_totals else None)


def test_a_superseded_runner_writes_never_again(ledger: Ledger, name: Name) -> None:
    plan = new_plan(name("group"))
    created(ledger, plan)
    with taken(ledger, plan) as old, taken(ledger, plan, "you@there") as new:
        for call in (
            lambda: old.write(state(PlanState.RELEASING)),
            lambda: old.write(state(PlanState.RELEASING)),
            lambda: old.heartbeat(1),
            old.read,
            old.tombstone,
        ):
            with pytest.raises(Refused) as caught:
                call()
            assert caught.value.code == "superseded"
            assert f"another kgroup run has taken over {plan.id}" in caught.value.message

        new.write(state(PlanState.RELEASED))
        assert ledger.read(plan.id).epoch == new.epoch
        assert ledger.read(plan.id).state.state is PlanState.RELEASED


def test_a_runner_that_only_reads_learns_it_too_and_from_whom(ledger: Ledger, name: Name) -> None:
    plan = new_plan(name("group"))
    created(ledger, plan)
    with taken(ledger, plan) as old, taken(ledger, plan, "you@there"):
        with pytest.raises(Refused) as caught:
            old.read()

        assert caught.value.code == "superseded"
        assert caught.value.details == ("It is you@there, runner epoch 2; this run had epoch 1.",)


def test_of_runners_at_once_the_last_one_stays(
    config: Config, ledger: Ledger, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgroup.catchup.ledger.runner._OVERTAKEN_WITHIN_S", 20)
    plan = new_plan(name("group"))
    created(ledger, plan)
    with ExitStack() as stack:
        own = [stack.enter_context(Ledger(config, ledger.topic, timeout_s=TIMEOUT_S)) for _ in range(4)]
        runners: list[Runner] = []

        def take(number: int) -> str | None:
            return code_of(lambda: runners.append(taken(own[number], plan, f"runner-{number}")))

        with ThreadPoolExecutor(4) as pool:
            codes = list(pool.map(take, range(4)))
        for runner in runners:
            stack.callback(runner.close)
        alive = [runner for runner in runners if code_of(partial(runner.heartbeat, NOW_MS + 1)) is None]

        assert set(codes) <= {None, "superseded"}
        assert len(alive) == 1
        assert ledger.read(plan.id).epoch == alive[0].epoch
        numbers = [runner.epoch.number for runner in runners]
        assert len(set(numbers)) == len(numbers)


def test_a_runner_killed_before_its_commit_has_written_nothing(ledger: Ledger, name: Name, bootstrap: str) -> None:
    plan = new_plan(name("group"))
    made = created(ledger, plan)
    killed_in_transaction(
        bootstrap,
        ledger.topic,
        transactional_ids.of_plan(plan.id),
        plan.id,
        RunnerEpoch(7, "dead", 1, 1),
        state(PlanState.DONE),
    )

    with taken(ledger, plan) as runner:
        assert runner.snapshot.state == made.state
        assert runner.epoch.number == 8  # one that nobody had, committed or not


def test_a_start_killed_before_its_commit_is_aborted_by_the_next(ledger: Ledger, name: Name, bootstrap: str) -> None:
    plan, killed = new_plan(name("group")), new_plan(None)
    killed_in_transaction(
        bootstrap,
        ledger.topic,
        transactional_ids.of_group(plan.group),
        killed.id,
        replace(killed, group=plan.group),
        state(PlanState.PLANNED),
    )

    assert created(ledger, plan).plan == plan
    assert [each.plan for each in ledger.list().plans] == [plan]


def test_a_takeover_ends_the_transactions_of_workers_that_were_killed(
    ledger: Ledger, name: Name, bootstrap: str
) -> None:
    """Else reading would wait a minute for them; what the other worker had committed is found."""
    plan = new_plan(name("group"), 0, 1)
    created(ledger, plan)
    with taken(ledger, plan) as first:
        first.write(delivery((0,), (1,)))
    killed_in_transaction(
        bootstrap, ledger.topic, transactional_ids.of_task(plan.id, 0), plan.id, progress(0, 120, epoch=1)
    )
    with ledger.transactions(transactional_ids.of_task(plan.id, 1)) as other:
        other.fence()
        other.begin()
        for key, value in written(plan.id, progress(1, 120)):
            other.produce(ledger.topic, key, value, 0)
        other.commit()

    with taken(ledger, plan) as second:
        assert second.snapshot.progress == {1: progress(1, 120)}


def test_a_runner_may_be_called_by_several_threads(ledger: Ledger, name: Name) -> None:
    plan = new_plan(name("group"))
    created(ledger, plan)
    with taken(ledger, plan) as runner, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: runner.heartbeat(NOW_MS + n) if n % 2 else runner.read(), range(12)))
        assert runner.read().epoch == runner.epoch
