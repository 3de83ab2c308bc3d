"""The lag of the last hour in steps, and what arrived and was read in each: the values of sparklines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from kgroup.groups.lag.evidence import LagEvidence, LogPoint, PartitionEvidence
from kgroup.groups.lag.rates import has_older_times
from kgroup.groups.lag.report import GroupLag, LagSum, PartitionLag, RowLevel, rows_of
from kgroup.model.groups import Group, LogRange
from kgroup.model.topic_partition import TopicPartition

STEP_MS = 600_000
STEPS = 6
_FEWEST_LAGS = 3


class LagPast(msgspec.Struct, frozen=True):
    """``lag`` at each moment, oldest first, the last one is now; None: unknown.

    ``incoming`` and ``outgoing`` are the offsets that arrived and were committed since the moment before.
    """

    lag: tuple[int | None, ...]
    incoming: tuple[int | None, ...]
    outgoing: tuple[int | None, ...]

    @property
    def is_curve(self) -> bool:
        """Whether it is worth drawing: some lags are known, and not all are 0."""
        return any(self.lag) and len(self.lag) - self.lag.count(None) >= _FEWEST_LAGS


def quiet_partitions(group: Group, evidence: LagEvidence) -> dict[TopicPartition, LogRange]:
    """The logs of the topics on which nothing has arrived in the time over which rates are measured.

    Logs without a record are left out, and topics of which not every log that the group reads is known.
    """
    logs: dict[str, dict[TopicPartition, LogRange]] = {}
    others: set[str] = set()
    for p in group.partitions:
        known = evidence.partitions.get(p.tp)
        if (
            p.log is None
            or known is None
            or not known.ends
            or known.ends[0].end != p.log.end
            or has_older_times(p.lag or 0, p.log.end, None, known, evidence.now_ms)
        ):
            others.add(p.topic)
        elif p.log.end > p.log.start:
            logs.setdefault(p.topic, {})[p.tp] = p.log
    return {tp: log for topic, of_topic in logs.items() if topic not in others for tp, log in of_topic.items()}


def partition_past(row: PartitionLag, known: PartitionEvidence, now_ms: int) -> LagPast | None:
    """The past of a partition; None without a commit, or if the ends of its log were not read.

    A commit holds until the next one. What was committed before the oldest known commit is unknown. Offsets after the
    present commit that hold no record are no lag in the past either. None too where the lag is measured against the
    last stable offset: where that was is not known.
    """
    commit, log = row.partition.commit, row.partition.log
    if commit is None or log is None or not known.past_ends or row.end not in (None, log.end):
        return None
    points = (*known.past_ends, LogPoint(now_ms, log.end))
    committed = [_committed_at(point.timestamp_ms, commit.offset, known) for point in points]
    committed[-1] = commit.offset
    empty = {commit.offset: row.phantom}
    lag = [
        None if offset is None else max(0, point.end - max(offset + empty.get(offset, 0), log.start))
        for point, offset in zip(points, committed, strict=True)
    ]
    lag[-1] = row.lag
    return LagPast(tuple(lag), _steps([point.end for point in points]), _steps(committed))


def sum_past(pasts: Iterable[LagPast | None]) -> LagPast | None:
    """The sum over partitions, without those that have none; a value is None if that of a partition is unknown."""
    known = [past for past in pasts if past is not None]
    if not known:
        return None
    return LagPast(
        _sums([past.lag for past in known]),
        _sums([past.incoming for past in known]),
        _sums([past.outgoing for past in known]),
    )


def _committed_at(at_ms: int, newest: int, known: PartitionEvidence) -> int | None:
    index = bisect_right(known.commits, at_ms, key=lambda commit: commit.timestamp_ms)
    if index:
        return known.commits[index - 1].offset
    whole = not known.commits and known.read_since_ms is not None and known.read_since_ms <= at_ms
    return newest if whole else None


def _steps(values: Sequence[int | None]) -> tuple[int | None, ...]:
    """What each value is above the one before; 0 below it, as after a reset."""
    return tuple(
        None if before is None or after is None else max(0, after - before) for before, after in pairwise(values)
    )


def _sums(rows: Sequence[tuple[int | None, ...]]) -> tuple[int | None, ...]:
    return tuple(
        None if any(value is None for value in column) else sum(value for value in column if value is not None)
        for column in zip(*rows, strict=True)
    )


def lags_of_rows(report: GroupLag, evidence: LagEvidence, level: RowLevel) -> dict[str, tuple[int | None, ...]]:
    """The lags of the last hour by the name of the row; without those that are not worth drawing."""
    pasts = {
        row.name: partition_past(row, evidence.partitions[row.partition.tp], report.now_ms) for row in report.partitions
    }
    rows = ((row.name, row.partitions if isinstance(row, LagSum) else (row,)) for row in rows_of([report], level))
    sums = ((name, sum_past(pasts[each.name] for each in partitions)) for name, partitions in rows)
    return {name: past.lag for name, past in sums if past is not None and past.is_curve}


def group_past(report: GroupLag, evidence: LagEvidence) -> LagPast | None:
    """The past of the whole group; None if the ends of no log were read."""
    return sum_past(
        partition_past(row, evidence.partitions[row.partition.tp], report.now_ms) for row in report.partitions
    )
