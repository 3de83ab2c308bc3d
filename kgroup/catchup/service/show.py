"""Shows plans of the ledger, for display and for scripts."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kgroup.catchup.ledger.view import Wanted
from kgroup.catchup.service.delivery import delivery_words
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.lookup import find_plan, note_unread
from kgroup.groups.catchup.dead_letters import Redrive
from kgroup.groups.catchup.decisions import POSSIBLE_DUPLICATES
from kgroup.groups.catchup.delivered import undelivered
from kgroup.groups.catchup.model import PlanSnapshot
from kgroup.groups.catchup.plan_state import PlanCommands, VerifiedPlan, list_order
from kgroup.groups.catchup.replay_rate import ReplaySamples
from kgroup.groups.catchup.results import PlanStatus
from kgroup.groups.catchup.unrecorded_releases import range_words
from kgroup.groups.catchup.verification import verify
from kgroup.support.clock import utc_ms
from kgroup.support.errors import KgroupError, NotFound, Refused
from kgroup.support.hint import Hint

_PATIENCE_S = 1.0


def commands(snapshot: PlanSnapshot, *more: str) -> PlanCommands:
    """The command lines for this plan; resume has the options ``more``, and ``--to-topic TOPIC`` if no sink is set."""
    plan_id = snapshot.plan.id
    where = () if snapshot.delivery is not None else ("--to-topic", "TOPIC")

    def typed(*words: str) -> str:
        return Hint("{}", ("catchup", *words, "--execute"))

    return PlanCommands(
        resume=typed("resume", plan_id, *where, *more),
        cancel=typed("cancel", plan_id),
        abandon=typed("cancel", plan_id, "--abandon"),
        stop=typed("stop", plan_id),
        show=Hint("{}", ("catchup", "show", plan_id)),
        done=typed("done", plan_id, "--by", "TEXT"),
    )


def deliver_again(snapshot: PlanSnapshot, *more: str) -> str | None:
    """The command that delivers what is pending of a plan that cannot be continued; None if nothing is."""
    if not (ranges := undelivered(snapshot.plan, snapshot.progress)):
        return None
    where = ("--to-topic", "TOPIC") if snapshot.delivery is None else delivery_words(snapshot.delivery)
    if (redrive := redrive_of(snapshot)) is not None:
        return Hint("{}", ("catchup", "start", "--from-dead-letters", redrive.topic, *where, "--execute"))
    return Hint("{}", ("catchup", "start", *range_words(ranges), *where, *more, "--execute"))


def redrive_of(snapshot: PlanSnapshot) -> Redrive | None:
    """Which dead letters a plan delivers; None for any other plan."""
    return None if snapshot.delivery is None else Redrive.decode(snapshot.delivery.options)


def damaged_refusal(snapshot: PlanSnapshot) -> Refused:
    """Why a damaged plan cannot be continued, and how to deliver its gap and to end it."""
    assert snapshot.damage is not None
    close = f"{commands(snapshot).abandon}   closes the plan"
    again = deliver_again(snapshot, "--accept", POSSIBLE_DUPLICATES)
    if again is not None and redrive_of(snapshot) is not None:
        close = f"{close}; then {again}   delivers the dead letters that are left"
    elif again is not None:
        close = f"{again}   delivers what is pending, possibly again; then {close}"
    elif not snapshot.plan.ranges:
        close = (
            f"{Hint('{}', ('lag',))}   names the gap, if a group's commits still show it; then "
            f"{commands(snapshot).abandon}   deletes the rest of the plan"
        )
    hint = snapshot.damage.hint
    details = () if hint is None else (f"{hint[0].upper()}{hint[1:]}.",)
    return Refused(snapshot.damage.message, details=details, hint=close, code=snapshot.damage.code)


def resume_text(engine: CatchupEngine, snapshot: PlanSnapshot, *, cancel: bool = False) -> str:
    """``nothing is lost; to continue: ...``, or how to end the plan if its undelivered records are gone."""
    typed = commands(snapshot)
    if (gone := why_undeliverable(engine, snapshot)) is not None:
        return f"{gone.message}; to close the plan: {typed.abandon}"
    return f"nothing is lost; to continue: {typed.resume}" + (f"; to cancel it: {typed.cancel}" if cancel else "")


def why_undeliverable(engine: CatchupEngine, snapshot: PlanSnapshot) -> KgroupError | None:
    """Why no more records of an open plan can be delivered; None: they can, as far as is known."""
    if not snapshot.state.state.is_open or not undelivered(snapshot.plan, snapshot.progress):
        return None
    try:
        engine.require_sources(snapshot.plan)
    except (NotFound, Refused) as error:
        return error
    except KgroupError:
        pass
    return None


def stopped_text(engine: CatchupEngine, snapshot: PlanSnapshot, why: str | None = None, *, cancel: bool = False) -> str:
    """How to resume a plan whose replay ended early, and to ``cancel`` it; ``why`` if another run continues it.

    If the ledger was lost or damaged, it shows instead how to deliver the undelivered ranges with a new plan.
    """
    plan = snapshot.plan
    resume = f"{plan.id}: {why or resume_text(engine, snapshot, cancel=cancel)}"
    try:
        listing = engine.ledger.list(patience_s=_PATIENCE_S, wanted=lambda head: head.id == plan.id)
    except KgroupError:  # a ledger that cannot be read now may still exist
        return resume
    now = next((one for one in listing.plans if one.plan.id == plan.id), None)
    if now is not None and now.is_damaged and listing.knows(plan.id):
        damaged = damaged_refusal(now)
        return f"{plan.id}: {damaged.message}. {damaged.hint}"
    if listing.hidden is not None or listing.knows(plan.id):
        return resume
    return (
        f"{plan.id}: the ledger {engine.ledger.topic} no longer has this plan, so it cannot be continued. To deliver "
        f"what was undelivered when this run started, possibly again:  {deliver_again(snapshot)}"
    )


class FollowedPlan:
    """A plan that is read again and again; ``text`` is its id, or its group, which may have several plans later."""

    def __init__(self, engine: CatchupEngine, text: str) -> None:
        self._engine, self._text = engine, text
        self._snapshot: PlanSnapshot | None = None
        self._samples = ReplaySamples()

    def read(self) -> PlanStatus:
        """The plan now, with its rate. Only the ledger is read while a runner works on it, and the rest at its end.

        Raises as ``find_plan`` the first time, then as ``Ledger.read``.
        """
        if self._snapshot is None:
            self._snapshot = find_plan(self._engine, self._text, finished=True)
        else:
            self._snapshot = self._engine.ledger.read(self._snapshot.plan.id, self._snapshot.offset, lenient=True)
        state = VerifiedPlan(self._snapshot, verify(self._snapshot), utc_ms())
        self._samples = self._samples.after(state.now_ms, state.verification)
        status = PlanStatus(state, commands(self._snapshot), None, followed=True)
        if not status.is_replaying:
            return plan_status(self._engine, self._snapshot)
        return replace(status, rate=self._samples.rate(state.verification))


def show_plans(engine: CatchupEngine, names: Sequence[str]) -> tuple[VerifiedPlan, ...]:
    """All plans, or those of some groups or with some ids, in the order in which they are shown."""
    states = summaries(engine, lambda head: not names or head.group in names or head.id in names)
    shown = tuple(sorted(states, key=list_order))
    if not shown:
        of = f" of {', '.join(names)}" if names else ""
        engine.reporter.note(f"no catch-up{of} in {engine.ledger.topic}")
    return shown


def summaries(engine: CatchupEngine, wanted: Wanted | None = None) -> tuple[VerifiedPlan, ...]:
    """The plans that are wanted, oldest first, for a list (``VerifiedPlan.summary``); unreadable ones are reported."""
    at_ms = utc_ms()
    states, listing = engine.ledger.fold(
        lambda snapshot: VerifiedPlan(snapshot, verify(snapshot), at_ms).summary(), wanted=wanted
    )
    note_unread(engine, listing)
    return states


def show_plan(engine: CatchupEngine, text: str) -> PlanStatus:
    """One plan, including records that are lost now. Raises as ``find_plan``."""
    return plan_status(engine, find_plan(engine, text, finished=True))


def plan_status(
    engine: CatchupEngine,
    snapshot: PlanSnapshot,
    *lines: str,
    executed: bool = False,
    refused: KgroupError | None = None,
) -> PlanStatus:
    """A plan as it is now; ``lines`` and ``refused`` as in PlanStatus."""
    state = VerifiedPlan(snapshot, engine.verification(snapshot), utc_ms())
    gone = damaged_refusal(snapshot) if snapshot.is_damaged else why_undeliverable(engine, snapshot)
    return PlanStatus(state, commands(snapshot), gone, executed, lines, refused)
