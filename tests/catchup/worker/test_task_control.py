"""What a running task reads of its runner in the ledger: its share of the rate, and that it must stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from kgroup.catchup.ledger import transactional_ids
from kgroup.catchup.ledger.records import key_of
from kgroup.catchup.worker.task_control import TaskControl
from kgroup.catchup.worker.task_ledger import TaskLedger
from kgroup.groups.catchup.chunks import RateLimit
from kgroup.groups.catchup.model import AppliedRate
from kgroup.groups.catchup.takeover import SIGNED_OFF
from tests.helpers.catchup.plans import ME, NOW_MS
from tests.helpers.catchup.replays import Replay, seen, sources
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

Make = Callable[..., Replay]
BEGUN = RateLimit(100.0)


@pytest.fixture
def plan(make: Make, source: str) -> Replay:
    return make((source, 0, 0, 10))


@contextmanager
def controlled(plan: Replay, *, ledger: bool) -> Iterator[TaskControl]:
    """The control of a task that shares the rate with three others; ``ledger``: it has read the ledger before."""
    spec = plan.spec("topic", {}, rate=BEGUN, at_once=4)
    if not ledger:
        with TaskControl(spec) as control:
            yield control
        return
    with TaskLedger(spec.config, spec.work, timeout_s=spec.timeout_s) as read, TaskControl(spec, read) as control:
        yield control


def apply(plan: Replay, records: float | None, size: float | None = None, epoch: int | None = None) -> None:
    """What a runner writes with its heartbeat."""
    mine = plan.runner.epoch.number
    plan.runner.heartbeat(NOW_MS, AppliedRate(mine if epoch is None else epoch, records, size, 0, None))


@pytest.mark.soak
@pytest.mark.parametrize("ledger", [True, False])
def test_it_keeps_to_the_rate_in_force(plan: Replay, ledger: bool) -> None:
    apply(plan, 20.0, epoch=0)  # of an earlier run
    with controlled(plan, ledger=ledger) as control:
        assert control.rate == BEGUN
        apply(plan, None, 4000.0)
        wait_for(lambda: control.rate == RateLimit(None, 1000.0), "its share")
        apply(plan, None)
        wait_for(lambda: control.rate is None, "no limit")
        assert not control.must_stop

    apply(plan, 800.0)
    with controlled(plan, ledger=ledger) as control:  # a task that begins later
        wait_for(lambda: control.rate == RateLimit(200.0), "what was in force when it began")


@pytest.mark.parametrize("ledger", [True, False])
def test_it_stops_when_its_runner_has_ended(plan: Replay, ledger: bool) -> None:
    plan.runner.heartbeat(NOW_MS)
    with controlled(plan, ledger=ledger) as control:
        assert not control.must_stop
        plan.runner.heartbeat(SIGNED_OFF)
        wait_for(lambda: control.must_stop, "it stops")

    with controlled(plan, ledger=ledger) as control:
        wait_for(lambda: control.must_stop, "a task that begins later")


def test_it_stops_when_another_runner_has_begun(plan: Replay) -> None:
    with controlled(plan, ledger=True) as control:
        plan.ledger.take_over(plan.runner.plan_id, who=ME, now_ms=NOW_MS).close()
        wait_for(lambda: control.must_stop, "it stops")


def test_an_open_transaction_of_another_task_hides_nothing_from_it(plan: Replay) -> None:
    another = transactional_ids.of_task(plan.runner.plan_id, 9)
    with controlled(plan, ledger=True) as control, plan.ledger.transactions(another) as other:
        other.fence()
        other.begin()
        other.produce(plan.ledger.topic, b"x", b"y", 0)
        other.producer.flush(10)
        apply(plan, 40.0)
        wait_for(lambda: control.rate == RateLimit(10.0), "its share")


def test_a_record_that_can_not_be_read_changes_nothing(plan: Replay, world: KafkaWorld) -> None:
    epoch = key_of(plan.runner.plan_id, plan.runner.epoch).encode()
    with controlled(plan, ledger=True) as control:
        world.produce_at(plan.ledger.topic, 0, [NOW_MS], epoch, b"{}")
        apply(plan, 40.0)
        wait_for(lambda: control.rate == RateLimit(10.0), "its share")
        assert not control.must_stop


@pytest.mark.soak
def test_a_task_ends_between_two_transactions_and_nothing_is_twice(
    plan: Replay, make: Make, world: KafkaWorld, bootstrap: str, source: str, name: Callable[[str], str]
) -> None:
    """The runner signs off while records of an open transaction are in the target."""
    target, polls = world.topic(name("copy"), partitions=2), count()
    world.produce(source, 1000)
    plan = make((source, 0, 0, 1000))

    def sign_off() -> bool:
        if plan.records() > 100 and next(polls) == 0:
            plan.runner.heartbeat(SIGNED_OFF)
        return False

    first = plan.run("topic", {"topic": target}, sign_off, rate=RateLimit(records_per_s=100))
    plan.runner.heartbeat(NOW_MS)
    second = plan.run("topic", {"topic": target})

    assert (first.interrupted, first.finished, second.finished) == (True, False, True)
    assert sources(seen(bootstrap, target)) == [f"{source}:0:{n}" for n in range(1000)]
    assert len(seen(bootstrap, target, "read_uncommitted")) == 1000, "the open transaction was not committed"
