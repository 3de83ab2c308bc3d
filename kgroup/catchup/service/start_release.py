"""The release of ``kgroup catchup start``: the plan is written, the group is released, and users are told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from kgroup.catchup.ledger.runner import Runner
from kgroup.catchup.model import PlanSnapshot, PlanState
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.replay import ReplayOptions, new_delivery
from kgroup.catchup.service.results import StartPlan
from kgroup.catchup.service.show import commands
from kgroup.catchup.service.start_plan import plan_of
from kgroup.settings.invocation import Invocation
from kgroup.support.clock import utc_now
from kgroup.support.errors import ExitCode, KgroupError
from kgroup.support.signals import Terminated, defer_signals
from kgroup.support.units import human_count, plural

_NAMED = 3


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
