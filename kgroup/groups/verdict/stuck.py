"""The lines STUCK, BACK and TXN: partitions that are not read, were rewound, or are blocked by a transaction."""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.groups.lag.evidence import BlockingTransaction, Churn, Isolation, LagEvidence, Source
from kgroup.groups.lag.report import GroupLag, PartitionLag
from kgroup.groups.lag.status import LagStatus
from kgroup.groups.lag.words import rate_words
from kgroup.support.durations import format_duration
from kgroup.support.units import human_count, plural

CRASH_LOOP_GENERATIONS = 5
_LONG_MS = 60_000


def stuck_of(report: GroupLag) -> list[PartitionLag]:
    """Partitions that are not read at all, the longest first; those with an unknown time come before all others."""
    found = [p for p in report.partitions if p.status is not None and p.status.is_stuck]
    return sorted(found, key=lambda p: (p.status_result.since_ms or 0, -(p.lag or 0)))


def stuck_line(report: GroupLag, evidence: LagEvidence) -> str | None:
    """The stuck partition and since when; ``unknown: ...`` if no status is known, None if no partition is stuck."""
    stuck = stuck_of(report)
    lagging = [p for p in report.partitions if p.lag]
    unknown = [p for p in lagging if p.status is None]
    if not stuck:
        if not unknown:
            return None
        why = unknown[0].status_result.why or evidence.why_unknown(Source.COMMITS)
        of = "" if len(unknown) == len(lagging) else f" on {len(unknown)} of {len(lagging)} lagging partitions"
        return f"unknown{of}: {why}"
    beside = f"; unknown on {plural(len(unknown), 'partition')}" if unknown else ""
    if len(stuck) == len(report.partitions) > 1:
        how = _how(stuck[0], report.now_ms, report.total.rates.incoming)
        return f"all {len(stuck)}: {how}{_churned(evidence.churn)}"
    first = stuck[0]
    more = f"; {_more(stuck[1:], report.now_ms)}" if len(stuck) > 1 else ""
    how = _how(first, report.now_ms, first.rates.incoming)
    return f"{first.where} at {first.first}: {how}{more}{beside}"


def is_crash_loop(report: GroupLag, churn: Churn | None) -> bool:
    """Whether members keep joining without a commit: at least five generations since the last commit."""
    if churn is None or churn.generations < CRASH_LOOP_GENERATIONS:
        return False
    lagging = [p for p in report.partitions if p.lag]
    return bool(lagging) and all(p.status is LagStatus.STOP for p in lagging)


def _how(row: PartitionLag, now_ms: int, incoming: float | None) -> str:
    judged = row.status_result
    age = "" if judged.since_ms is None else format_duration(max(0, now_ms - judged.since_ms) // 1000)
    age = f"over {age}" if judged.at_least and age else age
    arriving = f" while {rate_words(incoming)} arrive" if incoming else ""
    if row.status is LagStatus.STALL:
        since = f" in {age}" if age else ""
        return f"{plural(judged.repeats or 0, 'commit')} of the same offset{since}{arriving}"
    return f"no commit for {age}{arriving}" if age else f"no commit{arriving}"


def _churned(churn: Churn | None) -> str:
    if churn is None or not churn.generations:
        return ""
    longest = format_duration(churn.longest_ms / 1000)
    return f"; {plural(churn.generations, 'generation')} since, longest {longest}"


def _more(rows: Sequence[PartitionLag], now_ms: int) -> str:
    named = ", ".join(row.where for row in rows[:2])
    rest = f" and {len(rows) - 2} more" if len(rows) > 2 else ""
    return f"also {named}{rest}"


def back_line(report: GroupLag) -> str | None:
    """The BACK line of rewound partitions: ``orders:3 went back by 1204 offsets 4m ago``; None if there are none."""
    rows = [p for p in report.partitions if p.status is LagStatus.REWIND]
    if not rows:
        return None
    row = max(rows, key=lambda p: p.status_result.back or 0)
    ago = format_duration(max(0, report.now_ms - (row.status_result.since_ms or report.now_ms)) // 1000)
    more = f"; {len(rows) - 1} more went back" if len(rows) > 1 else ""
    return f"{row.where} went back by {human_count(row.status_result.back or 0)} offsets {ago} ago{more}"


def held_back(report: GroupLag) -> PartitionLag | None:
    """The partition where an open transaction blocks the most records; None if there is none, or it was not read.

    Every transaction blocks its records for a moment. So a transaction younger than a minute does not count. One with
    an unknown start counts only if the lag is measured against the last stable offset.
    """
    rows = [p for p in report.partitions if p.held_back and _hangs(p, report)]
    return max(rows, key=lambda p: (p.open_transaction is not None, p.held_back or 0)) if rows else None


def _hangs(row: PartitionLag, report: GroupLag) -> bool:
    transaction = row.open_transaction
    if transaction is None or transaction.since_ms is None:
        return report.isolation is Isolation.READ_COMMITTED
    return report.now_ms - transaction.since_ms >= _LONG_MS


def transaction_line(report: GroupLag) -> str | None:
    """The TXN line: the offsets that read_committed consumers cannot read yet, and why; None if there are none."""
    row = held_back(report)
    if row is None:
        return None
    others = sum(bool(p.held_back) and _hangs(p, report) for p in report.partitions) - 1
    more = f"; {plural(others, 'other partition')} held back too" if others else ""
    whose = transaction_words(row.open_transaction, report.now_ms)
    return f"{human_count(row.held_back or 0)} offsets of {row.where} lie behind {whose}{more}"


def transaction_words(transaction: BlockingTransaction | None, now_ms: int) -> str:
    """A transaction in words: ``an open transaction of producer 4711 (pay-tx), begun 12m ago at 8812337``."""
    if transaction is None:
        return "an open transaction, of whom is not known"
    who = f"producer {transaction.producer_id}"
    if transaction.transactional_id:
        who += f" ({transaction.transactional_id})"
    ago = ""
    if transaction.since_ms is not None:
        over = "over " if transaction.at_least else ""
        ago = f" {over}{format_duration(max(0, now_ms - transaction.since_ms) // 1000)} ago"
    return f"an open transaction of {who}, begun{ago} at {transaction.start_offset}"
