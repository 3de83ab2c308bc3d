"""The present moment; decisions get it passed in."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Now, with its zone."""
    return datetime.now(UTC)
