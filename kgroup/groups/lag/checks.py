"""Checks lag and status against bounds: one line per violation, for runbooks and cron (exit 8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from kgroup.groups.lag.report import GroupLag, LagRow, LagSum, PartitionLag, still_read
from kgroup.groups.lag.status import SHARES, LagStatus, status_words
from kgroup.support.durations import format_duration
from kgroup.support.errors import UsageError
from kgroup.support.units import percent


class LagBounds(msgspec.Struct, frozen=True):
    """The bounds of a check; None: not checked. A value equal to its bound is no violation.

    ``max_lag`` is in records, ``max_lag_time_s`` is the age of the oldest unread record, ``fail_on`` is the mildest
    status that is a violation: OK < WARN < REWIND < STALL < STOP < NO-READER.
    """

    max_lag: int | None = None
    max_lag_time_s: float | None = None
    fail_on: LagStatus | None = None

    @property
    def is_set(self) -> bool:
        """Whether at least one bound is given."""
        return self != LagBounds()


class Violation(msgspec.Struct, frozen=True):
    """A bound that does not hold, or cannot be checked, which does not pass."""

    subject: Annotated[str, "The group, topic or partition."]
    text: Annotated[str, "The bound and what was measured, for people."]
    known: Annotated[bool, "False if the bound cannot be checked."] = True

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}"


def parse_status(text: str, option: str = "--fail-on") -> LagStatus:
    """Parse ``stop`` into STOP. Raises UsageError if it is no status, and for OK, with which every check would fail.

    UNSUBSCRIBED is as bad as WARN, so it is no bound of its own.
    """
    name = text.strip().upper()
    statuses = {str(status): status for status in LagStatus if status not in (LagStatus.OK, LagStatus.UNSUBSCRIBED)}
    if name in statuses:
        return statuses[name]
    raise UsageError(f"{option} {text} is not a status", hint="Choose one of: warn, rewind, stall, stop, no-reader.")


def check_lag(rows: Iterable[LagRow], bounds: LagBounds, now_ms: int) -> tuple[Violation, ...]:
    """The violations of all rows, in their order; a row may have several.

    If the lag of a partition is unknown, each bound that the known partitions do not break is a violation too: a check
    must not pass without having seen all values. The lag of a topic that the group has left breaks no bound, since it
    grows for ever; its status does.
    """
    violations: list[Violation] = []
    for row in rows:
        read = still_read(row)
        if read is not None and bounds.max_lag is not None:
            violations += _lag(read, bounds.max_lag)
        if read is not None and bounds.max_lag_time_s is not None:
            violations += _lag_time(read, bounds.max_lag_time_s)
        if bounds.fail_on is not None:
            violations += _status(row, bounds.fail_on, now_ms)
    return tuple(violations)


def check_hidden(report: GroupLag) -> tuple[Violation, ...]:
    """A violation if the broker hides commits of the group, also if the rows are partitions or topics."""
    hidden = report.total.hidden
    if hidden is None:
        return ()
    return (Violation(report.group, f"commits are hidden ({hidden})", known=False),)


def _lag(row: LagRow, bound: int) -> list[Violation]:
    if row.lag is not None and row.lag > bound:
        return [_violation(row, f"lag {row.lag} is over {bound}{_most(row)}")]
    if row.missing is not None:
        return [_violation(row, f"lag unknown ({row.missing}), the limit is {bound}", known=False)]
    return []


def _lag_time(row: LagRow, bound_s: float) -> list[Violation]:
    bound = format_duration(bound_s)
    oldest = row.oldest if isinstance(row, LagSum) else row if isinstance(row, PartitionLag) else None
    if oldest is not None and oldest.time_lag_ms is not None and oldest.time_lag_ms > bound_s * 1000:
        age = format_duration(oldest.time_lag_ms / 1000)
        where = f" on {oldest.where}" if isinstance(row, LagSum) else ""
        return [_violation(row, f"oldest unread record{where} is {age} old, over {bound}")]
    if row.time_lag_ms is None:
        rows = row.partitions if isinstance(row, LagSum) else (row,) if isinstance(row, PartitionLag) else ()
        most_ms = row.time_lag_at_most_ms
        if most_ms is not None and most_ms <= bound_s * 1000:
            return []
        why = row.missing or next((p.time_why for p in rows if p.time_why), "the first unread record was not read")
        return [_violation(row, f"age of the oldest unread record unknown ({why}), the limit is {bound}", known=False)]
    return []


def _status(row: LagRow, mildest: LagStatus, now_ms: int) -> list[Violation]:
    status = row.status_result.status
    if status is None or status.severity < mildest.severity:
        # Even if one partition is known to be only slightly bad, an unknown one may be worse.
        # That a share group has none is no sign of trouble.
        unknown = [p.status_result for p in row.partitions if p.status is None] if isinstance(row, LagSum) else []
        unknown = [result for result in unknown if result.why != SHARES]
        hidden = row.hidden if isinstance(row, LagSum) else None
        known = status is not None or row.status_result.why == SHARES
        if known and not unknown and not hidden:
            return []
        why = next((result.why for result in (row.status_result, *unknown) if result.why), hidden or "nothing known")
        return [_violation(row, f"status unknown ({why}), better than {mildest} is required", known=False)]
    where = ""
    if isinstance(row, LagSum):
        bad = [p for p in row.partitions if p.status is status]
        where = f" on {bad[0].where}" + (f" and {len(bad) - 1} more" if len(bad) > 1 else "")
    return [_violation(row, f"{status_words(row.status_result, now_ms)}{where}")]


def _violation(row: LagRow, text: str, *, known: bool = True) -> Violation:
    return Violation(row.name, text, known)


def _most(row: LagRow) -> str:
    if not isinstance(row, LagSum) or row.largest is None or len(row.partitions) == 1:
        return ""
    return f", {percent(row.largest.lag or 0, row.lag or 0)} of it on {row.largest.where}"
