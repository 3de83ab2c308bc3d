"""``--yield-to lag-time=5s``: a replay is slower while its group's own consumers are late. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from kgroup.groups.catchup.chunks import RateLimit
from kgroup.groups.catchup.gap_request import parse_rate
from kgroup.groups.wait_conditions import LagTimeBelow, Observation, parse_conditions
from kgroup.support.errors import UsageError

MOST_HALVINGS = 6
"""At most a 64th: a group that is late for another reason must not stop its own replay."""

YIELD_TO = "yield-to"
"""The option in a plan's tuning."""

LIVE = ("rate", YIELD_TO)
"""The tuning that ``catchup throttle`` sets, also while a replay runs."""

OFF = "off"
"""``--yield-to off``: the rate does not depend on the group's lag. Also ``--rate off``: there is no limit."""


class Yielding(msgspec.Struct, frozen=True):
    """How far a replay has yielded: its rate was halved so often. ``time_lag_ms`` is what was observed last.

    ``full`` is the rate that was halved if there was no limit: bytes per second as measured then.
    """

    halvings: int = 0
    time_lag_ms: int | None = None
    full: float | None = None

    def after(self, time_lag_ms: int | None, bound_ms: int, bytes_per_s: float | None) -> Yielding:
        """Halve the rate if the group is late by more than the bound and by more than before; double it below.

        ``time_lag_ms`` None: unknown, nothing changes. ``bytes_per_s`` is how fast the replay is now. While that is 0
        or unknown, nothing is halved: the replay is not what makes the group late, and half of nothing would stop it.
        """
        halvings = self.halvings
        if time_lag_ms is None:
            return msgspec.structs.replace(self, time_lag_ms=None)
        if time_lag_ms <= bound_ms:
            halvings = max(0, halvings - 1)
        elif bytes_per_s and self.time_lag_ms is not None and time_lag_ms > self.time_lag_ms:
            halvings = min(MOST_HALVINGS, halvings + 1)
        full = self.full or bytes_per_s
        return Yielding(halvings, time_lag_ms, full if halvings else None)

    def limited(self, rate: RateLimit | None) -> RateLimit | None:
        """The rate in force, with ``rate`` as the user's limit, or None.

        20 MiB/s that was halved twice is 5 MiB/s. Without a limit, half of what was delivered when it yielded first.
        """
        if not self.halvings:
            return rate
        share = 0.5**self.halvings
        if rate is None:
            return None if self.full is None else RateLimit(bytes_per_s=max(1.0, self.full * share))
        records, size = rate.records_per_s, rate.bytes_per_s
        return RateLimit(None if records is None else records * share, None if size is None else size * share)


def rate_limit(tuning: Mapping[str, str]) -> RateLimit | None:
    """The rate limit in a plan's tuning; None: no limit, also for the text ``off``. Raises UsageError."""
    text = tuning.get("rate", OFF)
    return None if text == OFF else parse_rate(text)


def parse_yield(text: str) -> LagTimeBelow | None:
    """``lag-time=5s``; None for ``off``, and if nothing is set. Raises UsageError."""
    if text in ("", OFF):
        return None
    if text.partition("=")[0] == "lag-time":
        try:
            (condition,) = parse_conditions([text])
        except UsageError as error:
            raise UsageError(error.message.replace("--for", "--yield-to"), hint=error.hint) from error
        if isinstance(condition, LagTimeBelow):
            return condition
    raise UsageError(
        f"--yield-to {text}: unknown", hint="use --yield-to lag-time=5s, or --yield-to off to yield no more"
    )


def time_lag_ms(observation: Observation) -> int | None:
    """How late the group's consumers are: the age of its oldest unread record; None if it is unknown.

    0 without members: then no consumer is late because of the replay.
    """
    group = observation.group
    if group is None or group.state in ("Empty", "Dead"):
        return 0
    times = observation.unread_ms.values()
    oldest = min((ms for ms in times if ms is not None and ms >= 0), default=math.inf)
    if oldest == math.inf:
        return None if times else 0
    return max(0, observation.now_ms - int(oldest))
