"""A worker's transactions on a real broker: output and progress together, earlier attempts shut out, none doubled."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kgroup.catchup.ledger import transactional_ids
from kgroup.catchup.ledger.ledger import Ledger
from kgroup.catchup.ledger.runner import Runner
from kgroup.catchup.worker.task_ledger import TaskLedger, Work
from kgroup.groups.catchup.model import CatchupPlan, PlanState, StateRecord, Task
from kgroup.support.errors import NotFound, Refused
from tests.helpers.catchup.ledgers import (
    code_of,
    delivered,
    delivery,
    killed_in_transaction,
    new_plan,
    produce,
    progress,
    task,
    work,
)
from tests.helpers.catchup.plans import ME, NOW_MS
from tests.helpers.kafka_world import KafkaWorld

Name = Callable[[str], str]
Config = dict[str, Any]
TIMEOUT_S = 15.0


@pytest.fixture
def plan(ledger: Ledger, name: Name) -> CatchupPlan:
    """Two partitions, two chunks each."""
    return ledger.create(new_plan(name("group"), 0, 1, chunks=2), now_ms=NOW_MS).plan


@pytest.fixture
def runner(ledger: Ledger, plan: CatchupPlan) -> Iterator[Runner]:
    with ledger.take_over(plan.id, who=ME, now_ms=NOW_MS) as runner:
        runner.write(StateRecord(PlanState.RELEASED, NOW_MS, ME, 0), delivery((0, 1), (2, 3)))
        yield runner


@pytest.fixture
def copy(world: KafkaWorld, name: Name) -> str:
    return world.topic(name("copy"))


def test_what_is_delivered_and_how_far_it_is_count_together(
    config: Config, ledger: Ledger, runner: Runner, copy: str
) -> None:
    with task(config, ledger, runner) as one:
        assert one.progress == {}
        one.begin()
        produce(one, copy, "a", "b")
        one.commit(progress(0, 80))
        one.begin()
        produce(one, copy, "c")
        one.commit(progress(0, 95), progress(1, 100))
        one.commit(progress(1, 120))  # a handler's sink has nothing to produce
        assert one.progress == {0: progress(0, 95), 1: progress(1, 120)}
        one.begin()
        produce(one, copy, "never")
        one.producer.flush(30)

    assert delivered(config, copy) == ["a", "b", "c"]
    assert runner.read().progress == {0: progress(0, 95), 1: progress(1, 120)}
    with task(config, ledger, runner) as again, task(config, ledger, runner, 1) as other:
        assert again.progress == {0: progress(0, 95), 1: progress(1, 120)}
        assert other.progress == {}


def test_what_a_worker_is_told_travels(config: Config, ledger: Ledger, runner: Runner) -> None:
    told = work(ledger, runner, 1)

    assert pickle.loads(pickle.dumps(told)) == told
    assert str(told) == f"task 1 of {runner.plan_id}"


def test_another_attempt_shuts_the_first_one_out(config: Config, ledger: Ledger, runner: Runner, copy: str) -> None:
    with task(config, ledger, runner) as first:
        first.begin()
        produce(first, copy, "first")
        first.producer.flush(30)
        with task(config, ledger, runner) as second:
            second.begin()
            produce(second, copy, "second")
            second.commit(progress(0, 80))
            with pytest.raises(Refused) as caught:
                first.commit(progress(0, 95))

    assert caught.value.code == "superseded"
    assert f"task 0 of {runner.plan_id}" in caught.value.message
    assert delivered(config, copy) == ["second"]
    assert runner.read().progress == {0: progress(0, 80)}


def test_a_late_attempt_of_an_earlier_runner_leaves_the_live_one_alone(
    config: Config, ledger: Ledger, plan: CatchupPlan, runner: Runner, copy: str
) -> None:
    stale = work(ledger, runner, 0)
    with ledger.take_over(plan.id, who=ME, now_ms=NOW_MS) as successor, task(config, ledger, successor) as live:
        live.begin()
        produce(live, copy, "live")
        live.producer.flush(30)
        with pytest.raises(Refused) as caught, TaskLedger(config, stale, timeout_s=TIMEOUT_S):
            pass
        live.commit(progress(0, 80))

    assert caught.value.code == "superseded"
    assert delivered(config, copy) == ["live"]


def test_an_idle_attempt_that_was_shut_out_commits_nothing(
    config: Config, ledger: Ledger, runner: Runner, copy: str
) -> None:
    with task(config, ledger, runner) as first, task(config, ledger, runner):
        first.begin()
        produce(first, copy, "first")
        assert code_of(lambda: first.commit(progress(0, 80))) == "superseded"

    assert delivered(config, copy) == []


def test_a_task_of_an_earlier_runner_stops(config: Config, ledger: Ledger, runner: Runner, copy: str) -> None:
    stale = task(config, ledger, runner)
    with ledger.take_over(runner.plan_id, who="you@there", now_ms=NOW_MS):
        with pytest.raises(Refused) as caught:
            stale.open()

        assert caught.value.code == "superseded"
        assert "runner epoch 2 (you@there) has taken over" in caught.value.message


def test_a_takeover_shuts_running_tasks_out(config: Config, ledger: Ledger, runner: Runner, copy: str) -> None:
    with task(config, ledger, runner) as one:
        one.begin()
        produce(one, copy, "old")
        one.producer.flush(30)
        with ledger.take_over(runner.plan_id, who="you@there", now_ms=NOW_MS) as second:
            assert second.snapshot.progress == {}
            assert code_of(lambda: one.commit(progress(0, 80))) == "superseded"

    assert delivered(config, copy) == []


def test_a_task_whose_plan_has_no_runner_stops(config: Config, ledger: Ledger, plan: CatchupPlan) -> None:
    offset = ledger.read(plan.id).offset
    for epoch in (0, 1):
        early = TaskLedger(config, Work(ledger.topic, plan.id, offset, epoch, Task(0, (0,))), timeout_s=TIMEOUT_S)
        assert code_of(early.open) == "superseded"


def test_a_task_of_a_pruned_plan_stops(config: Config, ledger: Ledger, runner: Runner) -> None:
    stale = task(config, ledger, runner)
    runner.write(StateRecord(PlanState.CANCELLED, NOW_MS, ME, 0))
    assert ledger.prune([runner.plan_id], who=ME, now_ms=NOW_MS) == {runner.plan_id: None}

    assert code_of(stale.open) == "superseded"


def test_the_trap_a_killed_task_hides_what_another_has_finished(
    config: Config, ledger: Ledger, runner: Runner, copy: str, bootstrap: str
) -> None:
    """Deciding at the end of the partition, task 1 would deliver again what it has delivered (seen in a trial)."""
    waited: list[float] = []
    with task(config, ledger, runner, 1) as done:
        killed_in_transaction(
            bootstrap, ledger.topic, transactional_ids.of_task(runner.plan_id, 0), runner.plan_id, progress(0, 95)
        )
        done.begin()
        produce(done, copy, "task 1")
        done.commit(progress(2, 95))

    def the_minute_is_over(seconds: float) -> None:
        waited.append(seconds)
        ledger.fence_tasks(runner.plan_id, [0])

    with task(config, ledger, runner, 1, on_wait=the_minute_is_over) as retried:
        assert retried.progress == {2: progress(2, 95)}
    assert len(waited) == 1
    assert delivered(config, copy) == ["task 1"]
    assert runner.read().progress == {2: progress(2, 95)}


def test_a_retry_of_the_killed_task_itself_waits_for_nothing(
    config: Config, ledger: Ledger, runner: Runner, bootstrap: str
) -> None:
    killed_in_transaction(
        bootstrap, ledger.topic, transactional_ids.of_task(runner.plan_id, 0), runner.plan_id, progress(0, 95)
    )

    with task(config, ledger, runner, on_wait=lambda _: pytest.fail("it waits")) as again:
        assert again.progress == {}


@pytest.mark.parametrize(
    ("value", "code"), [(b"x" * 3_000_000, "too-large"), (None, "not-written")], ids=["large", "no topic"]
)
def test_after_a_record_that_is_refused_it_begins_anew(
    config: Config, ledger: Ledger, runner: Runner, copy: str, world: KafkaWorld, name: Name, value: Any, code: str
) -> None:
    target = copy if value else world.topic(name("vanishing"))
    with task(config, ledger, runner, tuning={"compression.type": "none"}) as one:
        one.begin()
        produce(one, copy, "before")
        one.commit(progress(0, 80))
        if value is None:
            one.tune({"message.timeout.ms": 3000})  # so long it is tried; all else has its time
            one.open()
            one.producer.list_topics(target, 10)
            world.delete_topic(target)
        one.begin()
        produce(one, copy, "with it")
        one.producer.produce(target, value)
        assert code_of(lambda: one.commit(progress(0, 95))) == code
        one.tune({"message.timeout.ms": 60_000})
        one.open()
        assert one.progress == {0: progress(0, 80)}
        one.begin()
        produce(one, copy, "after")
        one.commit(progress(0, 90))

    assert delivered(config, copy) == ["before", "after"]


def test_closing_throws_away_whatever_was_under_way(config: Config, ledger: Ledger, runner: Runner, copy: str) -> None:
    with task(config, ledger, runner) as one:
        for flushed in (True, False):
            for _ in range(3):
                one.begin()
                produce(one, copy, *map(str, range(500)))
                if flushed:
                    one.producer.flush(30)
                one.close()
                one.open()
        one.begin()
        produce(one, copy, "kept")
        one.commit(progress(0, 80))

    assert delivered(config, copy) == ["kept"]


def test_a_hundred_transactions_of_several_tasks_side_by_side(
    config: Config, ledger: Ledger, runner: Runner, copy: str
) -> None:
    with ExitStack() as stack:
        tasks = [stack.enter_context(task(config, ledger, runner, number)) for number in (0, 1)]
        for step in range(50):
            for number, one in enumerate(tasks):
                one.begin()
                produce(one, copy, f"{number} {step}")
                one.commit(progress(2 * number, 70 + step % 25, at_ms=NOW_MS + step))
        assert runner.read().progress == {2 * number: progress(2 * number, 94, at_ms=NOW_MS + 49) for number in (0, 1)}

    assert sorted(delivered(config, copy)) == sorted(f"{number} {step}" for number in (0, 1) for step in range(50))


def test_a_ledger_that_is_gone(config: Config, ledger: Ledger, runner: Runner, name: Name) -> None:
    elsewhere = TaskLedger(config, Work(name("absent"), runner.plan_id, 0, 1, Task(0, (0,))), timeout_s=TIMEOUT_S)
    assert code_of(elsewhere.open) == "superseded"
    with pytest.raises(NotFound):
        Ledger(config, name("absent"), timeout_s=TIMEOUT_S).read(runner.plan_id)
