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
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.lookup import find_plan, parse_assumed, with_connection_flags
from kgroup.catchup.service.replay import ReplayOptions, delivery_of, new_delivery
from kgroup.catchup.service.replay_run import ReplayChecks, check_replay, rehearse, replay, spark_session, where_of
from kgroup.catchup.service.results import PlanStatus, ReleasedPlan, ReplayedPlan, StartPlan
from kgroup.catchup.service.show import commands, plan_status
from kgroup.catchup.service.start_plan import StartRequest, plan_of, plan_start
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.steps import AlreadyDone, Close, Decision, Refuse
from kgroup.catchup.verification import verify
from kgroup.groups.change_result import Refusal
from kgroup.model.topic_partition import TopicPartition
from kgroup.settings.invocation import Invocation
from kgroup.support.clock import utc_ms, utc_now
from kgroup.support.errors import ExitCode, KgroupError, NotFound, Refused
from kgroup.support.hint import Hint
from kgroup.support.signals import Terminated, defer_signals
from kgroup.support.units import human_count, plural

_NAMED = 3


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


def note_nothing(run: Invocation, plan: StartPlan) -> None:
    """Tell that a plan has nothing to do, if that is so."""
    if not plan.gap.ranges and not plan.errors:
        run.reporter.note(f"{plan.gap.group or 'this'} {_nothing(plan)}: nothing to do")


def _nothing(plan: StartPlan) -> str:
    held = [row.name for row in plan.gap.not_moved if row.code == "hanging-transaction"]
    return f"has no gap that can be read yet, for an open transaction on {_few(held)}" if held else "has no gap"


@contextmanager
def explain_partial_release(run: Invocation, runner: Runner) -> Iterator[None]:
    """Add to an error within the block how to resume or cancel a plan that may be partly released."""
    try:
        yield
    except KgroupError as error:
        if error.code == "superseded":
            raise
        raise error.with_context(details=_left(run, runner)) from error


def _left(run: Invocation, runner: Runner) -> tuple[str, ...]:
    found, taken = runner.snapshot, False
    typed = commands(run, found)
    try:
        runner.read()
    except KgroupError as error:
        taken = error.code == "superseded"
    if taken:
        return (f"Another run has taken {found.plan.id} over by now: {typed.show}",)
    if found.state.state is not PlanState.RELEASING:
        return ()
    return (
        f"{found.plan.id} is releasing: some partitions may be moved, and their gap is owed then.",
        f"To go on with it: {typed.resume}",
        f"To take it back:  {typed.cancel}",
    )


@contextmanager
def release_group(
    run: Invocation, engine: CatchupEngine, plan: StartPlan, reason: str | None, wanted: ReplayOptions | None = None
) -> Iterator[Runner]:
    """Write the plan to the ledger and release its group; yields the runner.

    The delivery (``wanted``) is written with the plan, so a resume after a crash needs no sink options. A signal is
    deferred until the group is released, and raised then. Raises as ``CatchupEngine.create`` and ``release_new``.
    """
    made = plan_of(run, engine, plan, reason)
    with ExitStack() as stack:
        with defer_signals() as pending:
            delivery = None if wanted is None or wanted.sink is None else new_delivery(made, wanted)
            found = engine.create(made, delivery)
            run.reporter.note_effect(None)
            run.reporter.event("PLANNED", f"{made.id}  {sizes(plan)}")
            runner = stack.enter_context(engine.take_over(found))
            with explain_partial_release(run, runner):
                found = engine.release_new(runner)
            run.reporter.event("RELEASED", released_text(found))
        if pending:
            engine.sign_off(runner)
            resume = commands(run, found).resume
            run.reporter.event("STOPPED", f"{made.id}: it is released, and owed; to go on: {resume}")
            raise KeyboardInterrupt if pending.exit_code is ExitCode.INTERRUPTED else Terminated
        yield runner


def show_may_start(run: Invocation, found: PlanSnapshot, planned: StartPlan | None = None) -> None:
    """Show in a terminal that the group may start, while the replay begins."""
    plan = found.plan
    if plan.group is None:
        return
    begins = f"It begins at the head of {utc_now():%H:%M:%SZ}. [committed, head) is {plan.id}'s."
    if plan.released_at != "head":
        begins = f"It begins at --until, NOT at the head. [committed, --until) is {plan.id}'s."
    run.reporter.box((f"{plan.group} MAY START NOW", begins, *(() if planned is None else _but(planned))))
    run.reporter.note(
        f"closing this terminal ends the replay, and loses nothing; to go on: {commands(run, found).resume}"
    )


def _but(planned: StartPlan) -> Iterator[str]:
    """The partitions that are released below the log end, or not at all."""
    below = [f"{risk.topic}:{risk.partition}" for risk in planned.risks if risk.code == "below-head"]
    if below:
        yield f"Below the head, for an open transaction: {_few(below)}."
    left = [_name(error.topic, error.partition) for error in planned.errors if error.topic is not None]
    if left:
        yield f"Left where they were, not part of it: {_few(left)}."


def _name(topic: str | None, partition: int | None) -> str:
    return f"{topic}" if partition is None else f"{topic}:{partition}"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def sizes(plan: StartPlan) -> str:
    """``12 partitions, 10.04M records``."""
    records = plan.gap.offsets if plan.gap.records is None else plan.gap.records
    return f"{plural(len(plan.gap.ranges), 'partition')}, {human_count(records)} record{'s' * (records != 1)}"


def released_text(found: PlanSnapshot) -> str:
    """What was released, for the RELEASED event."""
    plan = found.plan
    if plan.group is None:
        return f"{plan.id}  no group is moved; {plural(len(plan.ranges), 'range')} may be replayed"
    count, where = len(plan.ranges), "the head" if plan.released_at == "head" else "--until"
    return f"{plan.group} at {where}, {count} of {plural(count, 'partition')} read back: it may start now"
