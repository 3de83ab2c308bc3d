"""``kgroup catchup stop``, ``cancel`` and ``prune``."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.lookup import find_plan, list_plans, parse_assumed, running_plan, with_connection_flags
from kgroup.catchup.service.show import plan_status, resume_text
from kgroup.groups.catchup import decisions
from kgroup.groups.catchup.model import PlanSnapshot
from kgroup.groups.catchup.plan_state import VerifiedPlan
from kgroup.groups.catchup.results import Cancellation, PlanStatus, PrunedPlans
from kgroup.groups.catchup.steps import AlreadyDone, Decision, Refuse, Situation
from kgroup.groups.catchup.verification import verify
from kgroup.model.groups import RowError
from kgroup.settings.invocation import Invocation
from kgroup.support.clock import utc_ms
from kgroup.support.errors import ExitCode, KgroupError
from kgroup.support.signals import defer_signals
from kgroup.support.units import plural


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
    preview = engine.preview(found, decide, assumed)
    if isinstance(preview, Refuse) or not execute or isinstance(preview, AlreadyDone):
        refusal = with_connection_flags(run, preview.error) if isinstance(preview, Refuse) else None
        return Cancellation(_state(engine, found), preview, refusal, executed=False)
    with defer_signals(), engine.take_over(found) as runner:
        run.reporter.note_effect(None)
        decision = engine.cancel(runner, accepted, give_up=give_up, assumed=assumed)
        found = runner.snapshot
    cancellation = Cancellation(_state(engine, found), decision, None, executed=True)
    moved = f"; {plural(len(cancellation.moves), 'partition')} moved back" if cancellation.moves else ""
    run.reporter.event("STOPPED", f"{found.plan.id} is cancelled{moved}")
    return cancellation


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
