"""``kgroup catchup stop``, ``throttle``, ``cancel`` and ``prune``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from kgroup.catchup.ledger.ledger import PLAN_OPEN
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.lookup import find_plan, parse_assumed, running_plan
from kgroup.catchup.service.read_gap import log_starts
from kgroup.catchup.service.replay import check_yield
from kgroup.catchup.service.second_group import second_group_of, seen_now, why_not_withdrawn, withdraw
from kgroup.catchup.service.show import damaged_refusal, plan_status, redrive_of, resume_text, summaries
from kgroup.groups.catchup import decisions
from kgroup.groups.catchup.model import PlanSnapshot, ThrottleRecord
from kgroup.groups.catchup.plan_state import SESSION, VerifiedPlan
from kgroup.groups.catchup.results import Cancellation, PlanStatus, PrunedPlans
from kgroup.groups.catchup.steps import AlreadyDone, Decision, Refuse, Situation
from kgroup.groups.catchup.verification import verify
from kgroup.model.groups import RowError
from kgroup.support.clock import utc_ms
from kgroup.support.command_line import CommandLine
from kgroup.support.errors import ExitCode, KgroupError, UsageError
from kgroup.support.signals import defer_signals
from kgroup.support.units import plural, some_of


def cancel_plan(
    engine: CatchupEngine,
    text: str,
    accepted: Collection[str],
    assume: Sequence[str],
    *,
    abandon: bool,
    execute: bool,
) -> Cancellation:
    """Cancel a plan; without ``execute``, show what would happen."""

    def decide(now: Situation) -> Decision:
        return decisions.cancel(now, accepted, abandon=abandon)

    snapshot = find_plan(engine, text, finished=True)
    assumed = parse_assumed(assume, snapshot)
    reads = None
    if not snapshot.is_damaged:
        reads = None if abandon else why_not_withdrawn(engine, snapshot)
        snapshot = seen_now(engine, snapshot)
    # First without fencing: a refused cancel must not end a replay.
    damaged = snapshot.is_damaged and not abandon
    preview = Refuse(damaged_refusal(snapshot)) if damaged else engine.preview(snapshot, decide, assumed)
    if reads is not None and not isinstance(preview, Refuse):
        preview = Refuse(reads)
    if isinstance(preview, Refuse) or not execute or isinstance(preview, AlreadyDone):
        refusal = preview.error if isinstance(preview, Refuse) else None
        return Cancellation(_state(engine, snapshot), preview, refusal, executed=False)
    with defer_signals(), engine.take_over(snapshot) as runner:
        engine.reporter.note_effect(None)
        withdraw(engine, runner, abandon=abandon)
        decision = engine.cancel(runner, accepted, abandon=abandon, assumed=assumed)
        snapshot = runner.snapshot
    cancellation = Cancellation(_state(engine, snapshot), decision, None, executed=True)
    moved = f"; {plural(len(cancellation.moves), 'partition')} moved back" if cancellation.moves else ""
    engine.reporter.event("CANCELLED", f"{snapshot.plan.id}{moved}")
    return cancellation


def _state(engine: CatchupEngine, snapshot: PlanSnapshot) -> VerifiedPlan:
    return VerifiedPlan(snapshot, engine.verification(snapshot), utc_ms())


def stop_plan(engine: CatchupEngine, text: str, line: CommandLine, *, execute: bool) -> PlanStatus:
    """End a replay, from any machine; it can be resumed. ``line`` is what was typed, to be shown again."""
    snapshot = running_plan(engine, text)
    if snapshot.is_damaged:
        return plan_status(engine, snapshot, "Nothing was changed.", refused=damaged_refusal(snapshot))
    if not snapshot.state.state.is_open:
        engine.reporter.note(f"{snapshot.plan.id} is {snapshot.state.state}: nothing to stop")
        return plan_status(engine, snapshot)
    if not execute:
        nothing = "Nothing was changed. The run that works on the plan would stop; nothing is lost. To stop it:"
        return plan_status(engine, snapshot, nothing, f"  {line.executing()}")
    with defer_signals():
        engine.reporter.note_effect(None)
        snapshot = engine.stop(snapshot)
    engine.reporter.event("STOPPED", f"{snapshot.plan.id}: {resume_text(engine, snapshot)}")
    return plan_status(engine, snapshot, executed=True)


def throttle_plan(
    engine: CatchupEngine, text: str, tuning: Mapping[str, str], line: CommandLine, *, execute: bool
) -> PlanStatus:
    """Set the rate of a plan, whether a run replays it now or not; ``tuning`` is as typed. ``line`` as above."""
    snapshot = running_plan(engine, text)
    check_yield(snapshot.plan.group, tuning)
    if snapshot.is_damaged:
        return plan_status(engine, snapshot, "Nothing was changed.", refused=damaged_refusal(snapshot))
    if not snapshot.state.state.is_open:
        engine.reporter.note(f"{snapshot.plan.id} is {snapshot.state.state}: nothing to throttle")
        return plan_status(engine, snapshot)
    if snapshot.delivery is not None and snapshot.delivery.sink == SESSION:
        raise UsageError(
            f"{snapshot.plan.id} is delivered in a Spark session of its user's own, which kgroup does not throttle",
            hint="a quota of the brokers for client id kgroup-catchup limits it",
        )
    if (name := second_group_of(snapshot)) is not None:
        raise UsageError(f"the application of {name} reads the gap of {snapshot.plan.id}: kgroup does not throttle it")
    if not execute:
        nothing = f"Nothing was changed. To set {' and '.join(f'{name} {text}' for name, text in tuning.items())}:"
        return plan_status(engine, snapshot, nothing, f"  {line.executing()}")
    before = {} if snapshot.throttle is None else snapshot.throttle.tuning
    throttle = ThrottleRecord({**before, **tuning}, utc_ms(), engine.who)
    with defer_signals():
        engine.reporter.note_effect(None)
        engine.ledger.throttle(snapshot.plan.id, throttle)
    status = plan_status(engine, replace(snapshot, throttle=throttle), executed=True)
    who = "its run applies it within seconds" if status.is_replaying else "the next resume applies it"
    engine.reporter.event("THROTTLED", f"{snapshot.plan.id}: {who}")
    return status


def prune_plans(engine: CatchupEngine, texts: Sequence[str], *, execute: bool) -> PrunedPlans:
    """Prune finished plans: the named ones, or all."""
    finished: tuple[VerifiedPlan, ...] = ()
    if texts:
        snapshots = (find_plan(engine, text, finished=True) for text in texts)
        states = tuple(VerifiedPlan(one, verify(one), utc_ms()).summary() for one in snapshots)
    else:
        finished = tuple(state for state in summaries(engine) if not _is_open(state))
        states = tuple(_without_remembered(engine, finished))
    if not (states or finished):
        engine.reporter.note("no plan is finished: nothing to do")
    errors: tuple[RowError, ...] = ()
    plans = [state.snapshot.plan.id for state in states]
    if execute and plans:
        with defer_signals():
            engine.reporter.note_effect(None)
            done = engine.ledger.prune(plans, who=engine.who, now_ms=utc_ms())
        errors = tuple(_failed(plan_id, error) for plan_id, error in done.items() if error is not None)
    elif not execute:
        errors = tuple(
            RowError(PLAN_OPEN, f"{plan.id} is {state.state}, not finished", exit_code=ExitCode.REFUSED)
            for plan, state in ((one.snapshot.plan, one.snapshot.state) for one in states if _is_open(one))
        )
    return PrunedPlans(states, errors, execute)


def _without_remembered(engine: CatchupEngine, states: Sequence[VerifiedPlan]) -> Iterator[VerifiedPlan]:
    """The plans without those of dead letters that are still there: another plan would deliver them again."""
    partitions = {item.tp for one in states if redrive_of(one.snapshot) for item in one.snapshot.plan.ranges}
    starts, stay = log_starts(engine.cluster, partitions), []
    for state in states:
        ranges = state.snapshot.plan.ranges
        if redrive_of(state.snapshot) and any(item.end > starts.get(item.tp, item.end) for item in ranges):
            stay.append(state.snapshot.plan.id)
        else:
            yield state
    if stay:
        engine.reporter.note(
            f"left out, because its dead letters would be delivered again: {some_of(stay)}; to prune a plan, name it"
        )


def _is_open(state: VerifiedPlan) -> bool:
    return state.snapshot.state.state.is_open


def _failed(plan_id: str, error: KgroupError) -> RowError:
    row = RowError.of(error)
    return row if plan_id in row.message else RowError(row.code, f"{plan_id}: {row.message}", exit_code=row.exit_code)
