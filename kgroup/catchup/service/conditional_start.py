"""``catchup start`` with its conditions, next to other starts of the same group: what several pods call at once."""

from __future__ import annotations

import random
import time

from kgroup.catchup.ledger.ledger import PLAN_OPEN
from kgroup.catchup.ledger.view import PLAN_OVERLAPS
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.start import StartResult, start_now
from kgroup.catchup.service.start_condition import check_behind
from kgroup.catchup.service.start_plan import StartRequest
from kgroup.cluster.transactions import FENCED
from kgroup.groups.catchup.results import StartPlan
from kgroup.groups.catchup.start_condition import Unstarted, UnstartedReason
from kgroup.settings.model import Settings
from kgroup.support.errors import NOT_EMPTY, Refused
from kgroup.support.stdout_reader import pause

_OTHER_START = frozenset({PLAN_OPEN, PLAN_OVERLAPS, FENCED})
"""The refusals of a start while another one of the same group is under way."""
_OTHER_START_S = 30.0
"""How long that is waited for. A release takes about a second, or the brokers' initial rebalance delay."""
_RETRY_S = (0.2, 0.8)


def start_catchup(engine: CatchupEngine, settings: Settings, request: StartRequest) -> StartResult:
    """Plan; with ``execute``, release and replay. Without a sink it ends after the release.

    With ``--if-behind``, of several starts at once one makes the plan; the others wait for its release.
    """
    group, behind = request.group, request.condition.behind
    until_s: float | None = None
    while True:
        decided = check_behind(engine, request)
        if isinstance(decided, Unstarted):
            return _noted(engine, decided)
        if decided is not None and until_s is None:
            engine.reporter.note(f"{decided}: it is behind (--if-behind)")
        result, codes = _attempt(engine, settings, request)
        if request.condition.if_empty and NOT_EMPTY in codes and group is not None:
            result = Unstarted(group, UnstartedReason.NOT_EMPTY, f"{group} has members (--if-empty)")
        if isinstance(result, Unstarted):
            return _noted(engine, result)
        by_other_start = behind is not None and request.change.execute and codes & _OTHER_START
        if not by_other_start or (until_s is not None and time.monotonic() > until_s):
            if isinstance(result, Refused):
                raise result
            return result
        if until_s is None:
            engine.reporter.event("WAIT", f"another start of {group} is under way")
            until_s = time.monotonic() + _OTHER_START_S
        pause(random.uniform(*_RETRY_S))


def _noted(engine: CatchupEngine, unstarted: Unstarted) -> Unstarted:
    tell = engine.reporter.warn if unstarted.reason is UnstartedReason.LAG_UNKNOWN else engine.reporter.note
    tell(f"{unstarted.text}: nothing to do")
    return unstarted


def _attempt(
    engine: CatchupEngine, settings: Settings, request: StartRequest
) -> tuple[StartResult | Refused, frozenset[str]]:
    """The result of one attempt, and the codes of what prevents it now.

    One of its own: a raised PLAN_OPEN is about the plan that this attempt has written.
    """
    try:
        result = start_now(engine, settings, request)
    except Refused as error:
        return error, frozenset({error.code}) - {PLAN_OPEN}
    if not isinstance(result, StartPlan) or result.waits:
        return result, frozenset()
    if not result.gap.ranges and isinstance(decided := check_behind(engine, request), Unstarted):
        return decided, frozenset()  # another start released the group after it was found to be behind
    return result, frozenset(refusal.error.code for refusal in result.refusals)
