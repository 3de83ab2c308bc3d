"""Measures a group from its evidence: lag in records and time, status, rates and retention left per partition."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from kgroup.groups.lag.evidence import (
    EvidenceSource,
    FirstUnread,
    Isolation,
    LagEvidence,
    LogEnds,
    LogPoint,
    PartitionEvidence,
)
from kgroup.groups.lag.rates import (
    UNKNOWN_OUTLOOK,
    Rates,
    RetentionLeft,
    UnreadPart,
    incoming_rate,
    keeps_up,
    outlook,
    rates_of,
    retention_left,
)
from kgroup.groups.lag.report import GroupLag, PartitionLag, sum_partitions
from kgroup.groups.lag.status import DEFAULT_RULES, CommitReading, StatusResult, StatusRules, evaluate_status
from kgroup.model.groups import Group, LogRange, Partition
from kgroup.model.hidden_commits import hidden_words

_NOTHING = PartitionEvidence()
_RATE_SPAN_MS = 600_000
"""Arrivals are counted over about this time, for the present rate rather than the daily average."""


def measure_lag(group: Group, evidence: LagEvidence, rules: StatusRules = DEFAULT_RULES) -> GroupLag:
    """The lag of each partition, of each topic and of the group, as far as the evidence shows it."""
    partitions = tuple(
        _partition(
            group.name,
            each,
            evidence.partitions.get(each.tp, _NOTHING),
            evidence,
            rules,
        )
        for each in sorted(group.partitions, key=lambda p: (p.topic, p.partition))
    )
    return GroupLag(
        group=group.name,
        state=group.state,
        isolation=evidence.isolation,
        now_ms=evidence.now_ms,
        partitions=partitions,
        topics=tuple(
            sum_partitions(group.name, topic, list(of_topic))
            for topic, of_topic in groupby(partitions, key=lambda p: p.partition.topic)
        ),
        total=sum_partitions(group.name, None, partitions, hidden_words(group.hidden_commits)),
        hidden_commits=group.hidden_commits,
    )


@dataclass(frozen=True, slots=True)
class _Span:
    """The unread part [first, end). ``phantom`` counts the offsets before ``first`` that hold no record."""

    first: int
    end: int
    phantom: int

    @property
    def lag(self) -> int:
        return max(0, self.end - self.first)


def _partition(
    group: str, partition: Partition, known: PartitionEvidence, all_: LagEvidence, rules: StatusRules
) -> PartitionLag:
    why = _why_unknown(partition, known, all_.isolation)
    log = partition.log
    held_back = None if log is None or known.last_stable is None else max(0, log.end - known.last_stable)
    if why is not None or partition.commit is None or log is None:
        span, measured = None, _Measured(StatusResult(None, why=why), Rates(), None)
    else:
        span = _span(partition.commit.offset, log, known, all_.isolation)
        measured = _measure(span, log, known, all_, rules)
    lag = None if span is None else span.lag
    first_ms = measured.first_ms
    return PartitionLag(
        group=group,
        partition=partition,
        lag=lag,
        first=None if span is None else span.first,
        end=None if span is None else span.end,
        phantom=0 if span is None else span.phantom,
        held_back=held_back,
        open_transaction=known.open_transaction if held_back else None,
        time_lag_ms=0 if lag == 0 else None if first_ms is None else max(0, all_.now_ms - first_ms),
        last_commit_ms=known.commits[-1].timestamp_ms if known.commits else None,
        status_result=measured.status_result,
        rates=measured.rates,
        outlook=outlook(lag, measured.rates, close=measured.status_result.caught_up)
        if span is not None
        else UNKNOWN_OUTLOOK,
        retention_left=_retention_left(span, log, known, measured, all_.now_ms),
        leader=known.leader,
        why=why,
    )


@dataclass(frozen=True, slots=True)
class _Measured:
    """Status and rates of a partition. ``first_ms``: timestamp of the first unread record, None: unknown or none."""

    status_result: StatusResult
    rates: Rates
    first_ms: int | None


def _why_unknown(partition: Partition, known: PartitionEvidence, isolation: Isolation) -> str | None:
    if partition.error is not None:
        return partition.error
    if partition.log is None:
        return "its log could not be read"
    if partition.commit is None:
        return "nothing is committed"
    if partition.out_of_range == "ABOVE_END":
        # This is not a lag of 0: the topic was recreated or lost records, and the consumer will be reset.
        return "committed above the log end"
    if isolation is Isolation.READ_COMMITTED and known.last_stable is None:
        return "its last stable offset could not be read"
    return None


def _span(committed: int, log: LogRange, known: PartitionEvidence, isolation: Isolation) -> _Span:
    """The unread part, from the first offset that is known to hold a record.

    Example: committed 70, log [0, 120), and the first readable record from 70 on is 95: a lag of 25 and 25 phantom
    offsets. A first record below 70 was fetched before the last commit and is ignored.
    """
    end = log.end
    if isolation is Isolation.READ_COMMITTED and known.last_stable is not None:
        end = min(end, known.last_stable)
    start = max(committed, log.start)
    first_unread = known.first_unread
    first = start
    if first_unread is not None:
        first = (
            max(start, end) if first_unread.offset is None else min(max(start, first_unread.offset), max(start, end))
        )
    return _Span(first, end, first - start)


def _measure(span: _Span, log: LogRange, known: PartitionEvidence, all_: LagEvidence, rules: StatusRules) -> _Measured:
    first_ms = _first_ms(span, known.first_unread)
    points = list(known.ends)
    if first_ms is not None:
        points.append(LogPoint(first_ms, span.first))
    # Always the high watermark, also with read_committed: the points by time are ends of the whole log.
    ends = LogEnds.of(points, LogPoint(all_.now_ms, log.end))
    commits = known.commits
    incoming = incoming_rate(ends, all_.now_ms - _RATE_SPAN_MS)
    if not commits and EvidenceSource.COMMITS in all_.unknown:
        status_result = evaluate_status(CommitReading(span.lag, (), ends, all_.now_ms), rules)
        if status_result.status is None:
            status_result = StatusResult(None, why=all_.unknown[EvidenceSource.COMMITS])
    else:
        reading = CommitReading(
            lag=span.lag,
            commits=commits,
            ends=ends,
            now_ms=all_.now_ms,
            waiting_since_ms=first_ms,
            read_since_ms=known.read_since_ms,
            keeps_up=keeps_up(span.lag, commits, incoming),
        )
        status_result = evaluate_status(reading, rules)
    return _Measured(status_result, rates_of(commits, ends, status_result.status, all_.now_ms), first_ms)


def _first_ms(span: _Span, first_unread: FirstUnread | None) -> int | None:
    if first_unread is None or first_unread.offset is None or first_unread.offset != span.first or span.lag == 0:
        return None
    return (
        first_unread.timestamp_ms if first_unread.timestamp_ms is not None and first_unread.timestamp_ms >= 0 else None
    )


def _retention_left(
    span: _Span | None, log: LogRange | None, known: PartitionEvidence, measured: _Measured, now_ms: int
) -> RetentionLeft | None:
    if known.retention is None or span is None or log is None or span.lag == 0:
        return None
    unread = UnreadPart(log.end - span.first, log.end - log.start, measured.first_ms, measured.rates.incoming)
    return retention_left(known.retention, unread, now_ms)
