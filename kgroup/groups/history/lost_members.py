"""The last member that went in silence while others still work: information, as others have its partitions. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from kgroup.groups.thresholds import STORM_WINDOW
from kgroup.groups.timeline.steps import Cause, HistoryStep, StepKind
from kgroup.support.durations import format_duration
from kgroup.support.instants import short_time
from kgroup.support.units import some_of


class LostMember(msgspec.Struct, frozen=True):
    """A member whose session ended, by its silence; ``heirs`` got partitions then."""

    name: str
    at_ms: int
    session_ms: int
    heirs: tuple[str, ...]

    def words(self, now_ms: int) -> str:
        after = f"; {some_of(self.heirs)} took its partitions over" if self.heirs else ""
        return (
            f"{self.name} left: its session ended at {short_time(self.at_ms, now_ms)} (no heartbeat for "
            f"{format_duration(self.session_ms / 1000)}): it died, hung or lost the network, or closed after as long a "
            f"silence{after}"
        )


def lost_member(steps: Sequence[HistoryStep], now_ms: int) -> LostMember | None:
    """The last one of the last ten minutes that is not back; None without one, or while the group has no members.

    Nor is one of the consumer protocol found, whose session is not in the log.
    """
    here = {present.name for present in steps[-1].members} if steps else set()
    if not here:
        return None
    found = None
    for before, step in pairwise(steps):
        if step.kind is not StepKind.REBALANCE or step.at_ms <= now_ms - STORM_WINDOW.value:
            continue
        expired = {name for reason in step.reasons if reason.cause is Cause.SESSION_EXPIRED for name in reason.members}
        for present in before.members:
            if present.name in expired - here and present.session_ms is not None:
                had = frozenset(present.partitions or ())
                heirs = tuple(other.name for other in step.members if had.intersection(other.partitions or ()))
                found = LostMember(present.name, step.at_ms, present.session_ms, heirs)
    return found
