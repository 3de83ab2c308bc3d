"""The current time; functions that decide something take it as a parameter."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    return datetime.now(UTC)


def utc_ms() -> int:
    """The current time in ms since 1970, to be compared with Kafka's timestamps."""
    return round(utc_now().timestamp() * 1000)
