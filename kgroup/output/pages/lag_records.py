"""The csv of ``kgroup lag``: one flat row per group, topic or partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kgroup.groups.lag.report import LagRow, LagSum, PartitionLag
from kgroup.model.blocks import Records

_HEADER = (
    "group",
    "topic",
    "partition",
    "state",
    "committed",
    "log_end",
    "lag",
    "time_lag_ms",
    "time_lag_at_least_ms",
    "last_commit_at_ms",
    "in_per_s",
    "out_per_s",
    "rate_span_ms",
    "caught_up_in_ms",
    "lag_status",
    "lag_status_began_at_ms",
)


def records_of(rows: Iterable[LagRow], state_of: Mapping[str, str]) -> Records:
    """Rows of one level as csv; ``state_of`` has the states of their groups."""
    return Records(_HEADER, (_record(row, state_of[row.group]) for row in rows))


def _record(row: LagRow, state: str) -> tuple[str | int | None, ...]:
    one = row if isinstance(row, PartitionLag) else None
    commit = one.partition.commit if one else None
    rates, seconds, status = row.rates, row.outlook.seconds, row.status_result
    return (
        row.group,
        one.partition.topic if one else row.topic if isinstance(row, LagSum) else None,
        one.partition.partition if one else None,
        state,
        commit.offset if commit else None,
        one.end if one else None,
        row.lag,
        row.time_lag_ms,
        row.time_lag_at_least_ms,
        one.last_commit_ms if one else None,
        _rate(rates.incoming),
        _rate(rates.outgoing),
        rates.span_ms,
        None if seconds is None else round(seconds * 1000),
        None if status.status is None else status.status.code,
        status.since_ms,
    )


def _rate(rate: float | None) -> str | None:
    return None if rate is None else f"{rate:.3f}"
