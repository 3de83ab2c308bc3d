"""A plan that a member of a living group writes about its own partitions.

It is written with the transactional id of the plan itself. Members that plan at the same time do not fence each other:
a partition has one owner, so their plans do not overlap. The next runner of the plan fences its member.
"""

from __future__ import annotations

from msgspec.structs import replace

from kgroup.catchup.ledger import transactional_ids
from kgroup.catchup.ledger.ledger import Ledger
from kgroup.catchup.ledger.records import Value, encode, key_of
from kgroup.catchup.ledger.runner import Runner
from kgroup.groups.catchup.model import CatchupPlan, PlanState, RunnerEpoch, StateRecord
from kgroup.groups.catchup.steps import next_state
from kgroup.groups.catchup.takeover import SIGNED_OFF

FIRST_EPOCH = 1


def write_releasing(ledger: Ledger, plan: CatchupPlan, log_position: int) -> Runner:
    """Write the plan in state RELEASING, in one transaction, and return after its commit. Raises as ``Runner.write``.

    Nothing has to be written before it: the member's commit comes after it, and only with it.
    """
    now_ms = plan.created_ms
    epoch = RunnerEpoch(FIRST_EPOCH, plan.who, now_ms, now_ms)
    state = StateRecord(PlanState.RELEASING, now_ms, plan.who, FIRST_EPOCH, log_position)
    values: tuple[Value, ...] = (plan, epoch, state)
    transactions = ledger.transactions(transactional_ids.of_plan(plan.id))
    try:
        transactions.fence()
        transactions.begin()
        for value in values:
            transactions.produce(ledger.topic, key_of(plan.id, value).encode(), encode(value), 0)
        transactions.commit()
    except BaseException:
        transactions.close()
        raise
    return Runner(ledger, plan.id, None, epoch, transactions)


def write_released(runner: Runner, log_position: int, now_ms: int) -> None:
    """Write that the group is released, and that no run works on the plan. Raises as ``Runner.write``."""
    state = StateRecord(PlanState.RELEASED, now_ms, runner.epoch.who, FIRST_EPOCH, log_position)
    runner.write(state, replace(runner.epoch, seen_ms=SIGNED_OFF))


def close_void(runner: Runner, now_ms: int) -> None:
    """Close a plan that was taken over, and has released nothing. Raises as ``Runner.write``."""
    _close(runner, "not released: the member that made it left the group before its commit", now_ms)


def close_late(runner: Runner, now_ms: int) -> None:
    """Close a plan whose member has given up before its commit. Raises as ``Runner.write``."""
    runner.read()
    _close(runner, "not released: the ledger was too slow", now_ms)


def _close(runner: Runner, note: str, now_ms: int) -> None:
    epoch = runner.epoch
    runner.write(
        next_state(
            runner.snapshot.state, PlanState.CANCELLED, at_ms=now_ms, who=epoch.who, epoch=epoch.number, note=note
        )
    )
