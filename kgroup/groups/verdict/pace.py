"""The RATE line: arriving and read records per second, and whether the group will catch up."""

from __future__ import annotations

from collections.abc import Callable

from kgroup.groups.lag.evidence import LagEvidence, Source
from kgroup.groups.lag.rates import LagTrend
from kgroup.groups.lag.report import GroupLag, PartitionLag
from kgroup.groups.lag.words import rate_words
from kgroup.support.durations import format_duration


def rate_line(report: GroupLag, evidence: LagEvidence) -> str:
    """``in 4000/s, out 2300/s: growing, never caught up at this rate``, and of how many partitions if not of all."""
    arriving = _known(report, lambda p: p.rates.incoming)
    read = _known(report, lambda p: p.rates.outgoing)
    if arriving is None and read is None:
        if report.total.missing is not None and all(p.lag is None for p in report.partitions):
            return f"unknown: {report.partitions[0].why}"
        return f"unknown: {evidence.unknown.get(Source.COMMITS) or evidence.why_unknown(Source.TIME)}"
    parts = [f"in {arriving or 'unknown'}", f"out {read or 'unknown'}"]
    if read is None:
        parts[1] += f" ({_why(report, evidence)})"
    goes = _going(report)
    return ", ".join(parts) + (f": {goes}" if goes else "")


def is_draining(report: GroupLag) -> bool:
    """Whether every partition keeps up or drains, and at least one drains."""
    return report.total.outlook.pace is LagTrend.DRAINING


def _known(report: GroupLag, rate: Callable[[PartitionLag], float | None]) -> str | None:
    found = [value for p in report.partitions if (value := rate(p)) is not None]
    if not found:
        return None
    of = f" on {len(found)} of {len(report.partitions)} partitions" if len(found) < len(report.partitions) else ""
    return rate_words(sum(found)) + of


def _why(report: GroupLag, evidence: LagEvidence) -> str:
    if Source.COMMITS in evidence.unknown:
        return evidence.unknown[Source.COMMITS]
    return next((p.status_result.why for p in report.partitions if p.status_result.why), "too few commits")


def _going(report: GroupLag) -> str | None:
    total = report.total
    growth = total.rates.growth
    match total.outlook.pace:
        case LagTrend.KEEPS_UP:
            return "keeps up" if total.lag or total.missing else "nothing unread"
        case LagTrend.DRAINING:
            return f"draining, caught up in {format_duration(round(total.outlook.seconds or 0))} at this rate"
        case LagTrend.UNKNOWN:
            return None
        case LagTrend.NEVER:
            if growth is not None and growth < 0 and not total.rates.is_even:
                never = [p for p in report.partitions if p.outlook.pace is LagTrend.NEVER]
                more = f" and {len(never) - 1} more" if len(never) > 1 else ""
                return f"shrinking, but {never[0].where}{more} never caught up at this rate"
            how = "never" if growth is None else "flat, never" if total.rates.is_even else "growing, never"
            return f"{how} caught up at this rate"
