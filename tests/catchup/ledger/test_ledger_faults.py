"""Answers that are lost on their way to whoever makes a plan, runs it, or delivers for it: looked up, never assumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from kgroup.catchup.ledger import transactional_ids
from kgroup.catchup.ledger.ledger import Ledger
from kgroup.catchup.ledger.runner import Runner
from kgroup.cluster.transactions import CommitUnknown
from kgroup.groups.catchup.model import PlanState
from kgroup.support.errors import Unreachable
from tests.helpers.catchup.ledgers import (
    Waits,
    code_of,
    created,
    delivered,
    ended,
    hurried_commits,
    new_plan,
    produce,
    progress,
    state,
    taken,
    task,
)
from tests.helpers.catchup.plans import ME, NOW_MS
from tests.helpers.kafka_proxy import Fault, Loss, ProxiedBroker

Name = Callable[[str], str]
TIMEOUT_S = 15.0
END_TXN = 26


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def far(proxied: ProxiedBroker, name: Name, waits: Waits) -> Iterator[Ledger]:
    """A ledger behind the proxy."""
    with Ledger({"bootstrap.servers": proxied.bootstrap}, name("ledger"), timeout_s=TIMEOUT_S) as ready:
        ready.prepare()
        ready.check()  # takes an id: the first one on a cluster may wait until its topic for them is made
    with Ledger({"bootstrap.servers": proxied.bootstrap}, ready.topic, timeout_s=TIMEOUT_S, on_wait=waits) as ledger:
        yield ledger


@pytest.mark.parametrize(("loss", "made"), [(Loss.ANSWER, True), (Loss.REQUEST, False)])
def test_the_lost_answer_to_a_new_plan_is_looked_up(
    proxied: ProxiedBroker, far: Ledger, name: Name, waits: Waits, loss: Loss, made: bool
) -> None:
    plan = new_plan(name("group"))
    fault = proxied.proxy.expect(Fault(END_TXN, loss, always=True))

    def its_minute_is_over() -> None:
        proxied.proxy.reset()
        ended(far, transactional_ids.of_group(plan.group))

    waits.then = its_minute_is_over
    with hurried_commits():
        if made:
            assert created(far, plan).plan == plan
        else:
            assert code_of(lambda: created(far, plan)) == "not-written"
    assert fault.met.is_set()
    proxied.proxy.reset()
    assert [each.plan for each in far.list().plans] == ([plan] if made else [])


@pytest.mark.soak
@pytest.mark.parametrize(("loss", "code"), [(Loss.ANSWER, None), (Loss.REQUEST, "not-written")])
def test_the_lost_answer_to_a_runner_is_looked_up(
    proxied: ProxiedBroker, far: Ledger, name: Name, waits: Waits, loss: Loss, code: str | None
) -> None:
    plan = new_plan(name("group"))
    created(far, plan)
    with taken(far, plan) as runner:
        proxied.proxy.expect(Fault(END_TXN, loss, always=True))

        def its_minute_is_over() -> None:
            proxied.proxy.reset()
            ended(far, transactional_ids.of_plan(plan.id))

        waits.then = its_minute_is_over
        with hurried_commits():
            assert code_of(lambda: runner.write(state(PlanState.RELEASING))) == code
        proxied.proxy.reset()
        assert far.read(plan.id).state.state is (PlanState.PLANNED if code else PlanState.RELEASING)
        runner.write(state(PlanState.RELEASED))  # under the id taken anew

        assert runner.snapshot.state.state is far.read(plan.id).state.state is PlanState.RELEASED
        assert far.read(plan.id).epoch == runner.epoch


@pytest.mark.soak
def test_a_runner_whose_answer_was_lost_finds_its_successor(
    proxied: ProxiedBroker, far: Ledger, name: Name, waits: Waits
) -> None:
    plan = new_plan(name("group"))
    created(far, plan)
    with taken(far, plan) as runner:
        proxied.proxy.expect(Fault(END_TXN, Loss.REQUEST, always=True))
        successors: list[Runner] = []

        def resume_elsewhere() -> None:
            proxied.proxy.reset()
            with Ledger({"bootstrap.servers": proxied.bootstrap}, far.topic, timeout_s=TIMEOUT_S) as other:
                successors.append(taken(other, plan, "you@there"))

        waits.then = resume_elsewhere
        with hurried_commits():
            assert code_of(lambda: runner.write(state(PlanState.RELEASING))) == "superseded"
        assert code_of(lambda: runner.write(state(PlanState.RELEASING))) == "superseded"
        (successor,) = successors
        with successor:
            successor.write(state(PlanState.RELEASED))  # it was not shut out


@pytest.mark.soak
def test_nobody_answers_at_all(proxied: ProxiedBroker, far: Ledger, name: Name) -> None:
    plan = new_plan(name("group"))
    created(far, plan)
    with taken(far, plan) as runner:
        proxied.proxy.expect(Fault(END_TXN, Loss.ANSWER, always=True))
        for api_key in (1, 2, 3):
            proxied.proxy.expect(Fault(api_key, Loss.REQUEST, always=True))

        far._reader._watch.timeout_s = 1.0
        with hurried_commits(), pytest.raises(CommitUnknown) as caught:
            runner.write(state(PlanState.RELEASING))
        assert isinstance(caught.value, Unreachable)
    proxied.proxy.reset()
    far._reader._watch.timeout_s = TIMEOUT_S
    with taken(far, plan) as next_one:
        assert next_one.snapshot.state.state is PlanState.RELEASING


@pytest.mark.soak
@pytest.mark.parametrize(("loss", "code"), [(Loss.ANSWER, None), (Loss.REQUEST, "not-written")])
def test_the_lost_answer_to_a_commit_is_looked_up(
    proxied: ProxiedBroker, name: Name, loss: Loss, code: str | None
) -> None:
    near, far = {"bootstrap.servers": proxied.world.bootstrap}, {"bootstrap.servers": proxied.bootstrap}
    proxied.proxy.reset()
    target = proxied.world.topic(name("copy"))
    with ExitStack() as stack:
        ledger = stack.enter_context(Ledger(near, name("ledger"), timeout_s=TIMEOUT_S))
        ledger.prepare()
        made = ledger.create(new_plan(name("group")), now_ms=NOW_MS)
        runner = stack.enter_context(ledger.take_over(made.plan.id, who=ME, now_ms=NOW_MS))
        one = stack.enter_context(task(far, ledger, runner))
        one.begin()
        produce(one, target, "a")
        proxied.proxy.expect(Fault(END_TXN, loss, always=True))
        with hurried_commits():
            assert code_of(lambda: one.commit(progress(0, 80))) == code
        assert one.progress == ({} if code else {0: progress(0, 80)})
        proxied.proxy.reset()
        one.begin()
        produce(one, target, "b")
        one.commit(progress(0, 95))

    assert delivered(near, target) == (["b"] if code else ["a", "b"])
