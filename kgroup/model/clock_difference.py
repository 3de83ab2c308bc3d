"""Compares this machine's clock with the brokers' clock. Pure."""

from __future__ import annotations

import msgspec

from kgroup.support.durations import format_duration
from kgroup.support.errors import Refused, refusal_code
from kgroup.support.instants import rfc3339

CLOCK_SKEW = refusal_code(
    "clock-skew",
    "delete --idle-for",
    "The group was idle long enough only by the clock of this machine, and the brokers do not show theirs. The user "
    "lacks DESCRIBE on the cluster, or the brokers are older than 3.3.",
    "Set the clock.",
)

TOLERATED_MS = 10_000
"""Allowed difference: the time an answer may be in transit, plus the usual difference of clocks set by NTP."""


class Clocks(msgspec.Struct, frozen=True):
    """This machine's clock and the brokers' at one moment, in ms since 1970.

    If ``exact``, ``brokers_ms`` is the active controller's clock. Otherwise it is the newest timestamp that a
    coordinator wrote: a lower bound of the brokers' clock. None if no timestamp is known either.
    """

    ours_ms: int
    brokers_ms: int | None
    exact: bool

    @property
    def now_ms(self) -> int:
        """The brokers' present time as far as it is known: this machine's, unless the clocks are known to differ."""
        return self.ours_ms if self.brokers_ms is None or self.warning is None else self.brokers_ms

    @property
    def certain_ms(self) -> int | None:
        """The latest moment that the brokers' clock has certainly passed; None if it is unknown."""
        return self.now_ms if self.exact else self.brokers_ms

    @property
    def warning(self) -> str | None:
        """A sentence about the difference; None if the clocks agree, or no difference can be shown."""
        if self.brokers_ms is None or (not self.exact and self.ours_ms >= self.brokers_ms):
            return None
        ahead_ms = self.ours_ms - self.brokers_ms
        if abs(ahead_ms) <= TOLERATED_MS:
            return None
        least = "" if self.exact else "at least "
        apart = f"{least}{format_duration(abs(ahead_ms) // 1000)} {'ahead of' if ahead_ms > 0 else 'behind'}"
        return (
            f"this machine's clock ({rfc3339(self.ours_ms)}) is {apart} the brokers' ({rfc3339(self.brokers_ms)}): "
            "ages and relative times count from the brokers' clock"
        )

    def refusal(self, group: str, idle_s: float) -> Refused:
        """The refusal ``clock-skew``: the clocks do not show that ``group`` was idle for ``idle_s`` seconds."""
        if self.brokers_ms is None:
            cause: tuple[str, ...] = ("The brokers' clock could not be read.",)
        else:
            cause = (
                f"The newest timestamp in __consumer_offsets is {rfc3339(self.brokers_ms)}.",
                "Either no group has committed anything since, or this machine's clock is ahead.",
            )
        return Refused(
            f"{group} was idle for {format_duration(idle_s)} only if this machine's clock is right "
            f"({rfc3339(self.ours_ms)})",
            details=cause,
            hint="Set the clock. To trust it as it is: --accept clock-skew",
            code=CLOCK_SKEW,
        )
