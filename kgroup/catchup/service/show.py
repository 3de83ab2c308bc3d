"""Shows plans of the ledger, for display and for scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.lookup import find_plan, ledger_options, list_plans
from kgroup.groups.catchup.delivered import undelivered
from kgroup.groups.catchup.model import PlanSnapshot
from kgroup.groups.catchup.plan_state import PlanCommands, VerifiedPlan, list_order
from kgroup.groups.catchup.results import PlanStatus
from kgroup.groups.catchup.unrecorded_releases import range_words
from kgroup.groups.catchup.verification import verify
from kgroup.settings.invocation import Invocation
from kgroup.support.clock import utc_ms
from kgroup.support.errors import KgroupError, NotFound, Refused
from kgroup.support.stdout_reader import pause

_READ_EVERY_S = 1.0
_NOT_IN_LEDGER = ("--master", "--parallelism", "--conf")
_PATIENCE_S = 1.0


def commands(run: Invocation, found: PlanSnapshot, *more: str) -> PlanCommands:
    """The command lines for this plan; resume has the options ``more``, and ``--to-topic TOPIC`` if no sink is set."""
    plan_id = found.plan.id
    where = () if found.delivery is not None else ("--to-topic", "TOPIC")

    ledger = ledger_options(run)

    def typed(*words: str) -> str:
        return run.command("catchup", *words, *ledger, "--execute")

    return PlanCommands(
        resume=typed("resume", plan_id, *where, *more, *_spark_options(run)),
        cancel=typed("cancel", plan_id),
        give_up=typed("cancel", plan_id, "--give-up"),
        stop=typed("stop", plan_id),
        show=run.command("catchup", "show", plan_id, *ledger),
    )


def resume_text(run: Invocation, engine: CatchupEngine, found: PlanSnapshot) -> str:
    """``nothing is lost; to go on: ...``, or how to end the plan if its undelivered records are gone."""
    if (gone := why_undeliverable(engine, found)) is not None:
        return f"{gone.message}; to end it: {commands(run, found).give_up}"
    return f"nothing is lost; to go on: {commands(run, found).resume}"


def why_undeliverable(engine: CatchupEngine, found: PlanSnapshot) -> KgroupError | None:
    """Why no more records of an open plan can be delivered; None: they can, as far as is known."""
    if not found.state.state.is_open or not undelivered(found.plan, found.progress):
        return None
    try:
        engine.require_sources(found.plan)
    except (NotFound, Refused) as error:
        return error
    except KgroupError:
        pass
    return None


def stopped_text(run: Invocation, engine: CatchupEngine, found: PlanSnapshot, why: str | None = None) -> str:
    """How to resume a plan whose replay ended early; ``why`` replaces that, if another run continues it.

    If the ledger was lost, it shows instead how to deliver the undelivered ranges with a new plan.
    """
    plan = found.plan
    resume = f"{plan.id}: {why or resume_text(run, engine, found)}"
    try:
        listing = engine.ledger.list(patience_s=_PATIENCE_S)
    except KgroupError:  # a ledger that cannot be read now may still exist
        return resume
    if listing.hidden is not None or listing.knows(plan.id):
        return resume
    topic = found.delivery.options.get("topic", "TOPIC") if found.delivery is not None else "TOPIC"
    sink = ("--to-topic", topic)
    words = (
        "catchup",
        "start",
        *range_words(undelivered(plan, found.progress)),
        *sink,
        *ledger_options(run),
        "--execute",
    )
    return (
        f"{plan.id}: the ledger {engine.ledger.topic} does not have it any more, so nobody can go on with it; what was "
        f"not delivered when this run began is delivered, possibly again, by:  {run.command(*words)}"
    )


def _spark_options(run: Invocation) -> Iterator[str]:
    """The typed options that the ledger does not keep: where Spark runs, which depends on the machine."""
    for option, words in run.line.options.items():
        if option in _NOT_IN_LEDGER:
            yield from words


def follow_replay(run: Invocation, engine: CatchupEngine, text: str) -> str:
    """Report the progress of a plan's replay, at each change, until no runner works on it; returns the plan id.

    The id is returned because the group may have several plans then. Raises as ``find_plan`` and ``Ledger.read``.
    """
    found = find_plan(run, engine, text, finished=True)
    reported = ""
    while True:
        state = VerifiedPlan(found, verify(found), utc_ms())
        line = f"{found.plan.id}  {state.word}  {state.progress_text}"
        if line != reported:
            run.reporter.event("REPLAY", line)
            reported = line
        if state.word != "replaying":
            return found.plan.id
        pause(_READ_EVERY_S)
        found = engine.ledger.read(found.plan.id, found.offset)


def show_plans(run: Invocation, engine: CatchupEngine, groups: Sequence[str]) -> tuple[VerifiedPlan, ...]:
    """All plans, or those of some groups, in the order in which they are shown."""
    at_ms = utc_ms()
    states = (
        VerifiedPlan(found, verify(found), at_ms)
        for found in list_plans(run, engine).plans
        if not groups or found.plan.group in groups
    )
    shown = tuple(sorted(states, key=list_order))
    if not shown:
        of = f" of {', '.join(groups)}" if groups else ""
        run.reporter.note(f"no catch-up{of} in {engine.ledger.topic}")
    return shown


def show_plan(run: Invocation, engine: CatchupEngine, text: str) -> PlanStatus:
    """One plan, including records that are lost now. Raises as ``find_plan``."""
    return plan_status(run, engine, find_plan(run, engine, text, finished=True))


def plan_status(
    run: Invocation,
    engine: CatchupEngine,
    found: PlanSnapshot,
    *lines: str,
    executed: bool = False,
    refused: KgroupError | None = None,
) -> PlanStatus:
    """A plan as it is now; ``lines`` and ``refused`` as in PlanStatus."""
    state = VerifiedPlan(found, engine.verification(found), utc_ms())
    gone = why_undeliverable(engine, found)
    return PlanStatus(state, commands(run, found), gone, executed, lines, refused)
