"""Measures a group from its evidence: lag in records and time, status, rates and retention left per partition."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import groupby

import msgspec
from msgspec.structs import replace

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
    rates_by_span,
    rates_of,
    retention_left,
)
from kgroup.groups.lag.report import GroupLag, PartitionLag, sum_partitions
from kgroup.groups.lag.status import (
    DEFAULT_RULES,
    CommitReading,
    StatusResult,
    StatusRules,
    evaluate_status,
    group_span_ms,
    has_lone_commit,
    no_reader,
)
from kgroup.model.groups import Group, LogRange, Partition
from kgroup.model.hidden_commits import hidden_words

_NOTHING = PartitionEvidence()
_RATE_SPAN_MS = 600_000
"""Arrivals are counted over about this time, for the present rate rather than the daily average."""


def measure_lag(group: Group, evidence: LagEvidence, rules: StatusRules = DEFAULT_RULES) -> GroupLag:
    """The lag of each partition, of each topic and of the group, as far as the evidence shows it."""
    unattended = _lacks_reader(group, evidence)
    # Few partitions need it, and it reads the commits of all.
    span_ms = cache(lambda: group_span_ms([each.commits for each in evidence.partitions.values()], rules))
    partitions = tuple(
        _partition(
            group.name,
            each,
            evidence.partitions.get(each.tp, _NOTHING),
            evidence,
            rules,
            unattended=unattended,
            group_span_ms=span_ms,
        )
        for each in sorted(group.partitions, key=lambda p: (p.topic, p.partition))
    )
    topics = tuple(
        sum_partitions(group.name, topic, list(of_topic))
        for topic, of_topic in groupby(partitions, key=lambda p: p.partition.topic)
    )
    hidden = hidden_words(group.hidden_commits)
    if len(topics) == 1 and hidden is None:
        total = replace(topics[0], topic=None)
    else:
        total = sum_partitions(group.name, None, partitions, hidden)
    return GroupLag(
        group=group.name,
        state=group.state,
        isolation=evidence.isolation,
        now_ms=evidence.now_ms,
        partitions=partitions,
        topics=topics,
        total=total,
        hidden_commits=group.hidden_commits,
    )


def _lacks_reader(group: Group, evidence: LagEvidence) -> bool:
    """Whether the group is Empty, records are unread, and no consumer has committed since.

    If nothing of the log was read, this is unknown: a consumer with ``assign()`` commits to an Empty group. Where the
    log shows one, its commits decide the status.
    """
    if not group.is_empty or EvidenceSource.COMMITS in evidence.unknown:
        return False
    emptied_ms = evidence.state_since_ms
    known = [(p, evidence.partitions.get(p.tp, _NOTHING)) for p in group.partitions if p.commit is not None]
    if all(not facts.commits and facts.read_since_ms is None for _, facts in known):
        return False
    if all(p.lag == 0 for p, _ in known):
        return False  # Nothing is unread: it needs no reader.
    for _, facts in known:
        last = facts.commits[-1] if facts.commits else None
        if last is not None and not last.by_tool and (emptied_ms is None or last.timestamp_ms > emptied_ms):
            return False
    return True


class _Span(msgspec.Struct, frozen=True, gc=False):
    """The unread part [first, end) of ``lag`` offsets. ``phantom`` counts those before ``first`` without a record."""

    first: int
    end: int
    phantom: int
    lag: int


def _partition(
    group: str,
    partition: Partition,
    known: PartitionEvidence,
    all_: LagEvidence,
    rules: StatusRules,
    *,
    unattended: bool,
    group_span_ms: Callable[[], int | None],
) -> PartitionLag:
    why = _why_unknown(partition, known, all_.isolation)
    log = partition.log
    held_back = None if log is None or known.last_stable is None else max(0, log.end - known.last_stable)
    if why is not None or partition.commit is None or log is None:
        span, measured = None, _Measured(StatusResult(None, why=why), Rates(), None)
    else:
        span = _span(partition.commit.offset, log, known, all_.isolation)
        measured = _measure(span, log, known, all_, rules, unattended=unattended, group_span_ms=group_span_ms)
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
        spans=measured.spans,
    )


class _Measured(msgspec.Struct, frozen=True, gc=False):
    """Status and rates of a partition. ``first_ms``: timestamp of the first unread record, None: unknown or none."""

    status_result: StatusResult
    rates: Rates
    first_ms: int | None
    spans: tuple[Rates, ...] = ()


def _why_unknown(partition: Partition, known: PartitionEvidence, isolation: Isolation) -> str | None:
    if partition.error is not None:
        return partition.error
    if partition.log is None:
        return "its log could not be read"
    if partition.commit is None:
        return "nothing is committed"
    if partition.out_of_range == "above-log-end":
        # This is not a lag of 0: the topic was recreated or lost records, and the consumer will be reset.
        return "committed above the log end"
    if known.last_stable is None and isolation is Isolation.READ_COMMITTED:
        return "its last stable offset could not be read"
    return None


def _span(committed: int, log: LogRange, known: PartitionEvidence, isolation: Isolation) -> _Span:
    """The unread part, from the first offset that is known to hold a record.

    Example: committed 70, log [0, 120), and the first readable record from 70 on is 95: a lag of 25 and 25 phantom
    offsets. A first record below 70 was fetched before the last commit and is ignored.
    """
    end = log.end
    if known.last_stable is not None and known.last_stable < end and isolation is Isolation.READ_COMMITTED:
        end = known.last_stable
    start = max(committed, log.start)
    first_unread = known.first_unread
    first = start
    if first_unread is not None:
        first = (
            max(start, end) if first_unread.offset is None else min(max(start, first_unread.offset), max(start, end))
        )
    return _Span(first, end, first - start, max(0, end - first))


def _measure(
    span: _Span,
    log: LogRange,
    known: PartitionEvidence,
    all_: LagEvidence,
    rules: StatusRules,
    *,
    unattended: bool,
    group_span_ms: Callable[[], int | None],
) -> _Measured:
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
            group_span_ms=group_span_ms() if span.lag and has_lone_commit(commits, rules) else None,
        )
        if unattended and span.lag > rules.allowed:
            status_result = no_reader(reading, all_.state_since_ms, rules)
        else:
            status_result = evaluate_status(reading, rules)
    status, now_ms = status_result.status, all_.now_ms
    spans = rates_by_span(commits, ends, status, now_ms)
    rates = rates_of(spans, commits, ends, status, now_ms)
    if unattended:
        rates, *rest = (each if each.outgoing is not None else replace(each, outgoing=0.0) for each in (rates, *spans))
        spans = tuple(rest)
    return _Measured(status_result, rates, first_ms, spans)


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
