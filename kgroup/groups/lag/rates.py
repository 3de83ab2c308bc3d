"""How fast records arrive and are read, whether the lag grows, and when it is gone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kgroup.groups.lag.log_ends import LogEnds
from kgroup.groups.lag.status import LagStatus, last_rewind, usual_pause_ms
from kgroup.model.groups import LoggedCommit

_LEAST_MS = 1000
_SPAN_MS = 600_000
_MINUTE_MS = 60_000
_FEW = 3
_EVEN = 0.02
_PAUSES = 2
_LONGEST_S = 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class Rates:
    """Offsets a second that arrive and that are committed; None where unknown."""

    incoming: float | None = None
    outgoing: float | None = None

    @property
    def growth(self) -> float | None:
        """How fast the lag grows, negative where it shrinks; None where either rate is unknown."""
        return None if self.incoming is None or self.outgoing is None else self.incoming - self.outgoing

    @property
    def is_even(self) -> bool:
        """Whether both are known and about the same: within two percent of the larger."""
        growth = self.growth
        return growth is not None and abs(growth) <= _EVEN * max(self.incoming or 0, self.outgoing or 0)


class LagTrend(StrEnum):
    """Where a lag is going."""

    KEEPS_UP = "keeps_up"
    DRAINING = "draining"
    NEVER = "never"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outlook:
    """Where a lag is going, and in how many seconds it is gone: 0 where it keeps up, None for never and unknown."""

    pace: LagTrend
    seconds: float | None = None


UNKNOWN_OUTLOOK = Outlook(LagTrend.UNKNOWN)


def rates_of(commits: Sequence[LoggedCommit], ends: LogEnds, status: LagStatus | None, now_ms: int) -> Rates:
    """Of the last ten minutes, but of the last one where that clearly says the other way.

    Worked: nothing came for eight minutes and 20 a second since, of which 15 are read. Over ten minutes that is 4 a
    second in and 15 out, and the lag seems to shrink; over the last one it grows by 5 a second.
    """
    usual = Rates(incoming_rate(ends, now_ms - _SPAN_MS), outgoing_rate(commits, status, now_ms - _SPAN_MS))
    since_ms = now_ms - _MINUTE_MS
    if sum(commit.timestamp_ms >= since_ms for commit in commits) < _FEW:
        return usual
    latest = Rates(incoming_rate(ends, since_ms), outgoing_rate(commits, status, since_ms))
    if usual.growth is None or latest.growth is None or (usual.growth < 0) == (latest.growth < 0):
        return usual
    # So few records may have come a little sooner or later by chance.
    seconds = _MINUTE_MS / 1000
    chance = 2 * math.sqrt(max(latest.incoming or 0.0, latest.outgoing or 0.0) * seconds)
    return latest if abs(latest.growth) * seconds > chance and not latest.is_even else usual


def incoming_rate(ends: LogEnds, since_ms: int) -> float | None:
    """Offsets a second that arrived since then, or since the first known moment; None with less than a second."""
    return ends.growth(since_ms, _LEAST_MS)


def outgoing_rate(commits: Sequence[LoggedCommit], status: LagStatus | None, since_ms: int = 0) -> float | None:
    """Offsets a second that were committed since then, or since the first of the commits, up to the last one.

    0 where the partition is stuck. Counted from the last rewind on: a reset is no reading. With nothing since, the
    last two tell. None with fewer than two commits or less than a second between them.
    """
    if status is not None and status.is_stuck:
        return 0.0
    forward = commits[last_rewind(commits) or 0 :]
    if len(forward) <= 1:
        return None
    first = max(0, min(sum(commit.timestamp_ms <= since_ms for commit in forward) - 1, len(forward) - 2))
    start, last = forward[first], forward[-1]
    start_ms = start.timestamp_ms
    if last.timestamp_ms > since_ms:
        # A commit long before tells where it still stood then: what was read was read since.
        start_ms = max(start_ms, min(since_ms - (usual_pause_ms(forward) or 0), last.timestamp_ms))
    passed_ms = last.timestamp_ms - start_ms
    return None if passed_ms < _LEAST_MS else (last.offset - start.offset) * 1000 / passed_ms


def keeps_up(lag: int, commits: Sequence[LoggedCommit], incoming: float | None) -> bool:
    """Whether the lag is no more than what arrives between two commits, twice over: nobody is ever closer.

    Worked: 3,000 records a second and a commit each 5 s make a lag of up to 30,000.
    """
    pause_ms = usual_pause_ms(commits)
    if incoming is None or pause_ms is None:
        return False
    return lag <= incoming * _PAUSES * pause_ms / 1000


def outlook(lag: int | None, rates: Rates, *, close: bool) -> Outlook:
    """When the lag is gone at these rates; ``close`` is whether it was gone a moment ago, or is never closer.

    Worked: a lag of 600, 10 a second arrive and 13 are read: 200 s. About as many read as arrive, or fewer: never.
    """
    if lag is None:
        return UNKNOWN_OUTLOOK
    if lag == 0 or close:
        return Outlook(LagTrend.KEEPS_UP, 0.0)
    if rates.outgoing == 0:
        return Outlook(LagTrend.NEVER)
    growth = rates.growth
    if growth is None:
        return UNKNOWN_OUTLOOK
    if growth >= 0 or rates.is_even or lag / -growth > _LONGEST_S:
        return Outlook(LagTrend.NEVER)
    return Outlook(LagTrend.DRAINING, lag / -growth)


def slowest(outlooks: Sequence[Outlook]) -> Outlook:
    """The outlook of all together: a group has caught up when its last partition has.

    One that never will decides; else one that is unknown, else the latest.
    """
    if not outlooks:
        return UNKNOWN_OUTLOOK
    for pace in (LagTrend.NEVER, LagTrend.UNKNOWN):
        if any(each.pace is pace for each in outlooks):
            return Outlook(pace)
    return max(outlooks, key=lambda each: each.seconds or 0.0)
