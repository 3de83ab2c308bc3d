"""The lines of a verdict that need evidence: LAG, STUCK, REWOUND, TXN, RATE and RETENTION."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from kgroup.groups import thresholds
from kgroup.groups.lag.evidence import (
    BlockingTransaction,
    EvidenceSource,
    GroupChurn,
    Isolation,
    LagEvidence,
    Retention,
    is_by_tool,
)
from kgroup.groups.lag.rates import LagTrend, Rates, rate_words, span_words
from kgroup.groups.lag.report import GroupLag, LagSum, PartitionLag
from kgroup.groups.lag.status import LagStatus
from kgroup.groups.timeline.steps import CrashLoop
from kgroup.groups.verdict.plain import lag_text
from kgroup.model.groups import Group
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.durations import format_duration
from kgroup.support.units import human_bytes, human_count, plural

LineSeverity = Literal["bad", "warn"]
"""``bad``: records are lost or not read now. ``warn``: they may be lost or not be read soon."""


class VerdictLine(msgspec.Struct, frozen=True):
    """A line that begins with a fixed upper-case word (LAG, STUCK, RATE, ...). ``style`` None: nothing unusual."""

    word: str
    text: str
    style: LineSeverity | None = None


def measured_line(group: Group, report: GroupLag, evidence: LagEvidence) -> str:
    """The LAG line of a measured group, with the age of the oldest unread record and the phantom offsets."""
    text = lag_text(group, [(p.lag, p.where) for p in report.partitions if p.lag is not None])
    if not report.total.lag:
        return text + _phantom(report)
    against = " below the last stable offset" if report.isolation is Isolation.READ_COMMITTED else ""
    return f"{text}{against}; {_age(report, evidence)}{_phantom(report)}"


def _age(report: GroupLag, evidence: LagEvidence) -> str:
    oldest = report.total.oldest
    if oldest is None or oldest.time_lag_ms is None:
        return f"age unknown: {evidence.why_unknown(EvidenceSource.TIME)}"
    where = "" if oldest is report.total.largest else f" on {oldest.where}"
    least = "at least " if report.total.time_lag_ms is None else ""
    return f"oldest unread record {least}{format_duration(oldest.time_lag_ms // 1000)}{where}"


def _phantom(report: GroupLag) -> str:
    phantom = sum(p.phantom for p in report.partitions)
    return f"; {human_count(phantom)} more offsets hold no record" if phantom else ""


def stuck_of(report: GroupLag) -> list[PartitionLag]:
    """Partitions that are not read at all, the longest first; those with an unknown time come before all others."""
    stuck = [p for p in report.partitions if p.status is not None and p.status.is_stuck]
    return sorted(stuck, key=lambda p: (p.status_result.since_ms or 0, -(p.lag or 0)))


def stuck_line(report: GroupLag, evidence: LagEvidence) -> str | None:
    """The stuck partition and since when; ``unknown: ...`` if no status is known, None if no partition is stuck."""
    stuck = stuck_of(report)
    lagging = [p for p in report.partitions if p.lag]
    unknown = [p for p in lagging if p.status is None]
    if not stuck:
        if not unknown:
            return None
        why = unknown[0].status_result.why or evidence.why_unknown(EvidenceSource.COMMITS)
        of = "" if len(unknown) == len(lagging) else f" on {len(unknown)} of {len(lagging)} lagging partitions"
        return f"unknown{of}: {why}"
    beside = f"; unknown on {plural(len(unknown), 'partition')}" if unknown else ""
    if len(stuck) == len(report.partitions) > 1:
        how = how_stuck(stuck[0], report.now_ms, _arrivals(report.total))
        return f"all {len(stuck)}: {how}{_churned(stuck[0], evidence.churn)}"
    first = stuck[0]
    more = f"; {_more(stuck[1:], report.now_ms)}" if len(stuck) > 1 else ""
    how = how_stuck(first, report.now_ms, _arrivals(first))
    return f"{first.where} at {first.first}: {how}{more}{beside}"


def unsubscribed_in(report: GroupLag) -> list[str]:
    """The topics with unread records that no member subscribes to, the largest lag first."""
    left = [topic for topic in report.topics if topic.topic is not None and topic.status is LagStatus.UNSUBSCRIBED]
    return [str(topic.topic) for topic in sorted(left, key=lambda topic: -(topic.lag or 0))]


def crash_loops_in(report: GroupLag, evidence: LagEvidence) -> tuple[CrashLoop, ...]:
    """The crash loops of the log whose record is unread, and was before the owners went. The first has most owners."""
    lagging = {p.partition.tp: p for p in report.partitions if p.lag}
    found = []
    for suspect in evidence.crash_loops:
        row = lagging.get(suspect.tp)
        if row is None or row.partition.commit is None or suspect.offset not in (None, row.partition.commit.offset):
            continue
        loop = suspect.since(None if row.time_lag_ms is None else report.now_ms - row.time_lag_ms)
        if loop is not None:
            found.append(replace(loop, offset=row.partition.commit.offset))
    return tuple(found)


def _arrivals(row: PartitionLag | LagSum) -> Rates | None:
    """The rates over the newest span; None if nothing arrived in it, whatever arrived before, or if that is unknown."""
    newest = row.spans[0] if row.spans else row.rates
    return newest if newest.incoming else None


def how_stuck(row: PartitionLag, now_ms: int, arrivals: Rates | None) -> str:
    """``no commit for 22m while 1.8/s (1m) arrive``: a stuck partition in words."""
    result = row.status_result
    age = "" if result.since_ms is None else format_duration(max(0, now_ms - result.since_ms) // 1000)
    age = f"over {age}" if result.at_least and age else age
    arriving = f" while {rate_words(arrivals.incoming or 0)}{span_words(arrivals.span_ms)} arrive" if arrivals else ""
    if row.status is LagStatus.STALL:
        since = f" in {age}" if age else ""
        return f"{plural(result.repeats or 0, 'commit')} of the same offset{since}{arriving}"
    if row.status is LagStatus.NO_READER:
        return f"no reader for {age}{arriving}" if age else f"no reader{arriving}"
    return f"no commit for {age}{arriving}" if age else f"no commit{arriving}"


def _churned(row: PartitionLag, churn: GroupChurn | None) -> str:
    """The generations since the last commit; that in which the members left is none."""
    if churn is None or churn.generations <= (row.status is LagStatus.NO_READER):
        return ""
    longest = format_duration(churn.longest_ms / 1000)
    return f"; {plural(churn.generations, 'generation')} since, longest {longest}"


def _more(rows: Sequence[PartitionLag], now_ms: int) -> str:
    named = ", ".join(row.where for row in rows[:2])
    rest = f" and {len(rows) - 2} more" if len(rows) > 2 else ""
    return f"also {named}{rest}"


def back_line(report: GroupLag) -> str | None:
    """The REWOUND line: ``orders:3 was rewound by 1204 offsets 4m ago``; None if no partition was rewound."""
    rows = [p for p in report.partitions if p.status_result.back]
    if not rows:
        return None
    row = max(rows, key=lambda p: p.status_result.back or 0)
    ago = format_duration(max(0, report.now_ms - (row.status_result.back_at_ms or report.now_ms)) // 1000)
    more = f"; {len(rows) - 1} more rewound" if len(rows) > 1 else ""
    back = row.status_result.back or 0
    offsets = "1 offset" if back == 1 else f"{human_count(back)} offsets"
    return f"{row.where} was rewound by {offsets} {ago} ago{more}"


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
    return report.now_ms - transaction.since_ms >= thresholds.LONG_TRANSACTION.value


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
        return "an open transaction of an unknown producer"
    producer = f"producer {transaction.producer_id}"
    if transaction.transactional_id:
        producer += f" ({transaction.transactional_id})"
    ago = ""
    if transaction.since_ms is not None:
        over = "over " if transaction.at_least else ""
        ago = f" {over}{format_duration(max(0, now_ms - transaction.since_ms) // 1000)} ago"
    return f"an open transaction of {producer}, begun{ago} at {transaction.start_offset}"


def rate_line(report: GroupLag, evidence: LagEvidence) -> str:
    """``in 4000/s, out 2300/s (10m): growing, does not catch up at this rate``; of how many partitions if not of all.

    Where the last minute and the last ten differ, both are shown: ``in 49/s (1m), 410/s (10m), out ...``.
    """
    total = report.total
    if total.rates.growth is not None:
        if spans := _unlike_spans(report):
            arriving = _with_spans([each.incoming for each in spans], spans)
            text = f"in {arriving}, out {_with_spans([each.outgoing for each in spans], spans)}"
        else:
            text = f"in {rate_words(total.rates.incoming or 0)}, out {rate_words(total.rates.outgoing or 0)}"
            text += span_words(total.rates.span_ms)
    else:
        text = _partial_rates(report, evidence)
        if text.startswith("unknown"):
            return text
    trend = _trend_text(report)
    return text + (f": {trend}" if trend else "")


def is_draining(report: GroupLag) -> bool:
    """Whether every partition keeps up or drains, and at least one drains."""
    return report.total.outlook.pace is LagTrend.DRAINING


def _partial_rates(report: GroupLag, evidence: LagEvidence) -> str:
    arriving = _known(report, lambda p: p.rates.incoming)
    read = _known(report, lambda p: p.rates.outgoing)
    if arriving is None and read is None:
        if report.total.missing is not None and all(p.lag is None for p in report.partitions):
            return f"unknown: {report.partitions[0].why}"
        return f"unknown: {evidence.unknown.get(EvidenceSource.COMMITS) or evidence.why_unknown(EvidenceSource.TIME)}"
    parts = [f"in {arriving or 'unknown'}", f"out {read or 'unknown'}"]
    if read is None:
        parts[1] += f" ({_why(report, evidence)})"
    return ", ".join(parts)


def _known(report: GroupLag, rate: Callable[[PartitionLag], float | None]) -> str | None:
    rates = [(value, p.rates.span_ms) for p in report.partitions if (value := rate(p)) is not None]
    if not rates:
        return None
    of = f" on {len(rates)} of {len(report.partitions)} partitions" if len(rates) < len(report.partitions) else ""
    spans = {span_ms for _, span_ms in rates}
    return rate_words(sum(value for value, _ in rates)) + span_words(spans.pop() if len(spans) == 1 else None) + of


def _unlike_spans(report: GroupLag) -> tuple[Rates, ...]:
    """The rates of the last minute and of the last ten, if all are known and one of them clearly differs; or none."""
    spans = report.total.spans
    if len(spans) < 2 or any(each.growth is None for each in spans):
        return ()
    pairs = ([each.incoming or 0.0 for each in spans], [each.outgoing or 0.0 for each in spans])
    return (
        spans
        if any(max(rates) - min(rates) > thresholds.UNLIKE_RATES.value / 100 * max(rates) for rates in pairs)
        else ()
    )


def _with_spans(rates: Sequence[float | None], spans: Sequence[Rates]) -> str:
    """``49/s (1m), 410/s (10m)``; ``0`` if all are 0."""
    if not any(rates):
        return "0"
    return ", ".join(
        rate_words(rate or 0.0) + span_words(each.span_ms) for rate, each in zip(rates, spans, strict=True)
    )


def _why(report: GroupLag, evidence: LagEvidence) -> str:
    if EvidenceSource.COMMITS in evidence.unknown:
        return evidence.unknown[EvidenceSource.COMMITS]
    if any((facts := evidence.partitions.get(p.partition.tp)) and is_by_tool(facts) for p in report.partitions):
        return "a reset or a release committed last"
    return next((p.status_result.why for p in report.partitions if p.status_result.why), "too few commits")


def _trend_text(report: GroupLag) -> str | None:
    total = report.total
    growth = total.rates.growth
    match total.outlook.pace:
        case LagTrend.KEEPS_UP:
            return "keeps up" if total.lag or total.missing else "nothing unread"
        case LagTrend.DRAINING:
            return f"draining, catches up in {format_duration(round(total.outlook.seconds or 0))} {_at_rate(report)}"
        case LagTrend.UNKNOWN:
            return None
        case LagTrend.NOT_AT_THIS_RATE if total.status is LagStatus.NO_READER:
            return "no reader"
        case LagTrend.NOT_AT_THIS_RATE:
            if growth is not None and growth < 0 and not total.rates.is_even:
                late = [p for p in report.partitions if p.outlook.pace is LagTrend.NOT_AT_THIS_RATE]
                who = f"{late[0].where} does" if len(late) == 1 else f"{late[0].where} and {len(late) - 1} more do"
                return f"shrinking, but {who} not catch up {_at_rate(report)}"
            how = "" if growth is None else "flat, " if total.rates.is_even else "growing, "
            return f"{how}does not catch up {_at_rate(report)}"


def _at_rate(report: GroupLag) -> str:
    """``at this rate``; where two are shown, at which one: ``at the 1m rate``."""
    span_ms = report.total.rates.span_ms
    if span_ms is None or not _unlike_spans(report):
        return "at this rate"
    return f"at the {format_duration(span_ms // 1000)} rate"


class RetentionVerdict(msgspec.Struct, frozen=True):
    """The retention left of the partition whose unread records are deleted first.

    ``left_ms`` is 0 if that can happen at any moment; None if retention deletes none, or the time is unknown.
    ``too_late`` is whether records will be deleted before the partition has caught up at the present rates.
    """

    text: str
    style: LineSeverity | None
    left_ms: int | None
    too_late: bool = False


def retention_verdict(report: GroupLag, evidence: LagEvidence) -> RetentionVerdict | None:
    """The retention left of the unread records; None if nothing is unread."""
    lagging = [p for p in report.partitions if p.lag]
    if not lagging:
        return None
    dated = [
        (p.retention_left.left_ms, p)
        for p in lagging
        if p.retention_left is not None and p.retention_left.left_ms is not None
    ]
    if not dated:
        return _safety_without_time(lagging, evidence)
    left_ms, first = min(dated, key=lambda pair: pair[0])
    retention = evidence.partitions[TopicPartition(first.partition.topic, first.partition.partition)].retention
    assert retention is not None
    unknown = sum(
        p.retention_left is None or (p.retention_left.left_ms is None and not p.retention_left.endless) for p in lagging
    )
    beside = f"; unknown on {unknown} of {len(lagging)} lagging partitions" if unknown else ""
    where = "the first unread record" + (f" of {first.where}" if len(report.partitions) > 1 else "")
    what = _what(retention, first)
    if left_ms == 0:
        return RetentionVerdict(f"{what} may delete {where} at any moment{beside}", "bad", 0, too_late=True)
    about = "about " if first.retention_left is not None and first.retention_left.by == "size" else ""
    text = f"{what} deletes {where} in {about}{format_duration(left_ms / 1000)}"
    late = _too_late(dated)
    if late is not None:
        left_of_late_ms, row = late
        when = f"catches up only in {format_duration(row.outlook.seconds or 0)}"
        place = "" if row is first else f"; {row.where} has {format_duration(left_of_late_ms / 1000)} left"
        text += f"{place}, {when} at this rate"
    style = _style(left_ms, late=late is not None)
    return RetentionVerdict(text + beside, style, left_ms, too_late=late is not None)


def _style(left_ms: int, *, late: bool) -> LineSeverity | None:
    if left_ms < thresholds.RETENTION_SOON.value:
        return "bad"
    return "warn" if late or left_ms < thresholds.RETENTION_CLOSE.value else None


def _too_late(dated: list[tuple[int, PartitionLag]]) -> tuple[int, PartitionLag] | None:
    """The first partition that drains too slowly. RATE and STUCK report those that never catch up."""
    draining = [(left_ms, p) for left_ms, p in dated if p.outlook.pace is LagTrend.DRAINING]
    late = [(left_ms, p) for left_ms, p in draining if (p.outlook.seconds or 0) * 1000 > left_ms]
    return min(late, key=lambda pair: pair[0]) if late else None


def _safety_without_time(lagging: list[PartitionLag], evidence: LagEvidence) -> RetentionVerdict:
    known = [p for p in lagging if p.retention_left is not None]
    if not known:
        return RetentionVerdict(f"unknown: {evidence.why_unknown(EvidenceSource.RETENTION)}", None, None)
    compacted = [p for p in known if p.retention_left is not None and p.retention_left.compacted]
    if compacted:
        topic = compacted[0].partition.topic
        return RetentionVerdict(
            f"{topic} is compacted: an unread record is deleted if its key has a newer one", None, None
        )
    if all(p.retention_left is not None and p.retention_left.endless for p in known):
        return RetentionVerdict("unread records are not deleted: retention has no limit", None, None)
    return RetentionVerdict(
        f"unknown: age of the first unread record: {evidence.why_unknown(EvidenceSource.TIME)}", None, None
    )


def _what(retention: Retention, first: PartitionLag) -> str:
    if first.retention_left is not None and first.retention_left.by == "size" and retention.limit_bytes is not None:
        return f"retention.bytes ({human_bytes(retention.limit_bytes)})"
    return f"retention ({format_duration((retention.time_ms or 0) / 1000)})"
