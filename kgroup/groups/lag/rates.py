"""Rates of arriving and read records, the trend of the lag, the time until it is 0, and the retention left."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from kgroup.groups import thresholds
from kgroup.groups.lag.evidence import LogEnds, PartitionEvidence, Retention
from kgroup.groups.lag.status import LagStatus, last_rewind, usual_pause_ms
from kgroup.model.groups import LoggedCommit
from kgroup.support.durations import format_duration
from kgroup.support.json_types import ExplainedEnum
from kgroup.support.units import human_count

_LEAST_MS = 1000
_SPAN_MS = thresholds.RATE_SPAN.value
_MINUTE_MS = thresholds.RECENT_SPAN.value
SPANS_MS = (_MINUTE_MS, _SPAN_MS)
"""The spans over which rates are measured, the shortest first."""

_FEW = thresholds.FEW_COMMITS.value
_EVEN = thresholds.EVEN_RATES.value / 100
_PAUSES = thresholds.COMMIT_PAUSES.value
_LONGEST_S = 366 * 86_400.0


class Rates(msgspec.Struct, frozen=True, gc=False):
    """Arriving and committed offsets per second over the last ``span_ms``; None if unknown, or if spans differ."""

    incoming: float | None = None
    outgoing: float | None = None
    span_ms: int | None = None

    @property
    def growth(self) -> float | None:
        """The growth of the lag per second, negative if it shrinks; None if either rate is unknown."""
        return None if self.incoming is None or self.outgoing is None else self.incoming - self.outgoing

    @property
    def is_even(self) -> bool:
        """Whether both rates are known and differ by at most two percent of the larger one."""
        growth = self.growth
        return growth is not None and abs(growth) <= _EVEN * max(self.incoming or 0, self.outgoing or 0)


class LagTrend(ExplainedEnum):
    """The trend of a lag."""

    KEEPS_UP = "keeps-up", "the lag stays small"
    DRAINING = "draining", "it shrinks"
    NOT_AT_THIS_RATE = "not-at-this-rate", "it does not reach 0 at the present rates"
    UNKNOWN = "unknown"


class Outlook(msgspec.Struct, frozen=True, gc=False):
    """The trend of a lag, and the seconds until it is 0: None if it does not reach 0 at these rates, or if unknown."""

    pace: LagTrend
    seconds: float | None = None


UNKNOWN_OUTLOOK = Outlook(LagTrend.UNKNOWN)
_KEEPS_UP, _NOT_AT_THIS_RATE = Outlook(LagTrend.KEEPS_UP, 0.0), Outlook(LagTrend.NOT_AT_THIS_RATE)


class Arrivals(msgspec.Struct, frozen=True, gc=False):
    """What arrived in a partition, and the rates that follow from it alone: without commits a reader has one of two.

    ``ends`` are the known log ends. ``unread`` are the rates over each of ``SPANS_MS`` if nothing was read, ``unknown``
    those if that is not known. ``unread_counts`` are those of ``unread`` that count; None: the first commit decides it.
    """

    ends: LogEnds
    unread: tuple[Rates, ...]
    unknown: tuple[Rates, ...]
    unread_counts: Rates | None

    @classmethod
    def of(cls, ends: LogEnds, now_ms: int) -> Arrivals:
        """What arrived by the ends of a log, the last of which is that of ``now_ms``."""
        incoming = [(incoming_rate(ends, now_ms - span_ms), span_ms) for span_ms in SPANS_MS]
        unread = tuple(Rates(rate, 0.0, span_ms) for rate, span_ms in incoming)
        unknown = tuple(Rates(rate, None, span_ms) for rate, span_ms in incoming)
        return cls(ends, unread, unknown, _latest_or_usual(*unread))


def rates_of(
    spans: Sequence[Rates],
    commits: Sequence[LoggedCommit],
    arrivals: Arrivals,
    status: LagStatus | None,
    now_ms: int,
) -> Rates:
    """The rates of the last ten minutes, or of the last minute if the trend has clearly reversed; one span for both.

    ``spans`` are the rates by span. If the consumer's commits do not reach back ten minutes, it is the last minute, or
    the time since its first commit.

    Example: nothing arrived for eight minutes; since then 20 records per second arrive and 15 are read. Over ten
    minutes that is 4/s in and 15/s out, so the lag seems to shrink. Over the last minute it grows by 5/s.
    """
    known = arrivals.unread_counts if spans is arrivals.unread else _latest_or_usual(*spans)
    return known or _since_first_commit(commits, arrivals.ends, status, now_ms) or spans[-1]


def _latest_or_usual(latest: Rates, usual: Rates) -> Rates | None:
    """Those of the two that count; None if the growth is unknown in both."""
    growth, latest_growth = usual.growth, latest.growth
    if growth is None:
        return None if latest_growth is None else latest
    if latest_growth is None or (growth < 0) == (latest_growth < 0):
        return usual
    # A difference of so few records may be chance (about twice the standard deviation of a Poisson count).
    seconds = _MINUTE_MS / 1000
    chance = 2 * math.sqrt(max(latest.incoming or 0.0, latest.outgoing or 0.0) * seconds)
    return latest if abs(latest_growth) * seconds > chance and not latest.is_even else usual


def rates_by_span(
    commits: Sequence[LoggedCommit], arrivals: Arrivals, status: LagStatus | None, now_ms: int
) -> tuple[Rates, ...]:
    """The rates over each of ``SPANS_MS``. ``outgoing`` is None if the consumer's commits do not cover the span."""
    if status is not None and status.is_stuck:
        return arrivals.unread
    if len(commits) < 2 or not (readings := _readings(commits)):
        return arrivals.unknown
    pause_ms = usual_pause_ms(readings) or 0
    # Who has read all a while ago has read nothing since.
    is_idle = readings[-1].offset >= arrivals.ends.points[-1].end
    until_ms = now_ms if is_idle and now_ms - readings[-1].timestamp_ms > _PAUSES * pause_ms else None
    rates = []
    for each, span_ms in zip(arrivals.unknown, SPANS_MS, strict=True):
        if _covers(readings, pause_ms, now_ms, span_ms):
            each = Rates(each.incoming, _reading_rate(readings, pause_ms, now_ms - span_ms, until_ms), span_ms)
        rates.append(each)
    return tuple(rates)


def _covers(readings: Sequence[LoggedCommit], pause_ms: int, now_ms: int, span_ms: int) -> bool:
    """Whether the consumer's commits show what it read in the span. In a minute that takes at least three commits."""
    since_ms = now_ms - span_ms
    if readings[0].timestamp_ms > since_ms + max(span_ms // 10, pause_ms):
        return False
    return span_ms > _MINUTE_MS or sum(commit.timestamp_ms >= since_ms for commit in readings) >= _FEW


def _since_first_commit(
    commits: Sequence[LoggedCommit], ends: LogEnds, status: LagStatus | None, now_ms: int
) -> Rates | None:
    """The rates since the consumer's first commit; None if they are unknown."""
    readings = _readings(commits)
    outgoing = outgoing_rate(commits, status)
    if outgoing is None or not readings:
        return None
    first_ms = max(readings[0].timestamp_ms, now_ms - _SPAN_MS)
    end = ends.end_at(first_ms)
    span_ms = now_ms - first_ms
    if span_ms < _LEAST_MS or (end is None and len(ends.points) > 1):
        return None
    incoming = None if end is None else (ends.points[-1].end - end) * 1000 / span_ms
    return Rates(incoming, outgoing, span_ms)


def _readings(commits: Sequence[LoggedCommit]) -> Sequence[LoggedCommit]:
    """The commits that show what was read: those of consumers, since the last rewind or the last commit by a tool."""
    after_tool = next((n for n in range(len(commits), 0, -1) if commits[n - 1].by_tool), 0)
    return commits[max(after_tool, last_rewind(commits) or 0) :]


def incoming_rate(ends: LogEnds, since_ms: int) -> float | None:
    """Arrived offsets per second since ``since_ms``, or since the oldest known point; None for less than a second."""
    return ends.growth(since_ms, _LEAST_MS)


def outgoing_rate(commits: Sequence[LoggedCommit], status: LagStatus | None, since_ms: int = 0) -> float | None:
    """Committed offsets per second from ``since_ms``, or from the first commit if that is later, to the last commit.

    0 if the partition is stuck. A reset is no reading: commits by a tool do not count, nor those before them or before
    the last rewind. Without a commit after ``since_ms`` the last two count. None for fewer than two commits, or less
    than a second between them.
    """
    if status is not None and status.is_stuck:
        return 0.0
    readings = _readings(commits)
    return _reading_rate(readings, usual_pause_ms(readings) or 0, since_ms)


def _reading_rate(
    readings: Sequence[LoggedCommit], pause_ms: int, since_ms: int, until_ms: int | None = None
) -> float | None:
    """``outgoing_rate`` by the commits that count, with their usual pause; to ``until_ms``, None: the last commit."""
    if len(readings) <= 1:
        return None
    first = max(0, min(sum([commit.timestamp_ms <= since_ms for commit in readings]) - 1, len(readings) - 2))
    start, last = readings[first], readings[-1]
    if until_ms is not None and last.timestamp_ms <= since_ms:
        return 0.0
    start_ms = start.timestamp_ms
    if last.timestamp_ms > since_ms:
        # After a pause that began long before since_ms, the offsets were read at its end, not evenly during the pause.
        start_ms = max(start_ms, min(since_ms - pause_ms, last.timestamp_ms))
    passed_ms = (until_ms or last.timestamp_ms) - start_ms
    return None if passed_ms < _LEAST_MS else (last.offset - start.offset) * 1000 / passed_ms


def reading_rate(commits: Sequence[LoggedCommit]) -> float | None:
    """Committed offsets per second over the ten minutes before the last commit: how fast it read when it last read.

    None for fewer than two commits, and if a reset or a release committed last.
    """
    return outgoing_rate(commits, None, commits[-1].timestamp_ms - _SPAN_MS) if commits else None


def keeps_up(lag: int, commits: Sequence[LoggedCommit], incoming: float | None) -> bool:
    """Whether the lag is at most what arrives in two usual commit intervals: a healthy consumer has such a lag too.

    Example: with 3,000 records per second and a commit every 5 s, that is a lag of up to 30,000.
    """
    if incoming is None or (lag and not incoming):  # nothing arrives, so no interval explains a lag
        return False
    pause_ms = usual_pause_ms(commits)
    if pause_ms is None:
        return False
    return lag <= incoming * _PAUSES * pause_ms / 1000


def recent_rate(commits: Sequence[LoggedCommit], now_ms: int) -> float | None:
    """Offsets per second that were read in the last minute; None if nothing was committed in it."""
    since_ms = now_ms - _MINUTE_MS
    return outgoing_rate(commits, None, since_ms) if commits and commits[-1].timestamp_ms >= since_ms else None


def has_older_times(lag: int, end: int, first_ms: int | None, known: PartitionEvidence, now_ms: int) -> bool:
    """Whether the records have the times of older events, so that these do not show what arrives.

    By them nothing has arrived in the time that rates are measured over, and yet the group reads and keeps up. ``end``
    is the log end, ``first_ms`` the time of the first unread record.
    """
    if any(point.end != end for point in known.ends) or (first_ms is not None and first_ms >= now_ms - _SPAN_MS):
        return False
    return keeps_up(lag, known.commits, recent_rate(known.commits, now_ms) or None)


def outlook(lag: int | None, rates: Rates, *, close: bool) -> Outlook:
    """When the lag will be 0 at these rates. ``close`` is whether the group is caught up as far as commits can show.

    Example: a lag of 600, 10 records per second arrive and 13 are read: 200 s. Not at this rate if about as many or
    fewer are read than arrive, or if it would take more than 366 days.
    """
    if lag is None:
        return UNKNOWN_OUTLOOK
    if lag == 0 or close:
        return _KEEPS_UP
    if rates.outgoing == 0:
        return _NOT_AT_THIS_RATE
    growth = rates.growth
    if growth is None:
        return UNKNOWN_OUTLOOK
    if growth >= 0 or rates.is_even or lag / -growth > _LONGEST_S:
        return _NOT_AT_THIS_RATE
    return Outlook(LagTrend.DRAINING, lag / -growth)


def slow_outlook(lag: int, rates: Rates, *, close: bool = False) -> Outlook | None:
    """The outlook of a lag that needs over ten minutes, or that grows; None if it ends sooner or is unknown."""
    found = outlook(lag, rates, close=close)
    if found.pace is LagTrend.NOT_AT_THIS_RATE:
        return None if rates.is_even else found
    return found if found.seconds is not None and found.seconds * 1000 > thresholds.LONG_GAP.value else None


def slowest(outlooks: Sequence[Outlook]) -> Outlook:
    """The outlook of several partitions: a group has caught up when its last partition has.

    If one of them does not catch up at its rate, neither does the group. Otherwise the result is unknown if one is
    unknown, and else the slowest.
    """
    if not outlooks:
        return UNKNOWN_OUTLOOK
    for pace in (LagTrend.NOT_AT_THIS_RATE, LagTrend.UNKNOWN):
        if any(each.pace is pace for each in outlooks):
            return Outlook(pace)
    return max(outlooks, key=lambda each: each.seconds or 0.0)


class UnreadPart(msgspec.Struct, frozen=True, gc=False):
    """The unread part of a log.

    ``offsets`` is the number of unread offsets, ``log_offsets`` that of the whole log. ``first_ms`` is the timestamp
    of the first unread record, ``incoming`` the arriving offsets per second; None if unknown.
    """

    offsets: int
    log_offsets: int
    first_ms: int | None
    incoming: float | None


class RetentionLeft(msgspec.Struct, frozen=True, gc=False):
    """The time until retention may delete the first unread record; 0: at any moment, None: unknown.

    It is the earliest moment: a broker deletes whole segments, and checks every five minutes. ``by`` is ``time`` or
    ``size``. ``endless`` is whether retention never deletes records here. ``compacted`` is whether compaction may
    replace unread records by newer ones with the same key.
    """

    left_ms: int | None
    by: str | None = None
    endless: bool = False
    compacted: bool = False


def retention_left(retention: Retention, unread: UnreadPart, now_ms: int) -> RetentionLeft:
    """The retention left of a partition with unread records.

    Example: ``retention.ms`` 12 h and a first unread record 38 m old leave 11 h 22 m. By size it is the estimated time
    until the unread records alone reach ``retention.bytes`` at the present rate, with records of equal size.
    """
    if not retention.deletes:
        return RetentionLeft(None, endless=True, compacted=retention.compacted)
    deletion = first_deletion(retention, unread, now_ms)
    if deletion is None:
        endless = retention.time_ms is None and retention.limit_bytes is None
        return RetentionLeft(None, endless=endless, compacted=retention.compacted)
    at_ms, by = deletion
    return RetentionLeft(max(0, at_ms - now_ms), by, compacted=retention.compacted)


def first_deletion(retention: Retention, unread: UnreadPart, now_ms: int) -> tuple[int, str] | None:
    """When retention may delete the first unread record, and whether by ``time`` or ``size``; None if unknown."""
    moments = []
    if retention.time_ms is not None and unread.first_ms is not None:
        moments.append((unread.first_ms + retention.time_ms, "time"))
    if (full_ms := _until_full_ms(retention, unread)) is not None:
        moments.append((now_ms + full_ms, "size"))
    return min(moments, key=lambda moment: (max(moment[0], now_ms), moment[1]), default=None)


def _until_full_ms(retention: Retention, unread: UnreadPart) -> int | None:
    if retention.size_bytes is None or retention.limit_bytes is None or unread.log_offsets <= 0:
        return None
    each = retention.size_bytes / unread.log_offsets
    free = retention.limit_bytes - each * unread.offsets
    if free <= 0:
        return 0
    grows = each * (unread.incoming or 0)
    return round(free * 1000 / grows) if grows > 0 else None


_SLOW = 10


def rate_words(rate: float) -> str:
    """``4.00k/s``, ``17/s``, ``0.4/s``, ``0``; below 0.1 per second in records per minute or hour."""
    if rate <= 0:
        return "0"
    if rate >= _SLOW:
        return f"{human_count(round(rate))}/s"
    if rate >= 0.1:
        return f"{rate:.1f}".removesuffix(".0") + "/s"
    return f"{rate * 60:.1f}/min" if rate * 60 >= 0.1 else f"{rate * 3600:.2g}/h"


def span_words(span_ms: int | None) -> str:
    """`` (10m)``; empty if the span is unknown."""
    return "" if span_ms is None else f" ({format_duration(span_ms // 1000)})"


def sum_rates(rates: Sequence[Rates]) -> Rates:
    """The sum of rates over one span. A rate is None if one of them is unknown, ``span_ms`` if the spans differ."""
    spans = {each.span_ms for each in rates}
    return Rates(
        _total([each.incoming for each in rates]),
        _total([each.outgoing for each in rates]),
        spans.pop() if len(spans) == 1 else None,
    )


def _total(values: Sequence[float | None]) -> float | None:
    """The sum; None if one is unknown, because a partial sum would be mistaken for the total."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def trend_words(rates: Rates) -> str | None:
    """``+1.72k/s`` if the lag grows, ``-300/s`` if it shrinks, or ``flat``; None if a rate is unknown.

    Over ten minutes, or over another span, which is then shown: ``+17/s (1m)``.
    """
    growth = rates.growth
    if growth is None:
        return None
    trend = "flat" if rates.is_even else f"{'+' if growth > 0 else '-'}{rate_words(abs(growth))}"
    return trend if rates.span_ms == _SPAN_MS else trend + span_words(rates.span_ms)


def outlook_words(outlook: Outlook) -> str | None:
    """The time until it has caught up: ``12m``, ``not at this rate``, ``0s`` if it keeps up; None if unknown."""
    match outlook.pace:
        case LagTrend.NOT_AT_THIS_RATE:
            return "not at this rate"
        case LagTrend.UNKNOWN:
            return None
        case _:
            return format_duration(round(outlook.seconds or 0))
