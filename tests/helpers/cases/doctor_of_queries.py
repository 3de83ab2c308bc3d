"""Cases of the rules about streaming queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from kgroup.groups.doctor.snapshot import GroupSnapshot
from kgroup.groups.lag.evidence import FirstUnread, LagEvidence, LogPoint, PartitionEvidence, Retention
from kgroup.groups.lag.from_log import from_log
from kgroup.model.groups import Group, Partition
from kgroup.model.streaming_query import QueryBatch, QuerySource, StreamingQuery, commits_of, reach_of
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.cases import described
from tests.helpers.cases.doctor import CRITICAL, INFO, NOW, PARTLY, UNKNOWN, WARNING, Case, D, H, M, S, partition

TP = TopicPartition("orders", 0)


def batches(*offsets: int, every_ms: int = M, last_ago_ms: int = 10 * S) -> tuple[QueryBatch, ...]:
    """Batches that were done one after the other, the last one ``last_ago_ms`` ago."""
    first_ms = NOW - last_ago_ms - every_ms * (len(offsets) - 1)
    times = [first_ms + every_ms * at for at in range(len(offsets))]
    return tuple(
        QueryBatch(number, at_ms - S, {TP: offset}, at_ms)
        for number, (offset, at_ms) in enumerate(zip(offsets, times, strict=True))
    )


def query(done: Sequence[QueryBatch], **other: Any) -> StreamingQuery:
    given = {"location": "/lake/orders", "id": "5d0c", "log_version": 1, "sources": (QuerySource("0", ("orders",)),)}
    return StreamingQuery(**{**given, "batches": tuple(done), **other})


def group_of(of: StreamingQuery, *partitions: Partition) -> Group:
    return replace(described.group(partitions, None, name="spark:/lake/orders", type="query", state=of.state), query=of)


def snapshot(
    of: StreamingQuery, *partitions: Partition, arrived: int = 600, unread_ago_ms: int = 3 * H
) -> GroupSnapshot:
    """A query whose partitions got so many records in ten minutes; the first unread one is so old, of seven days."""
    group = group_of(of, *partitions)
    facts = from_log(commits_of(of), reach_of(of), group, NOW)
    known = {
        p.tp: PartitionEvidence(
            ends=(LogPoint(NOW - 10 * M, p.log.end - arrived), LogPoint(NOW - M, p.log.end - arrived // 10)),
            commits=facts.commits.get(p.tp, ()),
            read_since_ms=facts.read_since_ms,
            last_stable=p.log.end,
            retention=Retention(7 * D),
            first_unread=None if p.commit is None else FirstUnread(p.commit.offset, NOW - unread_ago_ms),
        )
        for p in partitions
        if p.log is not None
    }
    evidence = LagEvidence(now_ms=NOW, partitions=known, state_since_ms=of.state_since_ms)
    return GroupSnapshot(
        group=group, now_ms=NOW, commits=facts.commits, logs=known, read=evidence, commits_since_ms=facts.read_since_ms
    )


RUNS = query(batches(*range(400, 1001, 60)))
DOWN = query(batches(*range(400, 1001, 60), last_ago_ms=40 * M))
HOURLY = query(batches(*range(0, 1001, 100), every_ms=H, last_ago_ms=40 * M))
AT_WORK = replace(RUNS, planned=QueryBatch(11, NOW - 5 * S, {TP: 1100}))
HANGS = replace(RUNS, planned=QueryBatch(11, NOW - 2 * H, {TP: 1100}))
AWAY = partition(1, 1000, log=None, error="no-leader")
UP_TO_1100 = partition(0, 1000, end=1100)

CASES = (
    Case("query-fails", "its offsets are in the log", snapshot(RUNS, UP_TO_1100), None),
    Case("query-fails", "retention was faster", snapshot(DOWN, partition(0, 1000, start=1040, end=1100)), CRITICAL,
         "orders:0 committed 1000 lies below the log start 1040: 40 offsets gone"),
    Case("query-fails", "made anew", snapshot(DOWN, partition(0, 1000, end=30)), CRITICAL, "above the log end 30"),
    Case("query-fails", "its topic is gone", snapshot(DOWN, partition(0, 1000, log=None, error="unknown-topic")),
         CRITICAL, "orders does not exist any more"),
    Case("query-fails", "its leader is away", snapshot(DOWN, partition(0, 1000, log=None, error="no-leader")),
         PARTLY, "1 partition could not be read"),
    Case("query-stopped", "it runs", snapshot(RUNS, UP_TO_1100), None),
    Case("query-stopped", "nothing is unread", snapshot(DOWN, partition(0, 1000, end=1000), arrived=0), None),
    Case("query-stopped", "it ended", snapshot(DOWN, UP_TO_1100), CRITICAL,
         "no batch for 40m though records are unread"),
    Case("query-stopped", "its job starts each hour", snapshot(HOURLY, UP_TO_1100), None),
    Case("query-stopped", "a job that missed one start",
         snapshot(query(batches(*range(0, 1001, 100), every_ms=H, last_ago_ms=100 * M)), UP_TO_1100), CRITICAL,
         "no batch for 1h40m"),
    Case("query-stopped", "a job that is late by its schedule",
         snapshot(query(batches(1000, last_ago_ms=2 * H), every_s=3600), UP_TO_1100), CRITICAL,
         "the job is late: it starts every 1h, and no batch came for 2h"),
    Case("query-stopped", "a job that is in time by its schedule",
         snapshot(query(batches(1000, last_ago_ms=80 * M), every_s=3600), UP_TO_1100), None),
    Case("query-stopped", "a log is not readable", snapshot(RUNS, UP_TO_1100, AWAY), PARTLY, "orders:1"),
    Case("query-stopped", "it is in a batch", snapshot(HANGS, UP_TO_1100), None),
    Case("query-long-batch", "in a batch", snapshot(AT_WORK, UP_TO_1100), None),
    Case("query-long-batch", "in one for hours", snapshot(HANGS, UP_TO_1100), WARNING, "batch 11 is planned since"),
    Case("query-long-batch", "planned, nobody knows when",
         snapshot(replace(RUNS, planned=QueryBatch(11, None, {TP: 1100})), UP_TO_1100), UNKNOWN, "has no time"),
    Case("query-retention", "a log is not readable", snapshot(RUNS, partition(0, 1000), AWAY), PARTLY, "orders:1"),
    Case("query-retention", "it has days", snapshot(DOWN, UP_TO_1100, unread_ago_ms=H), None),
    Case("query-retention", "it has minutes", snapshot(DOWN, UP_TO_1100, unread_ago_ms=7 * D - 5 * M), CRITICAL,
         "retention (7d) deletes the first unread record in 5m"),
    Case("query-new-partitions", "all are known", snapshot(RUNS, UP_TO_1100), None),
    Case("query-new-partitions", "a log is not readable", snapshot(RUNS, UP_TO_1100, AWAY), PARTLY, "orders:1"),
    Case("query-new-partitions", "one is empty", snapshot(RUNS, UP_TO_1100, partition(1, None, end=0)), None),
    Case("query-new-partitions", "one came later", snapshot(RUNS, UP_TO_1100, partition(1, None, end=30)), INFO,
         "1 partition not in the checkpoint: orders:1"),
)  # fmt: skip
