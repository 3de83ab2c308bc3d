"""Instants as text, RFC 3339 in UTC; a timestamp outside the calendar (broken bytes) becomes None."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, overload

TimeUnit = Literal["milliseconds", "seconds"]


def utc_datetime(timestamp_ms: int | None) -> datetime | None:
    """The time in UTC, None for None, a negative or an impossible timestamp."""
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None


@overload
def rfc3339(instant: datetime, unit: TimeUnit = ...) -> str: ...
@overload
def rfc3339(instant: int | None, unit: TimeUnit = ...) -> str | None: ...
def rfc3339(instant: int | datetime | None, unit: TimeUnit = "milliseconds") -> str | None:
    """``2026-11-21T03:02:11.250Z`` for a time or a timestamp in ms; None as in ``utc_datetime``.

    Documents have milliseconds; commands that are printed have seconds.
    """
    time = instant if isinstance(instant, datetime) else utc_datetime(instant)
    return None if time is None else f"{time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=unit)}Z"


def short_time(timestamp_ms: int, now_ms: int) -> str:
    """A time on a page: ``03:02:11Z`` if it is of today, otherwise as ``minute_text``."""
    time, now = utc_datetime(timestamp_ms), utc_datetime(now_ms)
    if time is not None and now is not None and time.date() == now.date():
        return f"{time:%H:%M:%SZ}"
    return minute_text(timestamp_ms)


def day_text(day: str) -> str:
    """``26 Nov 2026`` for the date ``2026-11-26``. Raises ValueError for another form."""
    date = datetime.fromisoformat(day)
    return f"{date.day} {date:%b %Y}"


def minute_text(timestamp_ms: int | None) -> str:
    """``2026-11-20 03:02Z``; ``an unknown time`` for None and outside the calendar."""
    time = utc_datetime(timestamp_ms)
    return "an unknown time" if time is None else f"{time:%Y-%m-%d %H:%MZ}"
