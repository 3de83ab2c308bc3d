"""What became of a plan that another kgroup run has taken over, for the run that lost it. Pure."""

from __future__ import annotations

import msgspec

from kgroup.groups.catchup.model import PlanSnapshot, RunnerEpoch
from kgroup.support.instants import rfc3339

SIGNED_OFF = 0
"""The heartbeat of a runner that has ended: no run works on the plan any more."""


class Takeover(msgspec.Struct, frozen=True):
    """The run that took the plan over: ``text`` completes "cu-7f3a: ...".

    ``stopped`` is whether the plan is open and no run works on it now: ``catchup stop`` was executed.
    """

    text: str
    stopped: bool


def takeover_of(mine: RunnerEpoch, now: PlanSnapshot) -> Takeover | None:
    """The takeover from the runner ``mine``; None if the ledger shows none."""
    by = now.epoch
    if by is None or (by.number, by.who, by.at_ms) == (mine.number, mine.who, mine.at_ms):
        return None
    at = rfc3339(by.at_ms, "seconds") or "an unknown time"
    if not now.state.state.is_open:
        return Takeover(f"{by.who} took it over at {at}, and it is {now.state.state} now", stopped=False)
    if by.seen_ms == SIGNED_OFF:
        return Takeover(f"stopped by {by.who} at {at}", stopped=True)
    return Takeover(f"{by.who} took it over at {at} and continues it", stopped=False)
