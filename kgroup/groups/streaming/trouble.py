"""What is wrong with a streaming query, as its checkpoint and the logs show it: one judge for every verb."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kgroup.groups.lag.report import GroupLag, PartitionLag
from kgroup.groups.lag.status import LagStatus
from kgroup.groups.thresholds import LONG_BATCH
from kgroup.groups.verdict.conclusion import Trouble
from kgroup.groups.verdict.plain import range_line
from kgroup.model.groups import Group, Partition, RangeStatus
from kgroup.model.streaming_query import StreamingQuery
from kgroup.support.durations import format_duration
from kgroup.support.instants import short_time
from kgroup.support.units import plural

UNKNOWN_TOPIC = "unknown-topic"


class QueryTrouble(msgspec.Struct, frozen=True):
    """A trouble of a query in words, the worst first, with the partitions where it is.

    ``for_ms`` is how long it has lasted, None if that is not known. ``count`` are the offsets that are lost by it.
    """

    cause: Trouble
    words: str
    partitions: tuple[Partition, ...]
    for_ms: int | None = None
    count: int = 0


def troubles_of(group: Group, report: GroupLag) -> tuple[QueryTrouble, ...]:
    """The troubles of a query, the most urgent first."""
    query = group.query
    return () if query is None else tuple(_troubles(group, query, report))


def state_words(query: StreamingQuery, now_ms: int) -> str:
    """``batch 7 done 41m ago``, ``batch 8 planned 2h ago, not done``, ``no batch yet``."""
    if query.planned is not None:
        return f"batch {query.planned.number} planned{_ago(query.planned.planned_ms, now_ms)}, not done"
    return "no batch yet" if query.done is None else f"batch {query.done.number} done{_ago(query.done.done_ms, now_ms)}"


def source_words(query: StreamingQuery) -> str:
    """``orders and payments, 1 other source, keeps state``."""
    topics = [topic for source in query.sources for topic in source.topics]
    others = sum(not source.topics for source in query.sources)
    parts = [" and ".join(topics) or "no Kafka source"]
    if others:
        parts.append(f"{plural(others, 'source')} without offsets in Kafka")
    if query.stateful:
        parts.append("keeps state")
    return ", ".join(parts)


def _troubles(group: Group, query: StreamingQuery, report: GroupLag) -> Iterator[QueryTrouble]:
    gone = tuple(p for p in group.partitions if p.error == UNKNOWN_TOPIC)
    if gone:
        of_it = f"{plural(len(gone), 'partition')} in the checkpoint"
        words = f"{gone[0].topic} does not exist any more, {of_it}: the query's next batch fails"
        yield QueryTrouble(Trouble.QUERY_FAILS, words, gone)
    below = tuple(p for p in group.partitions if p.out_of_range is RangeStatus.BELOW_LOG_START)
    if below:
        words = f"{range_line(below)}: the query's next batch fails, or passes over them if failOnDataLoss is false"
        yield QueryTrouble(Trouble.QUERY_FAILS, words, below, count=sum(map(_deleted, below)))
    above = tuple(p for p in group.partitions if p.out_of_range is RangeStatus.ABOVE_LOG_END)
    if above:
        yield QueryTrouble(Trouble.QUERY_FAILS, f"{range_line(above)}: the query's next batch fails", above)
    behind = tuple(row for row in report.partitions if row.lag)
    planned = query.planned
    if planned is not None and planned.planned_ms is not None:
        for_ms = report.now_ms - planned.planned_ms
        if for_ms >= LONG_BATCH.value:
            since = short_time(planned.planned_ms, report.now_ms)
            yield QueryTrouble(
                Trouble.LONG_BATCH,
                f"batch {planned.number} is planned since {since} and not done: the query is in it, it has ended, or "
                "it fails in this batch at each start",
                tuple(row.partition for row in behind),
                for_ms,
            )
    elif stopped := _stopped(behind):
        since_ms = max(row.status_result.since_ms or 0 for row in stopped) or None
        yield QueryTrouble(
            Trouble.QUERY_STOPPED,
            _stopped_words(query, report.now_ms, since_ms),
            tuple(row.partition for row in stopped),
            None if since_ms is None else report.now_ms - since_ms,
        )


def _stopped(rows: tuple[PartitionLag, ...]) -> tuple[PartitionLag, ...]:
    return tuple(row for row in rows if row.status is LagStatus.STOP)


def _stopped_words(query: StreamingQuery, now_ms: int, since_ms: int | None) -> str:
    unread = "" if since_ms is None else f" for {format_duration(max(0, now_ms - since_ms) // 1000)}"
    last = "" if query.done is None else f"; {state_words(query, now_ms)}"
    if query.every_s is not None:
        every = format_duration(query.every_s)
        return f"the job is late: it starts every {every}, and no batch came{unread} though records are unread{last}"
    return f"no batch{unread} though records are unread: the query does not run, or it waits for its schedule{last}"


def _deleted(partition: Partition) -> int:
    if partition.commit is None or partition.log is None:
        return 0
    return max(0, partition.log.start - partition.commit.offset)


def _ago(at_ms: int | None, now_ms: int) -> str:
    return "" if at_ms is None else f" {format_duration(max(0, now_ms - at_ms) // 1000)} ago"
