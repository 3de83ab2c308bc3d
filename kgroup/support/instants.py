"""Timestamps from a log as text; a timestamp outside the calendar (broken bytes) becomes None."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_datetime(timestamp_ms: int | None) -> datetime | None:
    """The datetime in UTC, None for None, a negative or an impossible timestamp."""
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def rfc3339(timestamp_ms: int | None) -> str | None:
    """The timestamp in RFC 3339, ``2026-11-21T03:02:11.250Z``; None as in ``utc_datetime``."""
    found = utc_datetime(timestamp_ms)
    return None if found is None else found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
