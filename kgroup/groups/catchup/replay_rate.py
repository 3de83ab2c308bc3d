"""How fast a replay delivers, and how long it still takes: from what the ledger showed at several moments. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kgroup.groups.catchup.model import AppliedRate, RangeVerification
from kgroup.groups.catchup.time_left import time_left_s
from kgroup.groups.catchup.verification import Verification
from kgroup.groups.lag.rates import rate_words
from kgroup.support.durations import format_duration
from kgroup.support.units import human_bytes

WINDOW_MS = 60_000
"""Rates are averages over this time: a task writes its progress to the ledger only every few seconds."""

RangeKey = tuple[str, int, int]
"""Topic, partition and start offset of one range of a plan."""


class ReplayRate(msgspec.Struct, frozen=True):
    """Offsets per second, in total and of each range, over ``span_ms``; ``left_s`` is None if nothing moves."""

    per_s: float
    left_s: float | None
    span_ms: int
    ranges: Mapping[RangeKey, float]


class ReplaySamples(msgspec.Struct, frozen=True):
    """The delivered offsets of each range at several moments, oldest first."""

    samples: tuple[tuple[int, Mapping[RangeKey, int]], ...] = msgspec.field(default=())

    def after(self, at_ms: int, verification: Verification) -> ReplaySamples:
        """With one more; those are dropped that a rate of the last minute does not need."""
        now = (at_ms, {range_key(row): delivered_offsets(row) for row in verification.partitions})
        kept = [*self.samples, now]
        while len(kept) > 1 and kept[1][0] <= at_ms - WINDOW_MS:
            del kept[0]
        return ReplaySamples(tuple(kept))

    def rate(self, verification: Verification) -> ReplayRate | None:
        """The rate since the first sample, and the time until the slowest range ends; None before the second sample.

        600 offsets in 60 s are 10/s: 1,200 pending ones of one range take 120 s.
        """
        if len(self.samples) < 2:
            return None
        (first_ms, first), (last_ms, last) = self.samples[0], self.samples[-1]
        span_ms = last_ms - first_ms
        if span_ms <= 0:
            return None
        ranges = {key: max(0.0, (count - first.get(key, 0)) * 1000 / span_ms) for key, count in last.items()}
        left_s = time_left_s((pending_offsets(row), ranges[range_key(row)]) for row in verification.partitions)
        return ReplayRate(sum(ranges.values()), left_s, span_ms, ranges)


def range_key(row: RangeVerification) -> RangeKey:
    return row.topic, row.partition, row.start


def delivered_offsets(row: RangeVerification) -> int:
    """Offsets of the range that are delivered, also those above one that is not."""
    return row.end - row.start - pending_offsets(row)


def pending_offsets(row: RangeVerification) -> int:
    """Offsets of the range that are not delivered."""
    return sum(part.offsets for part in row.undelivered)


def applied_text(applied: AppliedRate) -> str:
    """``5.0 MiB/s``, ``no limit``; ``1.2 MiB/s, halved 2 times; the group is 12s late``."""
    limit = "no limit"
    if applied.bytes is not None:
        limit = f"{human_bytes(round(applied.bytes))}/s"
    elif applied.records is not None:
        limit = rate_words(applied.records)
    if applied.halvings:
        limit += f", halved {applied.halvings} times" if applied.halvings > 1 else ", halved once"
    if applied.time_lag_ms is not None:
        limit += f"; the group is {format_duration(applied.time_lag_ms / 1000)} late"
    return limit
