"""What follows from two clocks, without any."""

from __future__ import annotations

import pytest

from kgroup.model.clock_difference import TOLERATED_MS, Clocks

NOW = 1_795_000_000_000
HOUR = 3_600_000
LITTLE = TOLERATED_MS


@pytest.mark.parametrize(
    ("clocks", "certain_ms", "warns"),
    [
        (Clocks(NOW, NOW, exact=True), NOW, None),
        (Clocks(NOW + LITTLE, NOW, exact=True), NOW + LITTLE, None),
        (Clocks(NOW - LITTLE, NOW, exact=True), NOW - LITTLE, None),
        (Clocks(NOW + LITTLE + 1, NOW, exact=True), NOW, " is 10s ahead of the brokers'"),
        (Clocks(NOW + HOUR, NOW, exact=True), NOW, " is 1h ahead of the brokers'"),
        (Clocks(NOW - HOUR, NOW, exact=True), NOW, " is 1h behind the brokers'"),
        # What was written last is only a lower bound: later is no contradiction, earlier is.
        (Clocks(NOW + HOUR, NOW, exact=False), NOW, None),
        (Clocks(NOW, NOW, exact=False), NOW, None),
        (Clocks(NOW - LITTLE, NOW, exact=False), NOW, None),
        (Clocks(NOW - HOUR, NOW, exact=False), NOW, " is at least 1h behind the brokers'"),
        (Clocks(NOW, None, exact=False), None, None),
    ],
)
def test_what_is_certain_and_what_is_warned_of(clocks: Clocks, certain_ms: int | None, warns: str | None) -> None:
    assert clocks.certain_ms == certain_ms
    assert (clocks.warning is None) == (warns is None)
    assert warns is None or warns in str(clocks.warning)


@pytest.mark.parametrize(
    ("clocks", "says"),
    [
        (Clocks(NOW + HOUR, NOW, exact=False), "newest timestamp in __consumer_offsets"),
        (Clocks(NOW, None, exact=False), "could not be read"),
    ],
)
def test_a_refusal_says_what_is_known_of_the_brokers(clocks: Clocks, says: str) -> None:
    error = clocks.refusal("g", 30 * 86_400)

    assert error.code == "clock-skew"
    assert error.message.startswith("g was idle for 30d only if")
    assert any(says in line for line in error.details)
