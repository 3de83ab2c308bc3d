"""This machine's clock and the brokers', and what follows where they differ. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kgroup.support.durations import format_duration
from kgroup.support.errors import Refused
from kgroup.support.instants import rfc3339

TOLERATED_MS = 10_000
"""What an answer may be under way, and clocks that are set by NTP may differ."""

CLOCK_SKEW = "clock-skew"


@dataclass(frozen=True, slots=True)
class Clocks:
    """This machine's clock and the brokers' at one moment, in ms since 1970.

    ``brokers_ms`` is the active controller's clock where ``exact``. Else it is the newest timestamp that a coordinator
    wrote, and the brokers' clock is there or later; None where that is not known either.
    """

    ours_ms: int
    brokers_ms: int | None
    exact: bool

    @property
    def certain_ms(self) -> int | None:
        """A moment that is past by both clocks; None where the brokers' is unknown."""
        if self.brokers_ms is None:
            return None
        if self.exact and abs(self.ours_ms - self.brokers_ms) <= TOLERATED_MS:
            return self.ours_ms
        return min(self.ours_ms, self.brokers_ms)

    @property
    def warning(self) -> str | None:
        """That they differ, where that is known."""
        if self.brokers_ms is None or (not self.exact and self.ours_ms >= self.brokers_ms):
            return None
        ahead_ms = self.ours_ms - self.brokers_ms
        if abs(ahead_ms) <= TOLERATED_MS:
            return None
        least = "" if self.exact else "at least "
        apart = f"{least}{format_duration(abs(ahead_ms) // 1000)} {'ahead of' if ahead_ms > 0 else 'behind'}"
        return (
            f"this machine's clock ({rfc3339(self.ours_ms)}) is {apart} the brokers' ({rfc3339(self.brokers_ms)}): "
            "ages and time lags are wrong by that"
        )

    def refusal(self, group: str, idle_s: float) -> Refused:
        """Why it cannot be known whether a group was idle for so long."""
        if self.brokers_ms is None:
            cause: tuple[str, ...] = ("The brokers' clock could not be read.",)
        elif self.exact:
            cause = (f"It is {rfc3339(self.brokers_ms)} for the brokers.",)
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
