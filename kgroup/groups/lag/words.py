"""Short texts of status, rates and outlook, for columns and verdicts."""

from __future__ import annotations

from kgroup.groups.lag.rates import LagTrend, Outlook, Rates
from kgroup.groups.lag.status import StatusResult
from kgroup.support.durations import format_duration
from kgroup.support.units import human_count

_SLOW = 10


def status_words(judged: StatusResult, now_ms: int) -> str | None:
    """``OK``, ``STOP 38m``, ``STALL over 22m``; None if the status is unknown."""
    if judged.status is None:
        return None
    if judged.since_ms is None:
        return str(judged.status)
    age = format_duration(max(0, now_ms - judged.since_ms) // 1000)
    return f"{judged.status} {'over ' if judged.at_least else ''}{age}"


def rate_words(rate: float) -> str:
    """``4.00k/s``, ``17/s``, ``0.4/s``, ``0``; below 0.1 per second in records per minute or hour."""
    if rate <= 0:
        return "0"
    if rate >= _SLOW:
        return f"{human_count(round(rate))}/s"
    if rate >= 0.1:
        return f"{rate:.1f}".removesuffix(".0") + "/s"
    return f"{rate * 60:.1f}/min" if rate * 60 >= 0.1 else f"{rate * 3600:.2g}/h"


def trend_words(rates: Rates) -> str | None:
    """``+1.72k/s`` if the lag grows, ``-300/s`` if it shrinks, or ``flat``; None if a rate is unknown."""
    growth = rates.growth
    if growth is None:
        return None
    if rates.is_even:
        return "flat"
    return f"{'+' if growth > 0 else '-'}{rate_words(abs(growth))}"


def outlook_words(outlook: Outlook) -> str | None:
    """The time until the group has caught up: ``12m``, ``never``, ``0s`` if it keeps up; None if unknown."""
    match outlook.pace:
        case LagTrend.NEVER:
            return "never"
        case LagTrend.UNKNOWN:
            return None
        case _:
            return format_duration(round(outlook.seconds or 0))
