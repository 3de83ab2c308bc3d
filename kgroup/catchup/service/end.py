"""``kgroup catchup stop``, ``cancel`` and ``prune``; and ``resume`` up to the release."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kgroup.catchup import decisions
from kgroup.catchup.documents import plan_document
from kgroup.catchup.model import Place, PlanSnapshot, PlanState
from kgroup.catchup.plan_state import VerifiedPlan
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.lookup import find_plan, list_plans, running_plan, with_connection_flags
from kgroup.catchup.service.results import Cancellation
from kgroup.catchup.service.show import PlanRow, commands, resume_text, state_outcome
from kgroup.catchup.service.start_release import explain_partial_release, released_text
from kgroup.catchup.steps import AlreadyDone, Close, Decision, Refuse, Situation
from kgroup.catchup.verification import verify
from kgroup.model.blocks import Screen, Text, Title
from kgroup.model.groups import RowError
from kgroup.model.outcome import Outcome
from kgroup.output.pages.catchup_cancel import ended_records, ended_screen
from kgroup.output.pages.catchup_plans import list_records, list_screen, released_screen
from kgroup.settings.invocation import Invocation
from kgroup.support.clock import utc_ms
from kgroup.support.errors import ExitCode, KgroupError, UsageError
from kgroup.support.quoting import execute_command
from kgroup.support.signals import defer_signals
from kgroup.support.units import plural


def parse_assumed(given: Sequence[str], found: PlanSnapshot) -> dict[Place, bool]:
    """``--assume released`` for all partitions of a plan, ``orders:7=unreleased`` for one. Raises UsageError."""
    assumed: dict[Place, bool] = {}
    places = {item.place for item in found.plan.ranges}
    for word in given:
        parts = re.fullmatch(r"(?a)(?:([^:=,\s]+):(\d{1,10})=)?(released|unreleased)", word.strip())
        if parts is None:
            raise UsageError(f"--assume {word}: not released or unreleased", hint="--assume orders:7=released")
        released = parts[3] == "released"
        if parts[1] is None:
            assumed |= dict.fromkeys(places - assumed.keys(), released)
            continue
        place = (parts[1], int(parts[2]))
        if place not in places:
            raise UsageError(f"--assume {word}: {found.plan.id} has no such partition")
        assumed[place] = released
    return assumed


@dataclass(frozen=True, slots=True)
class _EndingRow:
    ending: Cancellation

    def document(self) -> dict[str, Any]:
        state = self.ending.state
        return plan_document(state.found, state.proof) | self.ending.document()


def cancel_outcome(
    run: Invocation,
    engine: CatchupEngine,
    text: str,
    accepted: Collection[str],
    assume: Sequence[str],
    *,
    give_up: bool,
    execute: bool,
) -> Outcome:
    """Cancel a plan; without ``execute``, show what would happen."""

    def decide(now: Situation) -> Decision:
        return decisions.cancel(now, accepted, give_up=give_up)

    found = find_plan(run, engine, text, finished=True)
    assumed = parse_assumed(assume, found)
    # First without fencing: a refused cancel must not end a replay.
    would = engine.would(found, decide, assumed)
    if isinstance(would, Refuse) or not execute or isinstance(would, AlreadyDone):
        refusal = with_connection_flags(run, would.error) if isinstance(would, Refuse) else None
        return _ending(run, engine, Cancellation(_state(engine, found), would, refusal, executed=False))
    with defer_signals(), engine.take_over(found) as runner:
        run.result.touched = None
        decision = engine.cancel(runner, accepted, give_up=give_up, assumed=assumed)
        found = runner.found
    ending = Cancellation(_state(engine, found), decision, None, executed=True)
    moved = f"; {plural(len(ending.moves), 'partition')} moved back" if ending.moves else ""
    run.reporter.event("STOPPED", f"{found.plan.id} is cancelled{moved}")
    return _ending(run, engine, ending)


def _ending(run: Invocation, engine: CatchupEngine, ending: Cancellation) -> Outcome:
    errors = (RowError.of(ending.refusal, group=ending.state.found.plan.group),) if ending.refusal else ()
    return Outcome(
        data=(_EndingRow(ending),),
        screen=lambda: ended_screen(ending, execute_command(run.typed)),
        records=lambda: ended_records(ending),
        cluster=engine.cluster.ref,
        errors=errors,
        executed=ending.executed,
        decided=errors[0].exit_code if errors else ExitCode.DONE,
    )


def _state(engine: CatchupEngine, found: PlanSnapshot) -> VerifiedPlan:
    return VerifiedPlan(found, engine.proof(found), utc_ms())


def stop_outcome(run: Invocation, engine: CatchupEngine, text: str, *, execute: bool) -> Outcome:
    """End a replay, from any machine; it can be resumed."""
    found = running_plan(run, engine, text)
    if execute and found.state.state.is_open:
        with defer_signals():
            run.result.touched = None
            found = engine.stop(found)
        run.reporter.event("STOPPED", f"{found.plan.id}: {resume_text(run, engine, found)}")
        return state_outcome(run, engine, _state(engine, found), executed=True)
    if not found.state.state.is_open:
        run.reporter.note(f"{found.plan.id} is {found.state.state}: nothing to stop")
    outcome = state_outcome(run, engine, _state(engine, found))
    if execute or not found.state.state.is_open:
        return outcome
    lines = (
        "Nothing was changed. Whoever works on it ends, and nothing is lost. To do it:",
        f"  {execute_command(run.typed)}",
    )
    return with_lines(outcome, lines)


def with_lines(outcome: Outcome, lines: tuple[str, ...]) -> Outcome:
    """The same page with these lines added at the end."""
    drawn = outcome.screen
    return replace(outcome, screen=lambda: Screen((*drawn().blocks, Text(("", *lines)))))


def release_outcome(
    run: Invocation, engine: CatchupEngine, text: str, assume: Sequence[str], *, execute: bool
) -> Outcome:
    """Resume the release of a plan whose start was interrupted, until its group may start."""
    found = find_plan(run, engine, text)
    assumed = parse_assumed(assume, found)
    if found.state.state is PlanState.RELEASED:
        run.reporter.note(f"{found.plan.id} is released already")
        return state_outcome(run, engine, _state(engine, found))
    would = engine.would(found, decisions.resume, assumed)
    if isinstance(would, Refuse) or not execute:
        refusal = refusal_of(would)
        return _going_on(run, engine, found, None if refusal is None else with_connection_flags(run, refusal))
    with defer_signals(), engine.take_over(found) as runner:
        run.result.touched = None
        with explain_partial_release(run, runner):
            found = engine.go_on(runner, assumed)
    run.reporter.event("RELEASED", released_text(found))
    state = VerifiedPlan(found, verify(found), utc_ms())
    return Outcome(
        data=(PlanRow(state),),
        screen=lambda: released_screen(state, commands(run, found)),
        records=lambda: list_records([state]),
        cluster=engine.cluster.ref,
        executed=True,
    )


def refusal_of(would: Decision) -> KgroupError | None:
    """The refusal of this decision, even if the plan is closed first; None: it is not refused."""
    match would:
        case Refuse(error=error):
            return error
        case Close(refused=refused):
            return refused
        case _:
            return None


def _going_on(run: Invocation, engine: CatchupEngine, found: PlanSnapshot, refusal: KgroupError | None) -> Outcome:
    outcome = state_outcome(run, engine, _state(engine, found))
    if refusal is None:
        return with_lines(outcome, ("Nothing was changed. To release the rest:", f"  {execute_command(run.typed)}"))
    error = RowError.of(refusal, group=found.plan.group)
    return replace(with_lines(outcome, ("Nothing was changed.",)), errors=(error,), decided=error.exit_code)


def prune_outcome(run: Invocation, engine: CatchupEngine, texts: Sequence[str], *, execute: bool) -> Outcome:
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
            run.result.touched = None
            done = engine.ledger.prune([found.plan.id for found in chosen], who=engine.who, now_ms=utc_ms())
        errors = tuple(_failed(plan_id, error) for plan_id, error in done.items() if error is not None)
    elif not execute:
        errors = tuple(
            RowError("plan-open", f"{found.plan.id} is {found.state.state}, not finished", exit_code=ExitCode.REFUSED)
            for found in chosen
            if found.state.state.is_open
        )
    states = [VerifiedPlan(found, verify(found), utc_ms()) for found in chosen]
    failed = len(errors)

    def screen() -> Screen:
        if not states:
            return Screen(())
        word = "DONE" if execute else "PLAN"
        title = Title(f"{word}  forget {plural(len(states) - (failed if execute else 0), 'finished plan')}")
        lines = ("Done.",) if execute else ("Nothing was changed. To do it:", f"  {execute_command(run.typed)}")
        return Screen((title, *list_screen(states, verbose=True).blocks[1:], Text(lines)))

    code = ExitCode.DONE
    if errors:
        code = ExitCode.PARTLY if failed < len(states) else errors[0].exit_code
    return Outcome(
        data=tuple(PlanRow(state) for state in states),
        screen=screen,
        records=lambda: list_records(states),
        cluster=engine.cluster.ref,
        errors=errors,
        executed=execute and failed < len(states),
        decided=code,
    )


def _failed(plan_id: str, error: KgroupError) -> RowError:
    row = RowError.of(error)
    return row if plan_id in row.message else RowError(row.code, f"{plan_id}: {row.message}", exit_code=row.exit_code)
