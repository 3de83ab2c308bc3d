"""Whether groups are read out of ``__consumer_offsets``, as of which moment, and how much of it at most."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogBounds:
    """How much of ``__consumer_offsets`` a verb reads at most: a duration and a size as they were typed."""

    log_budget: str | None = None
    log_bytes: str | None = None


@dataclass(frozen=True, slots=True)
class AsOf:
    """Of which moment a group's offsets are meant."""

    as_of: str | None = None


@dataclass(frozen=True, slots=True)
class FromLog(LogBounds):
    """Whether groups are read out of ``__consumer_offsets`` instead of being asked for."""

    from_log: bool = False
