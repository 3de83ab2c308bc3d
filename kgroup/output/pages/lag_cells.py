"""Cells about lag that several pages show."""

from __future__ import annotations

from collections.abc import Mapping

from kgroup.groups.lag.report import LagRow, PartitionLag
from kgroup.groups.lag.status import LagStatus, StatusResult, status_words
from kgroup.model.blocks import Cell, Style, Styled
from kgroup.support.durations import format_duration

_STYLES: Mapping[LagStatus, Style] = {
    LagStatus.OK: "good",
    LagStatus.UNSUBSCRIBED: "warn",
    LagStatus.WARN: "warn",
    LagStatus.REWIND: "warn",
    LagStatus.STALL: "bad",
    LagStatus.STOP: "bad",
    LagStatus.NO_READER: "bad",
}


def status_cell(result: StatusResult, now_ms: int) -> Cell:
    """``STOP 38m`` in its colour; None if the status is unknown."""
    words = status_words(result, now_ms)
    return None if words is None or result.status is None else Styled(words, _STYLES[result.status])


def commit_age(row: PartitionLag, now_ms: int) -> str | None:
    """The age of the last commit; None if unknown."""
    return None if row.last_commit_ms is None else age_words(max(0, now_ms - row.last_commit_ms))


def time_lag_words(row: LagRow) -> str | None:
    """``18m``, or ``<=18m`` where it is an upper bound."""
    most = age_words(row.time_lag_at_most_ms)
    return age_words(row.time_lag_ms) if most is None else f"<={most}"


def age_words(age_ms: int | None) -> str | None:
    """``38m``; None if unknown."""
    return None if age_ms is None else format_duration(age_ms // 1000)
