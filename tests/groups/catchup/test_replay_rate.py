"""How fast a replay delivers, from what the ledger showed at several moments."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kgroup.groups.catchup.model import Chunk
from kgroup.groups.catchup.replay_rate import ReplaySamples
from kgroup.groups.catchup.verification import Verification, verify
from tests.helpers.catchup.plans import gap_range, ledgered, made, make_plan

PLAN = make_plan(
    gap_range(0, 0, 1000),
    gap_range(1, 0, 1000),
    chunks=(Chunk("orders", 0, 0, 500, 0), Chunk("orders", 0, 500, 1000, 1), Chunk("orders", 1, 0, 1000, 2)),
)
Moment = tuple[int, int, int, int]
"""Seconds, and what the three chunks are delivered to."""


def sampled(*moments: Moment) -> ReplaySamples:
    samples = ReplaySamples()
    for at_s, *to in moments:
        samples = samples.after(at_s * 1000, verified(*to))
    return samples


def verified(*to: int) -> Verification:
    return verify(ledgered(PLAN, progress=[made(number, offset) for number, offset in enumerate(to)]))


@pytest.mark.parametrize(
    ("moments", "per_s", "left_s", "span_s", "ranges"),
    [
        ([(0, 0, 500, 0), (10, 100, 500, 0)], 10, 190, 10, [10, 0]),
        # A chunk above one that is not delivered counts. The slower partition decides: 900 offsets at 10/s.
        ([(0, 0, 500, 0), (10, 0, 1000, 100)], 60, 90, 10, [50, 10]),
        # An average since the first refresh: tasks write in steps.
        ([(0, 0, 500, 0), (2, 100, 500, 0), (4, 100, 500, 0)], 25, 76, 4, [25, 0]),
        # ... of the last minute.
        ([(0, 0, 500, 0), (30, 300, 500, 0), (90, 360, 500, 0)], 1, 1640, 60, [1, 0]),
        ([(0, 100, 500, 0), (10, 100, 500, 0)], 0, None, 10, [0, 0]),
        ([(0, 500, 1000, 0), (10, 500, 1000, 1000)], 100, 0, 10, [0, 100]),
    ],
)
def test_rates(
    moments: Sequence[Moment], per_s: float, left_s: float | None, span_s: int, ranges: Sequence[float]
) -> None:
    rate = sampled(*moments).rate(verified(*moments[-1][1:]))

    assert rate is not None
    assert rate.per_s == pytest.approx(per_s)
    assert rate.left_s == (None if left_s is None else pytest.approx(left_s))
    assert rate.span_ms == span_s * 1000
    assert rate.ranges == pytest.approx({("orders", number, 0): value for number, value in enumerate(ranges)})


def test_one_refresh_shows_no_rate() -> None:
    now = verified(9, 500, 0)
    assert sampled().rate(now) is None
    assert sampled((0, 0, 500, 0)).rate(now) is None
    assert sampled((0, 0, 500, 0), (0, 9, 500, 0)).rate(now) is None, "the clock stood still"
