"""``kgroup catchup resume --all-pending``: all open plans, one after the other, and with ``--follow`` the next ones."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.replay import ReplayOptions
from kgroup.catchup.service.show import plan_status, summaries
from kgroup.catchup.service.start import ResumeRequest, resume_catchup
from kgroup.groups.catchup.pending_plans import PendingPlans, next_plan, pending_plans
from kgroup.groups.catchup.plan_state import SESSION, VerifiedPlan
from kgroup.groups.catchup.results import PlanStatus, ReplayedPlan
from kgroup.groups.catchup.takeover import SIGNED_OFF
from kgroup.settings.model import Settings
from kgroup.support.command_line import CommandLine
from kgroup.support.errors import SUPERSEDED, KgroupError
from kgroup.support.stdout_reader import pause

_LOOK_EVERY_S = 5.0
_AGAIN_AFTER_S = 300.0
"""When a plan that could not be finished is tried again: its target may be away, or a handler refuses a record."""
_APART_S = 1.0
"""Runs that begin together do not take the same plan at the same moment."""


class PendingRequest(msgspec.Struct, frozen=True):
    """``groups`` are those whose plans are continued, empty: all. ``line`` is the command line."""

    groups: Sequence[str]
    line: CommandLine
    replay: ReplayOptions
    follow: bool = False


def open_plans(engine: CatchupEngine, request: PendingRequest) -> PendingPlans:
    """The open plans now, as they would be continued."""
    states = summaries(engine, lambda head: head.may_be_open and (not request.groups or head.group in request.groups))
    return pending_plans(states, SESSION, has_destination=request.replay.sink is not None)


def note_left(engine: CatchupEngine, pending: PendingPlans) -> None:
    """Note each plan that is left out, and why."""
    for plan in pending.left:
        engine.reporter.note(f"{plan.plan_id} is left out: {plan.why}")


def resume_pending(
    engine: CatchupEngine, settings: Settings, request: PendingRequest
) -> Iterator[PlanStatus | ReplayedPlan]:
    """Continue each plan once; with ``follow`` also those to come, until a signal.

    The result of a plan that fails has its error, and the next one is taken. A plan on which another run works is left
    to it, and with ``follow`` taken if that run dies. One that failed is tried again after five minutes; one that
    ``catchup stop`` has stopped is not.
    """
    until_s: dict[str, float] = {}
    noted: set[str] = set()
    while True:
        pending = open_plans(engine, request)
        note_left(engine, replace(pending, left=tuple(one for one in pending.left if one.plan_id not in noted)))
        noted |= {one.plan_id for one in pending.left}
        now_s = time.monotonic()
        state = next_plan(pending, {plan_id for plan_id, at_s in until_s.items() if at_s > now_s})
        if state is None:
            if not request.follow:
                return
            pause(_LOOK_EVERY_S)
            continue
        again_s = time.monotonic() + _AGAIN_AFTER_S if request.follow else float("inf")
        plan_id = state.snapshot.plan.id
        until_s[plan_id] = again_s
        try:
            result = resume_catchup(engine, settings, _of_plan(state, request))
        except KgroupError as error:
            if error.code == SUPERSEDED:
                if _was_stopped(engine, state):
                    until_s[plan_id] = float("inf")
                elif request.follow:  # if that run dies, the plan is free within seconds
                    until_s[plan_id] = time.monotonic() + _LOOK_EVERY_S
                engine.reporter.note(f"{plan_id}: {error.message}")
                continue
            result = _failed(engine, state, error)
        if result is not None:
            yield result


def _of_plan(state: VerifiedPlan, request: PendingRequest) -> ResumeRequest:
    """The request for one plan: one with a destination keeps it."""
    options = request.replay
    if state.snapshot.delivery is not None:
        options = replace(options, sink=None, sink_options=None, order=None)
    return ResumeRequest(
        state.snapshot.plan.id, execute=True, line=request.line, replay=options, apart_s=random.uniform(0, _APART_S)
    )


def _was_stopped(engine: CatchupEngine, state: VerifiedPlan) -> bool:
    """Whether no run works on a plan that was taken from this one: ``catchup stop`` ended it."""
    try:
        now = engine.ledger.read(state.snapshot.plan.id, state.snapshot.offset, lenient=True)
    except KgroupError:
        return False
    return now.epoch is not None and now.epoch.seen_ms == SIGNED_OFF


def _failed(engine: CatchupEngine, state: VerifiedPlan, error: KgroupError) -> PlanStatus:
    """The plan now, with why it could not be continued. Raises ``error`` if the ledger cannot be read either."""
    try:
        now = engine.ledger.read(state.snapshot.plan.id, state.snapshot.offset, lenient=True)
        return plan_status(engine, now, refused=error)
    except KgroupError:
        raise error from None
