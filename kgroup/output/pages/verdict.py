"""The verdict on a page: what follows from it (``->``), commands, and its lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kgroup.groups import thresholds
from kgroup.groups.lag.evidence import (
    BlockingTransaction,
    EvidenceSource,
    GroupChurn,
    Isolation,
    LagEvidence,
    is_by_tool,
)
from kgroup.groups.lag.past import STEP_MS, STEPS, LagPast, group_past
from kgroup.groups.lag.rates import LagTrend, Rates, rate_words, reading_rate, span_words
from kgroup.groups.lag.report import GroupLag, LagSum, PartitionLag
from kgroup.groups.lag.status import SHARES, LagStatus
from kgroup.groups.verdict.facts import held_back, holds_back, how_stuck, stuck_of
from kgroup.groups.verdict.group import GroupVerdict
from kgroup.groups.verdict.plain import lag_text, range_line
from kgroup.groups.verdict.shape import LagShape, OtherGroupsLag, Shape, shape_words, siblings_words
from kgroup.model.blocks import Block, Conclusion, LabelledLine, Text
from kgroup.model.groups import Group
from kgroup.model.record_times import unusable_words
from kgroup.output.pages.sparkline import sparkline
from kgroup.support.durations import format_duration
from kgroup.support.instants import short_time
from kgroup.support.units import human_count, plural, some_of

_QUIET_TOPICS = 2


def verdict_blocks(verdict: GroupVerdict, pending_lines: Sequence[str]) -> Iterator[Block]:
    """The conclusion, and what it follows from; ``pending_lines`` of catch-ups come after the LAG line."""
    if verdict.next is not None:
        yield Conclusion(verdict.next, verdict.commands)
    lag, *others = verdict_lines(verdict)
    yield lag
    yield from (LabelledLine("PENDING", line, "warn") for line in pending_lines)
    for line in others:
        yield line
        if line.word == "RATE" and (text := past_line(group_past(verdict.report, verdict.evidence))) is not None:
            yield LabelledLine("PAST", text)
    if verdict.next is None and verdict.commands:
        yield Text(tuple(f"   {command}" for command in verdict.commands))


def verdict_lines(verdict: GroupVerdict) -> Iterator[LabelledLine]:
    """The lines in order, of which LAG is the first."""
    group, report, evidence = verdict.group, verdict.report, verdict.evidence
    yield LabelledLine("LAG", measured_line(group, report, evidence))
    if (text := stuck_line(report, evidence)) is not None:
        if {row.status for row in stuck_of(report)} == {LagStatus.NO_READER}:
            yield LabelledLine("READER", text, "bad")
        else:
            yield LabelledLine("STUCK", text, None if text.startswith("unknown") else "bad")
    if verdict.record is not None and (text := verdict.record.doubt) is not None:
        yield LabelledLine("RECORD", text)
    if (text := back_line(report)) is not None:
        yield LabelledLine("REWOUND", text, "warn")
    if outside := [partition for partition in group.partitions if partition.out_of_range]:
        yield LabelledLine("RANGE", range_line(outside), "bad")
    if (text := transaction_line(report)) is not None:
        yield LabelledLine("TXN", text, "warn")
    if unusable := evidence.unusable_times:
        yield LabelledLine("CLOCK", unusable_words(unusable, report.now_ms))
    yield from _reading_lines(report, evidence)
    if verdict.safe is not None:
        yield LabelledLine("RETENTION", verdict.safe.text, verdict.safe.style)
    is_left = any(row.status is LagStatus.UNSUBSCRIBED and row.lag for row in report.partitions)
    if report.total.lag and not (is_left and verdict.shape.kind is LagShape.NONE):
        others = _others(evidence, verdict.shape, verdict.siblings)
        yield LabelledLine("SHAPE", f"{shape_words(verdict.shape, group)}; {others}")


def _reading_lines(report: GroupLag, evidence: LagEvidence) -> Iterator[LabelledLine]:
    if report.partitions:
        yield LabelledLine("RATE", rate_line(report, evidence) + _quiet(report, evidence))
    if evidence.uncommitted:
        yield LabelledLine("NEVER READ", never_read_line(evidence))


def _others(evidence: LagEvidence, shape: Shape, siblings: OtherGroupsLag | None) -> str:
    if siblings is None:
        return f"other groups unknown: {evidence.why_unknown(EvidenceSource.SIBLINGS)}"
    return siblings_words(siblings, too=bool(shape.behind))


def measured_line(group: Group, report: GroupLag, evidence: LagEvidence) -> str:
    """The LAG line of a measured group, with the age of the oldest unread record and the phantom offsets."""
    text = lag_text(group, [(p.lag, p.where) for p in report.partitions if p.lag is not None])
    if report.at_most is not None:
        text = f"at most {text} ({report.at_most})"
    if not report.total.lag:
        return text + _phantom(report)
    against = " below the last stable offset" if report.isolation is Isolation.READ_COMMITTED else ""
    return f"{text}{against}; {_age(report, evidence)}{_phantom(report)}"


def _age(report: GroupLag, evidence: LagEvidence) -> str:
    oldest = report.total.oldest
    most_ms = report.total.time_lag_at_most_ms
    if most_ms is not None:
        return f"oldest unread record at most {format_duration(most_ms // 1000)}"
    if oldest is None or oldest.time_lag_ms is None:
        if all(row.status is LagStatus.UNSUBSCRIBED for row in report.partitions if row.lag):
            return "only of topics that the group has left"
        return f"age unknown: {evidence.why_unknown(EvidenceSource.TIME)}"
    where = "" if oldest is report.total.largest else f" on {oldest.where}"
    least = "at least " if report.total.time_lag_ms is None else ""
    return f"oldest unread record {least}{format_duration(oldest.time_lag_ms // 1000)}{where}"


def _phantom(report: GroupLag) -> str:
    phantom = sum(p.phantom for p in report.partitions)
    return f"; {human_count(phantom)} more offsets hold no record" if phantom else ""


def stuck_line(report: GroupLag, evidence: LagEvidence) -> str | None:
    """The stuck partition and since when; ``unknown: ...`` if no status is known, None if no partition is stuck."""
    stuck = stuck_of(report)
    lagging = [p for p in report.partitions if p.lag]
    unknown = [p for p in lagging if p.status is None and p.status_result.why != SHARES]
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
    return f"{first.where} at {first.stuck_at}: {how}{more}{beside}"


def _arrivals(row: PartitionLag | LagSum) -> Rates | None:
    """The rates over the newest span; None if nothing arrived in it, whatever arrived before, or if that is unknown."""
    newest = row.spans[0] if row.spans else row.rates
    return newest if newest.incoming else None


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


def transaction_line(report: GroupLag) -> str | None:
    """The TXN line: the offsets that read_committed consumers cannot read yet, and why; None if there are none."""
    row = held_back(report)
    if row is None:
        return None
    others = sum(bool(p.held_back) and holds_back(p, report) for p in report.partitions) - 1
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


def past_line(past: LagPast | None) -> str | None:
    """``lag ▁▂▃▅▇██ up to 12.3k, in ▃▃▃▃▃▃ up to 40/s, out ▃▃▃▃▁▁ up to 39/s (1h)``: steps of ten minutes.

    What is unknown is left out at the beginning. None if nothing is worth drawing.
    """
    if past is None or not past.is_curve:
        return None
    highest = human_count(max(lag for lag in past.lag if lag is not None))
    rates = (
        f"{word} {sparkline(counts).lstrip()} up to {rate_words(max(map(_or_0, counts)) * 1000 / STEP_MS)}"
        for word, counts in (("in", past.incoming), ("out", past.outgoing))
    )
    return f"lag {sparkline(past.lag).lstrip()} up to {highest}, {', '.join(rates)}{span_words(STEPS * STEP_MS)}"


def _or_0(count: int | None) -> int:
    return count or 0


def rate_line(report: GroupLag, evidence: LagEvidence) -> str:
    """``in 4000/s, out 2300/s (10m): growing, does not catch up at this rate``; of how many partitions if not of all.

    Where the last minute and the last ten differ, both are shown: ``in 49/s (1m), 410/s (10m), out ...``.
    """
    total = report.total
    if (last := _last_reading(report, evidence)) is not None:
        arrives = rate_words(total.rates.incoming or 0) + span_words(total.rates.span_ms)
        if spans := _unlike_spans(report):
            arrives = _with_spans([each.incoming for each in spans], spans)
        text = f"in {arrives}, out 0 now, {last}"
    elif total.rates.growth is not None:
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


def _last_reading(report: GroupLag, evidence: LagEvidence) -> str | None:
    """``95/s until 1m ago``: how fast a group read that has lost its reader since, in the time that rates are of."""
    if report.total.status is not LagStatus.NO_READER or report.total.rates.incoming is None:
        return None
    known = [known for p in report.partitions if (known := evidence.partitions.get(p.partition.tp)) and known.commits]
    last_ms = max((each.commits[-1].timestamp_ms for each in known), default=0)
    rates = [reading_rate(each.commits) for each in known]
    per_s = sum(rate for rate in rates if rate is not None)
    if not per_s or None in rates or report.now_ms - last_ms >= thresholds.RATE_SPAN.value:
        return None
    return f"{rate_words(per_s)} until {format_duration((report.now_ms - last_ms) // 1000)} ago"


def _quiet(report: GroupLag, evidence: LagEvidence) -> str:
    """``; nothing arrives on clicks since 03:12:40Z``: the topics on which nothing does, of several their names."""
    texts = [
        f"nothing arrives{'' if len(report.topics) == 1 else f' on {each.topic}'} since "
        f"{short_time(each.since_ms, report.now_ms)}"
        for each in sorted(evidence.quiet, key=lambda each: -each.since_ms)
    ]
    more = [plural(len(texts) - _QUIET_TOPICS, "more quiet topic")] if len(texts) > _QUIET_TOPICS else []
    return "".join(f"; {text}" for text in (*texts[:_QUIET_TOPICS], *more))


def never_read_line(evidence: LagEvidence) -> str:
    """``audit:2 and audit:3 hold 1.20k offsets, and the group has no commit there``."""
    rows = sorted(evidence.uncommitted, key=lambda row: -row.offsets)
    count = human_count(sum(row.offsets for row in rows))
    named = some_of([str(row.tp) for row in rows])
    return f"{named} {'holds' if len(rows) == 1 else 'hold'} {count} offsets, and the group has no commit there"


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
    why = next((p.status_result.why for p in report.partitions if p.status_result.why not in (None, SHARES)), None)
    counted = any(p.partition.counted is not None for p in report.partitions)
    return why or ("a share group commits nothing" if counted else "too few commits")


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
            if total.rates.is_even and all(p.status in (LagStatus.OK, None) for p in report.partitions if p.lag):
                return "flat, read as fast as records arrive"
            how = "" if growth is None else "flat, " if total.rates.is_even else "growing, "
            return f"{how}does not catch up {_at_rate(report)}"


def _at_rate(report: GroupLag) -> str:
    """``at this rate``; where two are shown, at which one: ``at the 1m rate``."""
    span_ms = report.total.rates.span_ms
    if span_ms is None or not _unlike_spans(report):
        return "at this rate"
    return f"at the {format_duration(span_ms // 1000)} rate"
