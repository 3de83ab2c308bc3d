"""``kgroup catchup stop``, ``cancel`` and ``prune``; and ``resume`` up to the release."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from kgroup.catchup import decisions
from kgroup.catchup.model import PlanSnapshot, PlanState
from kgroup.catchup.plan_state import VerifiedPlan
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.lookup import find_plan, list_plans, running_plan, with_connection_flags
from kgroup.catchup.service.results import Cancellation, PlanStatus, PrunedPlans, ReleasedPlan
from kgroup.catchup.service.show import commands, plan_status, resume_text
from kgroup.catchup.service.start_release import explain_partial_release, released_text
from kgroup.catchup.steps import AlreadyDone, Close, Decision, Refuse, Situation
from kgroup.catchup.verification import verify
from kgroup.model.groups import RowError
from kgroup.model.topic_partition import TopicPartition
from kgroup.settings.invocation import Invocation
from kgroup.support.clock import utc_ms
from kgroup.support.errors import ExitCode, KgroupError, UsageError
from kgroup.support.signals import defer_signals
from kgroup.support.units import plural


def parse_assumed(given: Sequence[str], found: PlanSnapshot) -> dict[TopicPartition, bool]:
    """``--assume released`` for all partitions of a plan, ``orders:7=unreleased`` for one. Raises UsageError."""
    assumed: dict[TopicPartition, bool] = {}
    partitions = {item.tp for item in found.plan.ranges}
    for word in given:
        parts = re.fullmatch(r"(?a)(?:([^:=,\s]+):(\d{1,10})=)?(released|unreleased)", word.strip())
        if parts is None:
            raise UsageError(f"--assume {word}: not released or unreleased", hint="--assume orders:7=released")
        released = parts[3] == "released"
        if parts[1] is None:
            assumed |= dict.fromkeys(partitions - assumed.keys(), released)
            continue
        tp = (parts[1], int(parts[2]))
        if tp not in partitions:
            raise UsageError(f"--assume {word}: {found.plan.id} has no such partition")
        assumed[tp] = released
    return assumed


def cancel_plan(
    run: Invocation,
    engine: CatchupEngine,
    text: str,
    accepted: Collection[str],
    assume: Sequence[str],
    *,
    give_up: bool,
    execute: bool,
) -> Cancellation:
    """Cancel a plan; without ``execute``, show what would happen."""

    def decide(now: Situation) -> Decision:
        return decisions.cancel(now, accepted, give_up=give_up)

    found = find_plan(run, engine, text, finished=True)
    assumed = parse_assumed(assume, found)
    # First without fencing: a refused cancel must not end a replay.
    would = engine.preview(found, decide, assumed)
    if isinstance(would, Refuse) or not execute or isinstance(would, AlreadyDone):
        refusal = with_connection_flags(run, would.error) if isinstance(would, Refuse) else None
        return Cancellation(_state(engine, found), would, refusal, executed=False)
    with defer_signals(), engine.take_over(found) as runner:
        run.reporter.note_effect(None)
        decision = engine.cancel(runner, accepted, give_up=give_up, assumed=assumed)
        found = runner.snapshot
    ending = Cancellation(_state(engine, found), decision, None, executed=True)
    moved = f"; {plural(len(ending.moves), 'partition')} moved back" if ending.moves else ""
    run.reporter.event("STOPPED", f"{found.plan.id} is cancelled{moved}")
    return ending


def _state(engine: CatchupEngine, found: PlanSnapshot) -> VerifiedPlan:
    return VerifiedPlan(found, engine.verification(found), utc_ms())


def stop_plan(run: Invocation, engine: CatchupEngine, text: str, *, execute: bool) -> PlanStatus:
    """End a replay, from any machine; it can be resumed."""
    found = running_plan(run, engine, text)
    if not found.state.state.is_open:
        run.reporter.note(f"{found.plan.id} is {found.state.state}: nothing to stop")
        return plan_status(run, engine, found)
    if not execute:
        nothing = "Nothing was changed. Whoever works on it ends, and nothing is lost. To do it:"
        return plan_status(run, engine, found, nothing, f"  {run.command_line.executing()}")
    with defer_signals():
        run.reporter.note_effect(None)
        found = engine.stop(found)
    run.reporter.event("STOPPED", f"{found.plan.id}: {resume_text(run, engine, found)}")
    return plan_status(run, engine, found, executed=True)


def finish_release(
    run: Invocation, engine: CatchupEngine, text: str, assume: Sequence[str], *, execute: bool
) -> PlanStatus | ReleasedPlan:
    """Resume the release of a plan whose start was interrupted, until its group may start."""
    found = find_plan(run, engine, text)
    assumed = parse_assumed(assume, found)
    if found.state.state is PlanState.RELEASED:
        run.reporter.note(f"{found.plan.id} is released already")
        return plan_status(run, engine, found)
    would = engine.preview(found, decisions.resume, assumed)
    if (refusal := refusal_of(would)) is not None and (isinstance(would, Refuse) or not execute):
        return refused_status(run, engine, found, refusal)
    if not execute:
        return plan_status(
            run, engine, found, "Nothing was changed. To release the rest:", f"  {run.command_line.executing()}"
        )
    with defer_signals(), engine.take_over(found) as runner:
        run.reporter.note_effect(None)
        with explain_partial_release(run, runner):
            found = engine.release(runner, assumed)
    run.reporter.event("RELEASED", released_text(found))
    return ReleasedPlan(VerifiedPlan(found, verify(found), utc_ms()), commands(run, found))


def refused_status(run: Invocation, engine: CatchupEngine, found: PlanSnapshot, refused: KgroupError) -> PlanStatus:
    """A plan as it is, and why the command cannot be executed."""
    return plan_status(run, engine, found, "Nothing was changed.", refused=with_connection_flags(run, refused))


def refusal_of(would: Decision) -> KgroupError | None:
    """The refusal of this decision, even if the plan is closed first; None: it is not refused."""
    match would:
        case Refuse(error=error):
            return error
        case Close(refused=refused):
            return refused
        case _:
            return None


def prune_plans(run: Invocation, engine: CatchupEngine, texts: Sequence[str], *, execute: bool) -> PrunedPlans:
    """Prune finished plans: the named ones, or all."""
    if texts:
        chosen = [find_plan(run, engine, text, finished=True) for text in texts]
    else:
        chosen = [found for found in list_plans(run, engine).plans if not found.state.state.is_open]
    if not chosen:
        run.reporter.note("no plan is finished: nothing to do")
    errors: tuple[RowError, ...] = ()
    if execute and chosen:
        with defer_signals():
            run.reporter.note_effect(None)
            done = engine.ledger.prune([found.plan.id for found in chosen], who=engine.who, now_ms=utc_ms())
        errors = tuple(_failed(plan_id, error) for plan_id, error in done.items() if error is not None)
    elif not execute:
        errors = tuple(
            RowError("plan-open", f"{found.plan.id} is {found.state.state}, not finished", exit_code=ExitCode.REFUSED)
            for found in chosen
            if found.state.state.is_open
        )
    states = tuple(VerifiedPlan(found, verify(found), utc_ms()) for found in chosen)
    return PrunedPlans(states, errors, execute)


def _failed(plan_id: str, error: KgroupError) -> RowError:
    row = RowError.of(error)
    return row if plan_id in row.message else RowError(row.code, f"{plan_id}: {row.message}", exit_code=row.exit_code)
