"""``kgroup catchup start`` and ``resume``, from the parsed options to the verification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kgroup.catchup import decisions
from kgroup.catchup.delivered import unfinished
from kgroup.catchup.ledger.runner import Runner
from kgroup.catchup.ledger.transactional_ids import of_group
from kgroup.catchup.model import Delivery, PlanSnapshot, PlanState
from kgroup.catchup.plan_state import VerifiedPlan
from kgroup.catchup.service.end import parse_assumed, refusal_of, refused_status
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.lookup import find_plan
from kgroup.catchup.service.replay import ReplayOptions, delivery_of
from kgroup.catchup.service.replay_run import ReplayChecks, check_replay, rehearse, replay, spark_session, where_of
from kgroup.catchup.service.results import PlanStatus, ReleasedPlan, ReplayedPlan, StartPlan
from kgroup.catchup.service.show import commands, plan_status
from kgroup.catchup.service.start_plan import StartRequest, plan_start
from kgroup.catchup.service.start_release import (
    explain_partial_release,
    note_nothing,
    release_group,
    released_text,
    show_may_start,
)
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.steps import AlreadyDone
from kgroup.catchup.verification import verify
from kgroup.groups.change_result import Refusal
from kgroup.model.topic_partition import TopicPartition
from kgroup.settings.invocation import Invocation
from kgroup.support.clock import utc_ms
from kgroup.support.errors import ExitCode, NotFound, Refused
from kgroup.support.hint import Hint
from kgroup.support.signals import Terminated, defer_signals


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Whether to execute, whether to show Spark's log, and the file for the report."""

    execute: bool
    spark_log: bool = False
    report: Path | None = None


def start_catchup(
    run: Invocation, engine: CatchupEngine, request: StartRequest, doing: RunOptions
) -> StartPlan | ReleasedPlan | ReplayedPlan:
    """Plan; with ``execute``, release and replay. Without a sink it ends after the release."""
    wanted = request.replay
    if doing.execute:
        engine.ledger.expect(of_group(request.group))
    plan = replace(plan_start(run, engine, request), where=where_of(wanted))
    fits: ReplayChecks | None = None
    if wanted.sink is not None and plan.gap.ranges:
        plan, fits = _fitted(run, engine, plan, wanted)
    if not (doing.execute and plan.possible):
        note_nothing(run, plan)
        return plan
    reason = request.change.reason
    if fits is None:
        with release_group(run, engine, plan, reason) as runner:
            found = runner.snapshot
        return ReleasedPlan(VerifiedPlan(found, verify(found), utc_ms()), commands(run, found), plan)
    with (
        spark_session(run, wanted, fits.ready, log=doing.spark_log, needed=bool(plan.chunks)) as session,
        release_group(run, engine, _tried(run, session, wanted, plan), reason, wanted) as runner,
    ):
        show_may_start(run, runner.snapshot, plan)
        return replace(replay(run, engine, runner, session, wanted, doing.report), left_out=plan.errors)


def _tried(run: Invocation, session: DriverSession | None, wanted: ReplayOptions, plan: StartPlan) -> StartPlan:
    """The plan, after Spark has accepted its options. Raises as ``rehearse``."""
    rehearse(run, session, wanted)
    return plan


def _fitted(
    run: Invocation, engine: CatchupEngine, plan: StartPlan, wanted: ReplayOptions
) -> tuple[StartPlan, ReplayChecks | None]:
    """The plan, with what prevents its replay."""
    try:
        found = check_replay(run, wanted, plan.gap.ranges, plan.takes_s, ledger=engine.ledger.topic)
    except Refused as error:
        return replace(plan, refusals=(*plan.refusals, Refusal(None, error))), None
    found.warn(run)
    return found.of(plan), found


def resume_catchup(
    run: Invocation, engine: CatchupEngine, text: str, wanted: ReplayOptions, assume: Sequence[str], doing: RunOptions
) -> PlanStatus | ReplayedPlan:
    """Continue a plan from its current state to its verification."""
    found = find_plan(run, engine, text, finished=True)
    assumed = parse_assumed(assume, found)
    would = engine.preview(found, decisions.resume, assumed)
    if isinstance(would, AlreadyDone):
        run.reporter.note(f"{would.why}: nothing to do")
        return plan_status(run, engine, found)
    refusal = refusal_of(would)
    if refusal is not None and not (doing.execute and refusal.code == "went-on"):
        return refused_status(run, engine, found, refusal)
    needed = bool(unfinished(found.plan, found.progress))
    try:
        if needed:
            engine.require_sources(found.plan)
    except (Refused, NotFound) as error:
        return refused_status(run, engine, found, error)
    delivery = delivery_of(found, wanted, str(run.command_line.with_option("--to-topic", "TOPIC")))
    effective = replace(wanted, sink=delivery.sink, options=delivery.options, order=delivery.order)
    effective = effective.with_kept(delivery)
    effective.check_lanes()
    fits = check_replay(run, effective, found.plan.ranges, ledger=engine.ledger.topic)
    fits.warn(run)
    if fits.blocked:
        return refused_status(run, engine, found, fits.blocked[0])
    if not doing.execute:
        nothing = f"Nothing was changed. To go on, to {where_of(effective)}:"
        return plan_status(run, engine, found, nothing, f"  {run.command_line.executing()}")
    with spark_session(run, effective, fits.ready, log=doing.spark_log, needed=needed) as session:
        rehearse(run, session, effective)
        with _gone_on_with(run, engine, found, wanted, assumed, delivery) as runner:
            return replay(run, engine, runner, session, wanted, doing.report)


@contextmanager
def _gone_on_with(
    run: Invocation,
    engine: CatchupEngine,
    found: PlanSnapshot,
    wanted: ReplayOptions,
    assumed: Mapping[TopicPartition, bool],
    judged: Delivery,
) -> Iterator[Runner]:
    """The runner of a plan, which is released first if needed. A signal is deferred until the release is done.

    ``judged`` is the delivery that was checked before.
    """
    with ExitStack() as stack:
        with defer_signals() as pending:
            runner = stack.enter_context(engine.take_over(found))
            _require_same(runner, engine, wanted, judged)
            run.reporter.note_effect(None)
            state = runner.snapshot.state.state
            if state in (PlanState.PLANNED, PlanState.RELEASING):
                runner.write(judged)  # a resume after a crash needs no sink options
            if state is not PlanState.RELEASED:
                with explain_partial_release(run, runner):
                    engine.release(runner, assumed)
                run.reporter.event("RELEASED", released_text(runner.snapshot))
                show_may_start(run, runner.snapshot)
        if pending:
            engine.sign_off(runner)
            resume = commands(run, runner.snapshot).resume
            run.reporter.event("STOPPED", f"{found.plan.id}: nothing is lost; to go on: {resume}")
            raise KeyboardInterrupt if pending.exit_code is ExitCode.INTERRUPTED else Terminated
        yield runner


def _require_same(runner: Runner, engine: CatchupEngine, wanted: ReplayOptions, judged: Delivery) -> None:
    """Raise Refused if another run changed the delivery just before this runner took over."""
    try:
        if delivery_of(runner.snapshot, wanted) != judged:
            raise Refused(
                f"somebody said anew where the records of {runner.plan_id} go, while this run began",
                hint=Hint("{}", ("catchup", "show", runner.plan_id)),
                code="sink-set",
            )
    except Refused:
        engine.sign_off(runner)
        raise
