"""``--yield-to``: from what was observed of a group's lag to the rate of its replay."""

from __future__ import annotations

import pytest

from kgroup.groups.catchup.chunks import RateLimit
from kgroup.groups.catchup.yielding import MOST_HALVINGS, Yielding, parse_yield, time_lag_ms
from kgroup.groups.wait_conditions import LagTimeBelow, Observation
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import UsageError
from tests.helpers.cases.observed_groups import group

BOUND_MS = 5_000
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.mark.parametrize(
    ("lags", "halvings"),
    [
        ([], []),
        ([0, 4_999, 5_000], [0, 0, 0]),
        # Above the bound: from the second observation on, if it grows.
        ([6_000, 7_000, 8_000, 8_000, 7_500], [0, 1, 2, 2, 2]),
        # Growing, but below the bound: as any group between two commits.
        ([1_000, 2_000, 3_000], [0, 0, 0]),
        # The first observation above the bound grows from one below it.
        ([4_000, 6_000, 4_000], [0, 1, 0]),
        ([4_000, 6_000, 8_000, 10_000, 3_000, 3_000, 3_000, 3_000], [0, 1, 2, 3, 2, 1, 0, 0]),
        # What is not known changes nothing, and what comes after it is not compared with what was before.
        ([4_000, 6_000, None, 9_000, 10_000], [0, 1, 1, 1, 2]),
        ([None, 9_000, 9_001], [0, 0, 1]),
        ([6_000 + 1_000 * step for step in range(10)], [0, 1, 2, 3, 4, 5, 6, 6, 6, 6]),
    ],
)
def test_the_rate_is_halved_while_the_lag_grows_and_doubled_below_the_bound(
    lags: list[int | None], halvings: list[int]
) -> None:
    yielding, seen = Yielding(), []
    for lag in lags:
        yielding = yielding.after(lag, BOUND_MS, 1000.0)
        seen.append(yielding.halvings)

    assert seen == halvings
    assert max(seen, default=0) <= MOST_HALVINGS


@pytest.mark.parametrize(
    ("yielding", "rate", "limit"),
    [
        (Yielding(), None, None),
        (Yielding(), RateLimit(500), RateLimit(500)),
        (Yielding(1), RateLimit(500), RateLimit(250)),
        (Yielding(3), RateLimit(None, 20e6), RateLimit(None, 2.5e6)),
        (Yielding(2, full=80e6), None, RateLimit(None, 20e6)),
        (Yielding(2, full=80e6), RateLimit(100), RateLimit(25)),
        (Yielding(1), None, None),
    ],
)
def test_the_rate_in_force(yielding: Yielding, rate: RateLimit | None, limit: RateLimit | None) -> None:
    assert yielding.limited(rate) == limit


def test_without_a_limit_it_halves_what_it_delivered_before_it_yielded() -> None:
    """The speed that it has after the first halving is its own limit, not what the machine can do."""
    one = Yielding(0, 6_000).after(7_000, BOUND_MS, 80e6)
    two = one.after(8_000, BOUND_MS, 40e6)
    assert [each.limited(None) for each in (one, two)] == [RateLimit(None, 40e6), RateLimit(None, 20e6)]
    back = two.after(0, BOUND_MS, 20e6).after(0, BOUND_MS, 40e6)
    assert (back.limited(None), back.full) == (None, None)
    assert back.after(6_000, BOUND_MS, 60e6).limited(None) == RateLimit(None, 30e6)


@pytest.mark.parametrize("bytes_per_s", [None, 0.0])
def test_a_replay_that_delivers_nothing_does_not_yield(bytes_per_s: float | None) -> None:
    """While its executors start, or while it waits for a broker. What was halved before stays so."""
    idle = Yielding(0, 6_000).after(7_000, BOUND_MS, bytes_per_s)
    assert idle == Yielding(0, 7_000)
    halved = idle.after(8_000, BOUND_MS, 80e6).after(9_000, BOUND_MS, bytes_per_s)
    assert halved == Yielding(1, 9_000, 80e6)


@pytest.mark.parametrize(
    ("observation", "expected"),
    [
        (Observation("svc", group("Stable"), 10_000, {}), 0),
        (Observation("svc", group("Stable"), 10_000, {P0: 4_000, P1: 9_000}), 6_000),
        (Observation("svc", group("Stable"), 10_000, {P0: None, P1: 9_000}), 1_000),
        (Observation("svc", group("Stable"), 10_000, {P0: None}), None),
        (Observation("svc", group("Stable"), 10_000, {P0: -1}), None),
        (Observation("svc", group("Stable"), 10_000, {P0: 12_000}), 0),
        # It has no members: the replay cannot make it late.
        (Observation("svc", group(state="Empty"), 10_000, {P0: 4_000}), 0),
        (Observation("svc", None, 10_000), 0),
    ],
)
def test_how_late_a_group_is(observation: Observation, expected: int | None) -> None:
    assert time_lag_ms(observation) == expected


def test_how_it_is_typed() -> None:
    assert parse_yield("lag-time=5s") == LagTimeBelow(5.0)
    assert parse_yield("off") is parse_yield("") is None


@pytest.mark.parametrize("text", ["lag=5", "empty", "5s", "lag-time=0s", "lag-time", "lag-time=x", "none"])
def test_what_is_no_bound(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--yield-to "):
        parse_yield(text)
