"""The present moment; decisions get it passed in."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Now, with its zone."""
    return datetime.now(UTC)


def utc_ms() -> int:
    """Now, in ms since 1970: what Kafka's timestamps are compared with."""
    return round(utc_now().timestamp() * 1000)
