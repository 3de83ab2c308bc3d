"""What a change of members does to the group's lag, at the rate that its members were measured at. Pure."""

from __future__ import annotations

import msgspec

from kgroup.groups.lag.rates import Rates
from kgroup.groups.simulation.model import Balance


class MeasuredLag(msgspec.Struct, frozen=True):
    """The group's lag in offsets (None: unknown), and the rates at which offsets arrive and are committed.

    ``keeps_up`` is whether it reads all that arrives: then its members could read faster than they were measured.
    """

    lag: int | None
    rates: Rates
    keeps_up: bool


class LagEffect(msgspec.Struct, frozen=True):
    """The lag after a change. Members with partitions are expected to read as fast as those before it."""

    measured: MeasuredLag
    reading_before: int
    """Members that have partitions."""
    reading_after: int
    standstill: int | None
    """Offsets that arrive in partitions while no member reads them; None if the rate is unknown."""

    @property
    def per_member_s(self) -> float | None:
        """Offsets per second of one member before the change; None if unknown."""
        out = self.measured.rates.outgoing
        return out / self.reading_before if out and self.reading_before else None

    @property
    def needed_per_member_s(self) -> float | None:
        """Offsets per second that one member must read afterwards, so that the lag does not grow; None if unknown."""
        arriving = self.measured.rates.incoming
        return arriving / self.reading_after if arriving is not None and self.reading_after else None

    @property
    def out_after_per_s(self) -> float | None:
        """Offsets per second that the group would read afterwards; None if unknown, or if it keeps up before."""
        if not self.reading_after:
            return 0.0
        return None if self.per_member_s is None or self.measured.keeps_up else self.per_member_s * self.reading_after

    @property
    def growth_per_s(self) -> float | None:
        """By how much the lag then grows (negative: shrinks); None if unknown."""
        arriving, out = self.measured.rates.incoming, self.out_after_per_s
        return None if arriving is None or out is None else arriving - out

    @property
    def caught_up_s(self) -> float | None:
        """Seconds until the lag is 0: 600 offsets that shrink by 10/s need 60 s; None if it grows, or if unknown."""
        growth, lag = self.growth_per_s, self.measured.lag
        if lag is None or growth is None or growth >= 0:
            return None
        return (lag + (self.standstill or 0)) / -growth


def lag_effect(
    measured: MeasuredLag, before: Balance, after: Balance, partitions: int, partition_seconds: float
) -> LagEffect:
    """The effect of a change between two balances, with so many ``partition_seconds`` of standstill on the way.

    120 offsets/s in 12 partitions are 10/s each: 36 partition-seconds are 360 offsets.
    """
    arriving = measured.rates.incoming
    standstill = None if arriving is None or not partitions else round(arriving / partitions * partition_seconds)
    return LagEffect(
        measured,
        before.member_count - before.idle_member_count,
        after.member_count - after.idle_member_count,
        standstill,
    )
