"""Where a log ended at a moment, from the few moments at which that is known."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from kgroup.groups.lag.evidence import LogPoint


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Known ends of one log, oldest first, ends never falling. Between two of them the log is taken to grow evenly.

    Worked: with ends (0 ms, 100) and (10,000 ms, 200), the log ended at 150 after 5 s; a consumer that then committed
    130 was 20 behind. Before the first point nothing is known but that the log ended there at the latest.
    """

    points: tuple[LogPoint, ...]

    @classmethod
    def of(cls, points: Iterable[LogPoint], now: LogPoint) -> LogEnds:
        """Put what is known in order; ``now`` is the end that was read, and what contradicts it is dropped.

        Timestamps of records are their producers', so a point may lie in the future, or out of order.
        """
        kept = [now]
        for point in sorted(points, key=lambda p: (p.timestamp_ms, p.end), reverse=True):
            if point.timestamp_ms < kept[-1].timestamp_ms and point.end <= kept[-1].end:
                kept.append(point)
        return cls(tuple(reversed(kept)))

    def lag_at(self, timestamp_ms: int, committed: int) -> int | None:
        """How far a consumer at ``committed`` was behind then; None where too little is known.

        Exact where the bounds meet: a consumer that stood at 100 before the record 100 was there had read all.
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
        """Offsets a second from the newest point at or before ``since_ms`` until now, else from the oldest.

        None where no known moment is at least ``least_ms`` ago. Offsets count: transaction markers are among them.
        """
        now = self.points[-1]
        early = [p for p in self.points if p.timestamp_ms <= since_ms]
        start = early[-1] if early else self.points[0]
        passed_ms = now.timestamp_ms - start.timestamp_ms
        return None if passed_ms < max(1, least_ms) else (now.end - start.end) * 1000 / passed_ms
