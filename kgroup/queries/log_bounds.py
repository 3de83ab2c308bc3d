"""Options for reading groups from ``__consumer_offsets``: whether, as of which time, and how much at most."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Limits of a scan of ``__consumer_offsets``: a duration and a size, as typed."""

    log_budget: str | None = None
    log_bytes: str | None = None


@dataclass(frozen=True, slots=True)
class AsOf:
    """The time whose offsets are requested, as typed; None: now."""

    as_of: str | None = None


@dataclass(frozen=True, slots=True)
class FromLog(LogBounds):
    """Whether groups are read from ``__consumer_offsets`` instead of from their coordinators."""

    from_log: bool = False
