"""``kgroup catchup start`` and ``resume``: the release of a group, and the replay of its gap to the verification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace as dataclass_replace
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from kgroup.catchup.ledger.runner import Runner
from kgroup.catchup.ledger.transactional_ids import of_group
from kgroup.catchup.service.delivery import (
    SINK_SET,
    deal_again,
    delivered_elsewhere,
    delivery_of,
    new_delivery,
    require_known,
)
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.lookup import find_plan, parse_assumed
from kgroup.catchup.service.rehearsal import rehearse
from kgroup.catchup.service.replay import ReplayOptions, check_yield
from kgroup.catchup.service.replay_run import ReplayChecks, check_replay, replay, spark_session
from kgroup.catchup.service.second_group import second_group_of
from kgroup.catchup.service.show import commands, damaged_refusal, plan_status
from kgroup.catchup.service.start_condition import check_behind
from kgroup.catchup.service.start_plan import StartRequest, may_be_pending, plan_of, plan_start
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import app_name
from kgroup.changes.preconditions import wait_until_empty
from kgroup.groups.catchup import decisions
from kgroup.groups.catchup.decisions import GROUP_CONTINUED
from kgroup.groups.catchup.delivered import unfinished
from kgroup.groups.catchup.elsewhere import ELSEWHERE
from kgroup.groups.catchup.gap import HANGING_TRANSACTION
from kgroup.groups.catchup.model import Delivery, PlanSnapshot, PlanState, ReleasePoint, ThrottleRecord
from kgroup.groups.catchup.plan_state import VerifiedPlan
from kgroup.groups.catchup.results import PlanStatus, ReleasedPlan, ReplayedPlan, StartPlan
from kgroup.groups.catchup.start_condition import Unstarted
from kgroup.groups.catchup.steps import AlreadyDone, Close, Decision, Refuse
from kgroup.groups.catchup.verification import verify
from kgroup.groups.catchup.yielding import LIVE
from kgroup.groups.change_result import Refusal
from kgroup.groups.commit_tags import is_plan_id, new_plan_id
from kgroup.model.reporter import NullReporter, Reporter
from kgroup.model.topic_partition import TopicPartition
from kgroup.settings.model import Settings
from kgroup.support.clock import utc_ms, utc_now
from kgroup.support.command_line import CommandLine
from kgroup.support.errors import SUPERSEDED, ExitCode, KgroupError, NotFound, Refused, refusal_code
from kgroup.support.hint import Hint
from kgroup.support.instants import utc_datetime
from kgroup.support.signals import DeferredSignal, Terminated, defer_signals
from kgroup.support.stdout_reader import pause
from kgroup.support.units import human_count, plural, some_of

NOT_RELEASED = refusal_code(
    "not-released",
    "catchup done",
    "The release of the plan is not finished: its group may not start yet, and its gap may still change.",
    "Finish the release: catchup resume --release-only.",
)

StartResult: TypeAlias = StartPlan | ReleasedPlan | ReplayedPlan | Unstarted


def start_now(engine: CatchupEngine, settings: Settings, request: StartRequest) -> StartResult:
    """One attempt of ``start_catchup``. ``Unstarted`` only if its condition no longer holds after ``--wait-empty``."""
    options, execute, plan_id = request.replay, request.change.execute, new_plan_id()
    check_yield(request.group, options.tuning)
    if not execute:
        plan, _ = _plan(engine, settings, request)
        _note_nothing(engine.reporter, plan)
        return plan
    with ExitStack() as stack:
        session: DriverSession | None = None

        def refused_by_trial(plan: StartPlan, checks: ReplayChecks) -> StartPlan | None:
            """Start Spark and try its workers; the plan with what prevents its replay."""
            nonlocal session
            name, needed = app_name(plan_id, request.group), bool(plan.chunks)
            session = stack.enter_context(spark_session(engine.reporter, options, checks.ready, name, needed=needed))
            refusals = rehearse(engine.reporter, session, options, settings).refusals
            return replace(plan, refusals=(*plan.refusals, *refusals)) if refusals else None

        if waits_for := _waits_for(engine, settings, request):
            plan, checks = waits_for
            # Before the wait: pods of the group may be back when a trial after it ends.
            if checks is not None and (refused := refused_by_trial(plan, checks)) is not None:
                return refused
            assert request.group is not None
            wait_until_empty(engine.reporter, engine.cluster, request.change, [request.group])
            if isinstance(decided := check_behind(engine, request), Unstarted):  # its members have read meanwhile
                return decided
            if session is not None and not session.is_alive:
                raise KgroupError(f"Spark ended{session.ending()} while kgroup waited", code="spark-gone")
        engine.ledger.expect(of_group(request.group))
        plan, checks = _plan(engine, settings, request)
        if not plan.possible:
            _note_nothing(engine.reporter, plan)
            return plan
        if checks is None:
            with _create_and_release(engine, request, plan, plan_id) as runner:
                engine.sign_off(runner)  # nothing runs until a resume
                snapshot = runner.snapshot
            return ReleasedPlan(VerifiedPlan(snapshot, verify(snapshot), utc_ms()), commands(snapshot), plan)
        if session is None and (refused := refused_by_trial(plan, checks)) is not None:
            return refused
        with _create_and_release(engine, request, plan, plan_id) as runner:
            show_may_start(engine.reporter, runner.snapshot, plan)
            replayed = replay(engine, settings, runner, session, options)
            return replace(replayed, left_out=(*plan.errors, *replayed.left_out))


def _waits_for(
    engine: CatchupEngine, settings: Settings, request: StartRequest
) -> tuple[StartPlan, ReplayChecks | None] | None:
    """With ``--wait-empty``, the plan of a group that is not empty; None: no wait, or it would not work then either."""
    change = request.change
    if not change.wait_empty or request.group is None:
        return None
    rehearsal = replace(request, change=dataclass_replace(change, execute=False))
    plan, checks = _plan(replace(engine, reporter=NullReporter()), settings, rehearsal)
    waits = plan.passes and plan.group is not None and not plan.group.is_free
    return (plan, checks) if waits else None


def _plan(engine: CatchupEngine, settings: Settings, request: StartRequest) -> tuple[StartPlan, ReplayChecks | None]:
    """The plan at this moment, and the checks of its replay; None without a replay, or if it is refused."""
    plan, options = plan_start(engine, settings, request), request.replay
    if options.sink is None:
        return plan, None
    return _check_replay(engine, settings, plan, options)


def _check_replay(
    engine: CatchupEngine, settings: Settings, plan: StartPlan, options: ReplayOptions
) -> tuple[StartPlan, ReplayChecks | None]:
    """The plan, with what prevents its replay."""
    try:
        checks = check_replay(engine, settings, options, plan.gap.ranges, plan.takes_s, group=plan.gap.group)
    except Refused as error:
        return replace(plan, refusals=(*plan.refusals, Refusal(None, error))), None
    checks.warn(engine.reporter)
    return checks.added_to(plan), checks


@contextmanager
def _create_and_release(
    engine: CatchupEngine, request: StartRequest, plan: StartPlan, plan_id: str
) -> Iterator[Runner]:
    """Write the plan to the ledger and release its group; yields the runner.

    The delivery is written with the plan, so a resume after a crash needs no sink options. A signal is deferred until
    the group is released, and raised then. Raises as ``CatchupEngine.create`` and ``release_new``.
    """
    made = plan_of(engine, request, plan, plan_id)
    with ExitStack() as stack:
        with defer_signals() as pending:
            snapshot = engine.create(made, None if request.replay.sink is None else new_delivery(made, request.replay))
            engine.reporter.note_effect(None)
            engine.reporter.event("PLANNED", f"{made.id}  {_size_text(plan)}")
            with _explain_open_plan(engine, snapshot):
                runner = stack.enter_context(engine.take_over(snapshot))
                engine.release_new(runner)
            engine.reporter.event("RELEASED", _released_text(runner.snapshot))
        _raise_pending(engine, runner, pending)
        yield runner


def _raise_pending(engine: CatchupEngine, runner: Runner, pending: DeferredSignal) -> None:
    """End the run of a released plan if a signal arrived meanwhile."""
    if pending:
        engine.sign_off(runner)
        resume = commands(runner.snapshot).resume
        engine.reporter.event("STOPPED", f"{runner.plan_id}: nothing is lost; to continue: {resume}")
        raise KeyboardInterrupt if pending.exit_code is ExitCode.INTERRUPTED else Terminated


_WHAT_MOVED = {
    PlanState.PLANNED: "is planned, and no offset was moved",
    PlanState.RELEASING: "is releasing. Some partitions may be moved; their gap is pending",
}
"""What is known of a plan in this state."""


class ResumeRequest(msgspec.Struct, frozen=True):
    """The request of ``resume``: the id or the group of a plan, whether to execute, and how it is replayed.

    ``line`` is what was typed, to be shown with other options; ``assume`` are the values of ``--assume``. With
    ``apart_s`` another run is not taken over: that is looked for after so many seconds, once Spark has started.
    """

    plan: str
    execute: bool
    line: CommandLine
    assume: Sequence[str] = ()
    replay: ReplayOptions = msgspec.field(default_factory=ReplayOptions)
    apart_s: float | None = None


def _find_open(engine: CatchupEngine, text: str) -> PlanSnapshot | None:
    """The plan to continue; None, with a note, if it is a group of which nothing is pending.

    Raises as ``find_plan``; a plan that is named by its id may be finished.
    """
    try:
        return find_plan(engine, text)
    except NotFound:
        if is_plan_id(text) or may_be_pending(engine, text):
            raise
    engine.reporter.note(f"{text} has no open catch-up: nothing to resume")
    return None


def resume_catchup(
    engine: CatchupEngine, settings: Settings, request: ResumeRequest
) -> PlanStatus | ReplayedPlan | None:
    """Continue a plan from its current state to its verification; None: a group has nothing to continue."""
    options, execute = request.replay, request.execute
    snapshot = _find_open(engine, request.plan)
    if snapshot is None or snapshot.is_damaged:
        return None if snapshot is None else _refused_status(engine, snapshot, damaged_refusal(snapshot))
    assumed = parse_assumed(request.assume, snapshot)
    decision = engine.preview(snapshot, decisions.resume, assumed)
    if isinstance(decision, AlreadyDone):
        return _done_status(engine, snapshot, options, decision.why)
    refusal = _why_not_closed(engine, snapshot, options) or refusal_of(decision)
    if refusal is not None and not (execute and refusal.code == GROUP_CONTINUED):
        return _refused_status(engine, snapshot, refusal)
    needed = bool(unfinished(snapshot.plan, snapshot.progress))
    try:
        if needed:
            engine.require_sources(snapshot.plan)
    except (Refused, NotFound) as error:
        return _refused_status(engine, snapshot, error)
    delivery = delivery_of(snapshot, options, str(request.line.with_option("--to-topic", "TOPIC")))
    require_known(delivery, snapshot.plan.id)
    effective = options.with_kept(delivery, snapshot.throttle)
    check_yield(snapshot.plan.group, effective.tuning)
    effective.check_lanes()
    checks = check_replay(
        engine, settings, effective, snapshot.plan.ranges, group=snapshot.plan.group, snapshot=snapshot
    )
    checks.warn(engine.reporter)
    if checks.blocked:
        return _refused_status(engine, snapshot, checks.blocked[0])
    if not execute:
        to_do = f"To deliver to {effective.destination}, {effective.guarantee}"
        unchecked = f"kgroup does not check what {effective.destination} did. To close the plan"
        nothing = f"Nothing was changed. {unchecked if effective.sink == ELSEWHERE else to_do}:"
        words = (f"  with {text}" for text in options.context_words(snapshot.delivery))
        return plan_status(engine, snapshot, nothing, *words, f"  {request.line.executing()}")
    name = app_name(snapshot.plan.id, snapshot.plan.group)
    with spark_session(engine.reporter, effective, checks.ready, name, needed=needed) as session:
        if errors := rehearse(engine.reporter, session, effective, settings).errors:
            return _refused_status(engine, snapshot, errors[0])
        _require_free(engine, snapshot, request.apart_s)
        with take_over_released(engine, snapshot, options, assumed, delivery) as runner:
            if not runner.snapshot.state.state.is_open:
                return _ended_meanwhile(engine, runner.snapshot, assumed)
            return replay(engine, settings, runner, session, effective)


def _why_not_closed(engine: CatchupEngine, snapshot: PlanSnapshot, options: ReplayOptions) -> Refused | None:
    """Why an open plan cannot be closed as delivered elsewhere; None: it can, or that is not wanted."""
    if options.sink != ELSEWHERE:
        return None
    plan_id = snapshot.plan.id
    if snapshot.state.state in (PlanState.PLANNED, PlanState.RELEASING):
        finish = Hint("{} finishes its release", ("catchup", "resume", plan_id, "--release-only", "--execute"))
        return Refused(f"{plan_id} is not released yet", hint=finish, code=NOT_RELEASED)
    if snapshot.state.state.is_open and VerifiedPlan(snapshot, verify(snapshot), engine.now_ms()).is_at_work:
        return Refused(f"another run works on {plan_id}", hint=commands(snapshot).stop, code=SUPERSEDED)
    return None


def _done_status(engine: CatchupEngine, snapshot: PlanSnapshot, options: ReplayOptions, why: str) -> PlanStatus:
    """A plan that is done: nothing to do, unless another destination than its own is named."""
    elsewhere = delivered_elsewhere(snapshot, options.sink, options.sink_options or {})
    if elsewhere is not None:
        return _refused_status(engine, snapshot, elsewhere)
    engine.reporter.note(f"{why}: nothing to do")
    return plan_status(engine, snapshot)


def _require_free(engine: CatchupEngine, snapshot: PlanSnapshot, apart_s: float | None) -> None:
    """Wait, and raise Refused [superseded] if another run works on the plan then; None: a takeover is meant."""
    if apart_s is None:
        return
    pause(apart_s)
    now = engine.ledger.read(snapshot.plan.id, snapshot.offset, lenient=True)
    if VerifiedPlan(now, verify(now), engine.now_ms()).is_at_work:
        raise Refused("another run works on it", code=SUPERSEDED)


def _ended_meanwhile(
    engine: CatchupEngine, snapshot: PlanSnapshot, assumed: Mapping[TopicPartition, bool]
) -> PlanStatus:
    """A plan that another run finished or cancelled just before this run took it over."""
    if (refusal := refusal_of(engine.preview(snapshot, decisions.resume, assumed))) is not None:
        return _refused_status(engine, snapshot, refusal)
    engine.reporter.note(f"another run has finished {snapshot.plan.id}: nothing to do")
    return plan_status(engine, snapshot)


@contextmanager
def take_over_released(
    engine: CatchupEngine,
    snapshot: PlanSnapshot,
    options: ReplayOptions,
    assumed: Mapping[TopicPartition, bool],
    delivery: Delivery,
) -> Iterator[Runner]:
    """The runner of a plan, which is released first if needed. A signal is deferred until the release is done.

    Another run may have finished or cancelled the plan just before: then nothing is written.
    ``delivery`` is what ``options`` made of the plan when it was checked; it is written to the ledger.
    """
    with ExitStack() as stack:
        with defer_signals() as pending:
            with _explain_open_plan(engine, snapshot):
                runner = stack.enter_context(engine.take_over(snapshot))
                if is_open := runner.snapshot.state.state.is_open:
                    delivery = _still_same(runner, engine, options, delivery)
                    engine.reporter.note_effect(None)
                    # A resume after a crash needs no sink options. Its workers may be more or fewer, and the ids of all
                    # tasks so far are fenced.
                    dealt = deal_again(runner.snapshot, delivery, options)
                    if runner.snapshot.delivery != dealt:
                        runner.write(dealt)
                    _replace_throttle(engine, runner, options)
                if released := is_open and runner.snapshot.state.state is not PlanState.RELEASED:
                    engine.release(runner, assumed)
            if released:
                engine.reporter.event("RELEASED", _released_text(runner.snapshot))
                show_may_start(engine.reporter, runner.snapshot)
        if is_open:
            _raise_pending(engine, runner, pending)
        yield runner


def _replace_throttle(engine: CatchupEngine, runner: Runner, options: ReplayOptions) -> None:
    """What this resume sets replaces what ``catchup throttle`` has set before."""
    throttle, typed = runner.snapshot.throttle, {name: text for name, text in options.tuning.items() if name in LIVE}
    if throttle is not None and typed:
        runner.write(ThrottleRecord({**throttle.tuning, **typed}, engine.now_ms(), engine.who))


def _still_same(runner: Runner, engine: CatchupEngine, options: ReplayOptions, delivery: Delivery) -> Delivery:
    """The delivery as this runner found it when it took over: another run may have dealt its chunks to other tasks.

    Raises Refused [sink-set] if that run changed anything else.
    """
    try:
        now = delivery_of(runner.snapshot, options)
        if replace(now, tasks=delivery.tasks) != delivery:
            raise Refused(
                f"another run changed the destination of {runner.plan_id} while this run started",
                hint=Hint("{}", ("catchup", "show", runner.plan_id)),
                code=SINK_SET,
            )
    except Refused:
        engine.sign_off(runner)
        raise
    return now


def finish_release(engine: CatchupEngine, request: ResumeRequest) -> PlanStatus | ReleasedPlan | None:
    """Resume the release of a plan whose start was interrupted, until its group may start; None: as above."""
    snapshot, execute = _find_open(engine, request.plan), request.execute
    if snapshot is None:
        return None
    if snapshot.is_damaged:
        return _refused_status(engine, snapshot, damaged_refusal(snapshot))
    assumed = parse_assumed(request.assume, snapshot)
    if snapshot.state.state is PlanState.RELEASED:
        engine.reporter.note(f"{snapshot.plan.id} is already released")
        return plan_status(engine, snapshot)
    decision = engine.preview(snapshot, decisions.resume, assumed)
    if (refusal := refusal_of(decision)) is not None and (isinstance(decision, Refuse) or not execute):
        return _refused_status(engine, snapshot, refusal)
    if not execute:
        return plan_status(
            engine, snapshot, "Nothing was changed. To release the rest:", f"  {request.line.executing()}"
        )
    with defer_signals(), _explain_open_plan(engine, snapshot), engine.take_over(snapshot) as runner:
        engine.reporter.note_effect(None)
        engine.release(runner, assumed)
        engine.sign_off(runner)  # nothing runs until a resume
        snapshot = runner.snapshot
    engine.reporter.event("RELEASED", _released_text(snapshot))
    return ReleasedPlan(VerifiedPlan(snapshot, verify(snapshot), utc_ms()), commands(snapshot))


def _refused_status(engine: CatchupEngine, snapshot: PlanSnapshot, refused: KgroupError) -> PlanStatus:
    """A plan as it is, and why the command cannot be executed."""
    return plan_status(engine, snapshot, "Nothing was changed.", refused=refused)


def refusal_of(decision: Decision) -> KgroupError | None:
    """The refusal of this decision, even if the plan is closed first; None: it is not refused."""
    match decision:
        case Refuse(error=error):
            return error
        case Close(refused=refused):
            return refused
        case _:
            return None


def _note_nothing(reporter: Reporter, plan: StartPlan) -> None:
    """Note that a plan has nothing to do, if that is so."""
    if not plan.gap.ranges and not plan.errors:
        subject = f"{plan.gap.group or 'this'} {_nothing(plan)}"
        if plan.letters is not None:
            subject = f"{plan.letters.topic} has no dead letter to deliver"
        reporter.note(f"{subject}: nothing to do")


def _nothing(plan: StartPlan) -> str:
    held = [row.name for row in plan.gap.not_moved if row.code == HANGING_TRANSACTION]
    return f"has no gap that can be read yet: an open transaction is on {some_of(held)}" if held else "has no gap"


@contextmanager
def _explain_open_plan(engine: CatchupEngine, snapshot: PlanSnapshot) -> Iterator[None]:
    """Add to an error within the block how to resume or cancel the plan, if it is still open."""
    try:
        yield
    except KgroupError as error:
        if error.code == SUPERSEDED:
            raise
        raise error.with_context(details=_open_plan_lines(engine, snapshot)) from error


def _open_plan_lines(engine: CatchupEngine, snapshot: PlanSnapshot) -> tuple[str, ...]:
    plan_id, typed, known = snapshot.plan.id, commands(snapshot), "is open"
    with suppress(KgroupError):
        state = engine.ledger.read(plan_id, snapshot.offset).state.state
        if not state.is_open:
            return ()
        known = _WHAT_MOVED.get(state, f"is {state}")
    return (f"{plan_id} {known}.", f"To continue:  {typed.resume}", f"To cancel it: {typed.cancel}")


def show_may_start(reporter: Reporter, snapshot: PlanSnapshot, planned: StartPlan | None = None) -> None:
    """Show in a terminal that the group may start, while the replay begins."""
    plan = snapshot.plan
    if plan.group is None:
        return
    read = utc_now() if planned is None else utc_datetime(planned.at_ms)  # Spark was tried after that
    begins = f"It starts at the log end of {read:%H:%M:%SZ}. [committed, log end) is in {plan.id}."
    if plan.release_point is not ReleasePoint.LOG_END:
        begins = f"It starts at --until, NOT at the log end. [committed, --until) is in {plan.id}."
    reporter.box((f"{plan.group} MAY START NOW", begins, *(() if planned is None else _exceptions(planned))))
    stops = "stops the replay" if second_group_of(snapshot) is None else "does not stop the application"
    reporter.note(f"closing this terminal {stops} and loses nothing; to continue: {commands(snapshot).resume}")


def _exceptions(planned: StartPlan) -> Iterator[str]:
    """The partitions that are released below the log end, or not at all."""
    below = [f"{risk.topic}:{risk.partition}" for risk in planned.risks if risk.code == "below-log-end"]
    if below:
        yield f"Below the log end, because of an open transaction: {some_of(below)}."
    left = [_name(error.topic, error.partition) for error in planned.errors if error.topic is not None]
    if left:
        yield f"Not moved, and not part of the plan: {some_of(left)}."


def _name(topic: str | None, partition: int | None) -> str:
    return f"{topic}" if partition is None else f"{topic}:{partition}"


def _size_text(plan: StartPlan) -> str:
    """``12 partitions, 10.04M records``."""
    records = plan.gap.offsets if plan.gap.records is None else plan.gap.records
    return f"{plural(len(plan.gap.ranges), 'partition')}, {human_count(records)} record{'s' * (records != 1)}"


def _released_text(snapshot: PlanSnapshot) -> str:
    """What was released, for the RELEASED event."""
    plan = snapshot.plan
    if plan.group is None:
        return f"{plan.id}  no group is moved; {plural(len(plan.ranges), 'range')} can be replayed"
    count, where = len(plan.ranges), "the log end" if plan.release_point is ReleasePoint.LOG_END else "--until"
    return f"{plan.group} at {where}, {count} of {plural(count, 'partition')} read back: it may start now"
