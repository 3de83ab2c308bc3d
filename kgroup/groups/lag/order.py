"""The order and number of lag rows: ``--by``, ``--sort``, ``--top``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeVar

from kgroup.groups.lag.report import GroupLag, LagRow

_Row = TypeVar("_Row", bound=LagRow)


class RowLevel(StrEnum):
    """What one row shows (``--by``). Bounds are checked for each row of that level."""

    PARTITION = "partition"
    TOPIC = "topic"
    GROUP = "group"


class SortBy(StrEnum):
    """The sort order: worst status, largest lag, oldest record or fastest growth first, or by name."""

    STATUS = "status"
    LAG = "lag"
    TIME = "time"
    TREND = "trend"
    NAME = "name"


def rows_of(reports: Sequence[GroupLag], level: RowLevel) -> list[LagRow]:
    """The rows of ``level``, in the order of the reports."""
    match level:
        case RowLevel.PARTITION:
            return [row for report in reports for row in report.partitions]
        case RowLevel.TOPIC:
            return [row for report in reports for row in report.topics]
        case RowLevel.GROUP:
            return [report.total for report in reports]


def ordered(rows: Sequence[_Row], by: SortBy = SortBy.STATUS, top: int | None = None) -> list[_Row]:
    """The first ``top`` rows (None: all), worst first. Equal rows are sorted by lag, then keep their order.

    Rows with an unknown value come after bad rows and before good ones, because they may be either.
    """
    keys: dict[SortBy, Callable[[_Row], tuple[float, ...]]] = {
        SortBy.STATUS: _by_status,
        SortBy.LAG: lambda row: _known(row.lag),
        SortBy.TIME: lambda row: _known(row.behind_ms),
        SortBy.TREND: lambda row: _known(row.rates.growth),
    }
    if by is SortBy.NAME:
        found = sorted(rows, key=lambda row: row.name)
    else:
        key = keys[by]
        found = sorted(rows, key=lambda row: (*key(row), *_known(row.lag)))
    return found if top is None else found[:top]


def _by_status(row: LagRow) -> tuple[float, ...]:
    status = row.status_result.status
    return (-0.5 if status is None else -float(status.severity),)


def _known(value: float | None) -> tuple[float, ...]:
    """A sort key: the largest value first; unknown comes before 0 and negative values."""
    return (-0.5 if value is None else -value,)
