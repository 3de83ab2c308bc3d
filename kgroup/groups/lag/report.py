"""The measured lag of a group: rows of partitions, topics and the group, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from operator import attrgetter
from typing import Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from kgroup.groups.lag.evidence import BlockingTransaction, Isolation
from kgroup.groups.lag.rates import SPANS_MS, LagTrend, Outlook, Rates, RetentionLeft, slowest, sum_rates
from kgroup.groups.lag.status import LagStatus, StatusResult
from kgroup.model.groups import Partition
from kgroup.model.topic_partition import TopicPartition

_UNKNOWN_SPANS = (Rates(),) * len(SPANS_MS)
_NOT_READ = LagStatus.STALL.severity
"""The severity of the mildest status of a partition that is not read; the worse ones are no worse to sort by."""
_QUIET, _UNKNOWN = -0.75, -0.5
"""Between the mildest bad status, -1, and a good one."""


class LagRow(Protocol):
    """The lag of a partition, a topic or a group, as bounds, sorting and tables need it."""

    @property
    def group(self) -> str:
        """The group's name."""

    @property
    def name(self) -> str:
        """``orders-enrich orders:7``, ``orders-enrich orders`` or ``orders-enrich``."""

    @property
    def lag(self) -> int | None:
        """The number of unread records; None if unknown."""

    @property
    def time_lag_ms(self) -> int | None:
        """The age of the oldest unread record in ms, 0 if nothing is unread; None if unknown."""

    @property
    def time_lag_at_least_ms(self) -> int | None:
        """``time_lag_ms``; where one age of several is unknown, the oldest known one. None if none is known."""

    @property
    def time_lag_at_most_ms(self) -> int | None:
        """An upper bound of ``time_lag_ms`` where that is not known, of a share group; else None."""

    @property
    def spans(self) -> tuple[Rates, ...]:
        """The rates over each of ``SPANS_MS``; empty if unknown."""

    @property
    def status_result(self) -> StatusResult:
        """The status; of several partitions the worst one."""

    @property
    def rates(self) -> Rates:
        """Arriving and read offsets per second."""

    @property
    def outlook(self) -> Outlook:
        """The trend, and the time until nothing is unread."""

    @property
    def missing(self) -> str | None:
        """A phrase that names the partitions with an unknown lag; None if all are known."""


class PartitionLag(msgspec.Struct, frozen=True, gc=False):
    """The lag of one partition."""

    group: str
    partition: Partition
    lag: int | None
    """Later offsets without a record than ``phantom`` are not detected: an upper bound on a compacted topic."""
    first: int | None
    """The first unread offset; None if unknown, ``why`` is the reason."""
    end: int | None
    """The offset that the lag is measured against; None if unknown."""
    phantom: int
    """Offsets from the commit on that hold no record (compacted, aborted, markers); they are not in ``lag``."""
    held_back: int | None
    """Offsets between the last stable offset and the high watermark; None: not read."""
    open_transaction: BlockingTransaction | None
    time_lag_ms: int | None
    last_commit_ms: int | None
    status_result: StatusResult
    rates: Rates
    """Those of ``spans`` that count."""
    outlook: Outlook
    retention_left: RetentionLeft | None
    leader: int | None
    why: str | None = None
    spans: tuple[Rates, ...] = ()
    """The rates over each of ``SPANS_MS``."""
    time_why: str | None = None
    """Why no age follows from the timestamps of its records; None if it is known or not read."""
    time_lag_at_most_ms: int | None = None
    """Of a share group that has done records after its start offset: the age of the record there, else None."""

    @property
    def time_lag_at_least_ms(self) -> int | None:
        """``time_lag_ms``: of one partition it is exact."""
        return self.time_lag_ms

    @property
    def where(self) -> str:
        """``orders:7``."""
        return f"{self.partition.topic}:{self.partition.partition}"

    @property
    def name(self) -> str:
        """``orders-enrich orders:7``."""
        return f"{self.group} {self.where}"

    @property
    def status(self) -> LagStatus | None:
        """The status; None if unknown."""
        return self.status_result.status

    @property
    def stuck_at(self) -> int | None:
        """The offset that a stuck partition does not get past: the lowest if it commits back and forth.

        Of a share group without a known first offset it is its start offset.
        """
        if self.status_result.lowest is not None:
            return self.status_result.lowest
        start = None if self.partition.counted is None else self.partition.commit
        return start.offset if self.first is None and start is not None else self.first

    @property
    def missing(self) -> str | None:
        """The partition and the reason why its lag is unknown; None if it is known."""
        return None if self.lag is not None else f"{self.where}: {self.why}"

    @property
    def is_behind(self) -> bool:
        """Whether it lags more than its commit interval explains: bad status, draining, or not at this rate."""
        if not self.lag:
            return False
        if self.status is not None and self.status is not LagStatus.OK:
            return True
        return self.outlook.pace in (LagTrend.DRAINING, LagTrend.NOT_AT_THIS_RATE) and self.outlook.seconds != 0.0


class LagSum(msgspec.Struct, frozen=True):
    """The sum over the partitions of a topic or a group."""

    group: str
    topic: str | None
    """None: of the group."""
    partitions: tuple[PartitionLag, ...]
    lag: int | None
    """The sum of the known lags; None if none is known."""
    unknown: int
    """The number of partitions with an unknown lag."""
    time_lag_ms: int | None
    largest: PartitionLag | None
    """The partition with the most unread records; None if nothing is unread or known."""
    oldest: PartitionLag | None
    """The partition with the oldest unread record."""
    status_result: StatusResult
    rates: Rates
    outlook: Outlook
    hidden: str | None = None
    """A phrase about ``Group.hidden_commits``; None without any."""
    spans: tuple[Rates, ...] = ()
    time_lag_at_most_ms: int | None = None
    """An upper bound of ``time_lag_ms`` where that is not known, of a share group; else None."""
    missing: str | None = None
    """Names the first partition with an unknown lag and the number of others; None if all are known."""

    @property
    def name(self) -> str:
        """``orders-enrich orders``, or ``orders-enrich``."""
        return self.group if self.topic is None else f"{self.group} {self.topic}"

    @property
    def time_lag_at_least_ms(self) -> int | None:
        """``time_lag_ms``; if that is unknown, the oldest known age: a partition without a commit must not hide it."""
        return self.time_lag_ms if self.time_lag_ms is not None or self.oldest is None else self.oldest.time_lag_ms

    @property
    def status(self) -> LagStatus | None:
        """The worst status; None if none is bad and one is unknown."""
        return self.status_result.status


def sum_partitions(
    group: str, topic: str | None, partitions: Sequence[PartitionLag], hidden: str | None = None
) -> LagSum:
    """The sum of the partitions. The age is unknown if that of one is unknown or hidden, since it may be the oldest."""
    lags = [p.lag for p in partitions if p.lag is not None]
    # A topic that the group has left would make all rates unknown, and the group no slower or later.
    read = [p for p in partitions if p.status_result.status is not LagStatus.UNSUBSCRIBED] or partitions
    ages = [p.time_lag_ms for p in read if p.time_lag_ms is not None]
    aged = [p for p in read if p.lag and p.time_lag_ms is not None]
    rates_by_partition = [p.spans or _UNKNOWN_SPANS for p in read]
    spans = tuple(sum_rates([spans[n] for spans in rates_by_partition]) for n in range(len(SPANS_MS)))
    time_lag_ms = max(ages) if ages and len(ages) == len(read) and not hidden else None
    return LagSum(
        group=group,
        topic=topic,
        partitions=tuple(partitions),
        lag=sum(lags) if lags else None,
        unknown=len(partitions) - len(lags),
        time_lag_ms=time_lag_ms,
        time_lag_at_most_ms=None if hidden or time_lag_ms is not None else _at_most_ms(read),
        largest=max((p for p in partitions if p.lag), key=attrgetter("lag"), default=None),
        oldest=max(aged, key=attrgetter("time_lag_ms"), default=None),
        status_result=_worst(partitions, hidden),
        rates=_rates_of(read, spans),
        outlook=slowest([p.outlook for p in read]),
        hidden=hidden,
        spans=spans,
        missing=_missing(partitions, hidden),
    )


def _at_most_ms(partitions: Sequence[PartitionLag]) -> int | None:
    """An upper bound of the ages of a share group's partitions; None if one has neither an age nor a bound."""
    if not partitions or partitions[0].partition.counted is None:
        return None
    ages = [p.time_lag_ms if p.time_lag_at_most_ms is None else p.time_lag_at_most_ms for p in partitions]
    known = [age for age in ages if age is not None]
    return max(known) if len(known) == len(ages) else None


def still_read(row: LagRow) -> LagRow | None:
    """The row without the topics that the group has left, None if nothing remains: it is not late with what it left."""
    if not isinstance(row, LagSum):
        return None if row.status_result.status is LagStatus.UNSUBSCRIBED else row
    left = {p.partition.topic for p in row.partitions if p.status is LagStatus.UNSUBSCRIBED}
    if not left:
        return row
    rest = [p for p in row.partitions if p.partition.topic not in left]
    return sum_partitions(row.group, None, rest, row.hidden) if rest else None


def _missing(partitions: Sequence[PartitionLag], hidden: str | None) -> str | None:
    if not partitions:
        return hidden or "no committed or assigned partition is shown"
    unknown = [p for p in partitions if p.lag is None]
    if not unknown:
        return hidden
    more = f", and {len(unknown) - 1} more" if len(unknown) > 1 else ""
    return f"{unknown[0].where}: {unknown[0].why}{more}"


def _rates_of(partitions: Sequence[PartitionLag], spans: Sequence[Rates]) -> Rates:
    """The sum of the rates that count. Where their spans differ, a span that all partitions have counts instead."""
    total = sum_rates([p.rates for p in partitions])
    if total.span_ms is not None or total.growth is None:
        return total
    return next((each for each in spans if each.growth is not None), total)


class GroupLag(msgspec.Struct, frozen=True):
    """The lag of one group, an item of ``kgroup lag``. ``topics`` are sorted by name."""

    group: str
    state: str
    isolation: Isolation
    now_ms: int
    partitions: tuple[PartitionLag, ...]
    topics: tuple[LagSum, ...]
    total: LagSum
    hidden_commits: tuple[TopicPartition, ...] | None = ()
    at_most: str | None = None
    """Why its lags are upper bounds, as a phrase; None: they are exact."""

    @property
    def name(self) -> str:
        """The group's name."""
        return self.group

    def without_rows(self) -> GroupLag:
        """The group and its sum alone, in a hundredth of the memory."""
        return replace(self, partitions=(), topics=(), total=replace(self.total, partitions=()))


def _worst(partitions: Sequence[PartitionLag], hidden: str | None) -> StatusResult:
    """The worst status, and of equal ones the longest; OK only if all are known and no commit is hidden."""
    known = [result for p in partitions if (result := p.status_result).status is not None]
    bad = [result for result in known if result.status is not LagStatus.OK]
    if bad:
        return min(bad, key=lambda j: (-(j.status or LagStatus.OK).severity, j.since_ms is None, j.since_ms or 0))
    if known and len(known) == len(partitions) and not hidden:
        return StatusResult(LagStatus.OK)
    return StatusResult(
        None, why=next((p.status_result.why for p in partitions if p.status_result.status is None), hidden)
    )


_Row = TypeVar("_Row", bound=LagRow)


class RowLevel(StrEnum):
    """What one row shows (``--by``). Bounds are checked for each row of that level."""

    PARTITION = "partition"
    TOPIC = "topic"
    GROUP = "group"


class SortBy(StrEnum):
    """The sort order: worst status, largest lag, oldest record or fastest growth first, or by name."""

    STATUS = "status"
    LAG = "lag"
    TIME = "time"
    TREND = "trend"
    NAME = "name"


def rows_of(reports: Sequence[GroupLag], level: RowLevel) -> list[LagRow]:
    """The rows of ``level``, in the order of the reports."""
    match level:
        case RowLevel.PARTITION:
            return [row for report in reports for row in report.partitions]
        case RowLevel.TOPIC:
            return [row for report in reports for row in report.topics]
        case RowLevel.GROUP:
            return [report.total for report in reports]


def sort_rows(rows: Sequence[_Row], by: SortBy = SortBy.STATUS, top: int | None = None) -> list[_Row]:
    """The first ``top`` rows (None: all), worst first. Equal rows are sorted by lag, then by age.

    By status, all rows that are not read (STALL, STOP, NO-READER) are equal: their lag and age say which is worst. Rows
    without a reader in which nothing arrives come after the other bad ones. Rows with an unknown value come after bad
    rows and before good ones, because they may be either. The row with the largest lag is always among the first
    ``top``, as the last one if need be; by name there is no such exception.
    """
    return split_rows(rows, by, top)[0]


def split_rows(rows: Sequence[_Row], by: SortBy, top: int | None) -> tuple[list[_Row], list[_Row]]:
    """``sort_rows``, and the rows that are not among the first ``top``."""
    ordered = sorted(rows, key=lambda row: _sort_key(row, by))
    if top is None or not 0 < top < len(ordered):
        return ordered[:top], [] if top is None else ordered[top:]
    if by is not SortBy.NAME:
        largest = min(range(len(ordered)), key=lambda at: largest_first(ordered[at].lag))
        if largest >= top:
            ordered.insert(top - 1, ordered.pop(largest))
    return ordered[:top], ordered[top:]


def is_quiet(row: LagRow) -> bool:
    """Whether no member reads a row, and nothing has arrived in ten minutes: a job that runs once a day looks so."""
    return row.status_result.status is LagStatus.NO_READER and bool(row.spans) and row.spans[-1].incoming == 0


def _sort_key(row: LagRow, by: SortBy) -> tuple[float | str, float, float]:
    """What a row is sorted by, the smallest first: the value that was chosen, then lag and age."""
    lag, age = largest_first(row.lag), largest_first(row.time_lag_at_least_ms)
    match by:
        case SortBy.STATUS:
            status = row.status_result.status
            if status is None:
                return _UNKNOWN, lag, age
            return _QUIET if is_quiet(row) else max(-_NOT_READ, -status.severity), lag, age
        case SortBy.LAG:
            return lag, lag, age
        case SortBy.TIME:
            return age, lag, age
        case SortBy.TREND:
            return largest_first(row.rates.growth), lag, age
        case SortBy.NAME:
            return row.name, lag, age


def largest_first(value: float | None) -> float:
    """A sort key: the largest value first; unknown comes before 0 and negative values."""
    return _UNKNOWN if value is None else -value
