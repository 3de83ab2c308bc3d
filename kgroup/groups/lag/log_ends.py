"""Estimates the log end at a past moment from the few moments at which it is known."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from kgroup.groups.lag.evidence import LogPoint


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Known ends of one log, oldest first; ends never decrease. Between two points the log is assumed to grow evenly.

    Example: with ends (0 ms, 100) and (10,000 ms, 200), the log end after 5 s was 150; a consumer that committed 130
    then had a lag of 20. Before the first point only an upper bound is known: the end of the first point.
    """

    points: tuple[LogPoint, ...]

    @classmethod
    def of(cls, points: Iterable[LogPoint], now: LogPoint) -> LogEnds:
        """Sort the known points; ``now`` is the end that was just read, and points that contradict it are dropped.

        Producers set the timestamps of records, so a point may be in the future or out of order.
        """
        kept = [now]
        for point in sorted(points, key=lambda p: (p.timestamp_ms, p.end), reverse=True):
            if point.timestamp_ms < kept[-1].timestamp_ms and point.end <= kept[-1].end:
                kept.append(point)
        return cls(tuple(reversed(kept)))

    def lag_at(self, timestamp_ms: int, committed: int) -> int | None:
        """The lag of a consumer at ``committed`` at that moment; None if too little is known.

        It is exact if lower and upper bound are equal: a commit of 100 before record 100 was written is a lag of 0.
        """
        after = bisect_right(self.points, timestamp_ms, key=lambda p: p.timestamp_ms)
        before = self.points[after - 1] if after else None
        least = committed if before is None else max(committed, before.end)
        if after == len(self.points):
            return least - committed
        following = self.points[after]
        if following.end <= least:
            return least - committed
        if before is None:
            return None
        share = (timestamp_ms - before.timestamp_ms) / (following.timestamp_ms - before.timestamp_ms)
        return max(least, before.end + round(share * (following.end - before.end))) - committed

    def growth(self, since_ms: int, least_ms: int) -> float | None:
        """Offsets per second since the newest point at or before ``since_ms``, or since the oldest point.

        None if that point is less than ``least_ms`` ago. It counts offsets, which include transaction markers.
        """
        now = self.points[-1]
        early = [p for p in self.points if p.timestamp_ms <= since_ms]
        start = early[-1] if early else self.points[0]
        passed_ms = now.timestamp_ms - start.timestamp_ms
        return None if passed_ms < max(1, least_ms) else (now.end - start.end) * 1000 / passed_ms
