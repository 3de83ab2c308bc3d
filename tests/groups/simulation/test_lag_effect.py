"""What a change does to the lag: at which rate members would read, whether it shrinks, and until when."""

from __future__ import annotations

import pytest

from kgroup.groups.lag.rates import Rates
from kgroup.groups.simulation.documents import LagEffectDocument, lag_effect_document
from kgroup.groups.simulation.lag_effect import MeasuredLag, lag_effect
from kgroup.groups.simulation.model import Balance
from kgroup.output.pages.simulate import lag_text


def members(count: int, idle: int = 0) -> Balance:
    return Balance(count, idle, 0, 4)


@pytest.mark.parametrize(
    ("measured", "before", "after", "partition_seconds", "text"),
    [
        (
            MeasuredLag(202_752, Rates(49, 40, 600_000), False),
            members(4),
            members(6),
            0,
            "203k, 49/s arrive (10m), 4 members read 10/s each: 6 members would read 60/s and catch up in 5h7m",
        ),
        (
            MeasuredLag(1000, Rates(49, 40, 600_000), False),
            members(4),
            members(3),
            0,
            "1000, 49/s arrive (10m), 4 members read 10/s each: 3 members would read 30/s, "
            "so that the lag grows by 19/s",
        ),
        # An idle member reads nothing.
        (
            MeasuredLag(1000, Rates(60, 60, 600_000), False),
            members(12),
            members(13, idle=1),
            0,
            "1000, 60/s arrive (10m), 12 members read 5/s each: 12 members would read 60/s, as much as arrives",
        ),
        # Members that keep up can read faster than they do: the need is known, not the rate.
        (
            MeasuredLag(3, Rates(48, 48, 600_000), True),
            members(3),
            members(2),
            36,
            "3, 48/s arrive (10m), 3 members read 16/s each: each of 2 members would have to read 24/s; "
            "144 arrive during standstills",
        ),
        (
            MeasuredLag(0, Rates(48, None, 600_000), True),
            members(1),
            members(1),
            0,
            "0, 48/s arrive (10m), the rate of its members is unknown: 1 member would have to read 48/s",
        ),
        (
            MeasuredLag(5, Rates(48, 48, 600_000), True),
            members(1),
            members(0),
            0,
            "5, 48/s arrive (10m), 1 member reads 48/s: no member would read",
        ),
        # What arrives while partitions stand still is read too: (600 + 120) / 10 per second.
        (
            MeasuredLag(600, Rates(10, 10, 600_000), False),
            members(1),
            members(2),
            144,
            "600, 10/s arrive (10m), 1 member reads 10/s: 2 members would read 20/s and catch up in 1m12s; "
            "120 arrive during standstills",
        ),
        (
            MeasuredLag(5, Rates(None, 48, 600_000), False),
            members(1),
            members(2),
            36,
            "the effect is unknown, because the rate of arriving records is unknown",
        ),
    ],
)
def test_what_is_shown(
    measured: MeasuredLag, before: Balance, after: Balance, partition_seconds: float, text: str
) -> None:
    assert lag_text(lag_effect(measured, before, after, 12, partition_seconds)) == text


def test_the_document() -> None:
    effect = lag_effect(MeasuredLag(600, Rates(10, 10, 600_000), False), members(1), members(2), 12, 144)

    assert lag_effect_document(effect) == LagEffectDocument(
        lag=600,
        keeps_up=False,
        in_per_s=10,
        out_per_s=10,
        rate_span_ms=600_000,
        reading_member_count_before=1,
        reading_member_count_after=2,
        out_per_member_per_s=10,
        needed_per_member_per_s=5,
        out_after_per_s=20,
        standstill_offset_count=120,
        caught_up_in_ms=72_000,
    )
