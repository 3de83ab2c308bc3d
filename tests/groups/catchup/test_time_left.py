"""How long a replay still takes: its slowest part decides."""

from __future__ import annotations

import pytest

from kgroup.groups.catchup.time_left import time_left_s


@pytest.mark.parametrize(
    ("parts", "left_s"),
    [
        # Alike: the mean.
        ([(100, 10), (100, 10)], 10),
        # A hot partition: the others have ended long before it.
        ([(100, 50), (1000, 10)], 100),
        ([(0, 50), (0, 50), (1000, 10)], 100),
        # A part that has ended adds no speed to what is left.
        ([(0, 1000), (100, 10)], 10),
        # Eight wait for two that run: the whole decides.
        ([(100, 10), (100, 10), *[(100, 0)] * 8], 50),
        # One of those that wait is larger than all others together.
        ([(10, 10), (10, 10), (5000, 0)], 500),
        # Nothing is left, or nothing moves.
        ([], 0),
        ([(0, 0)], 0),
        ([(5, 0), (0, 7)], None),
    ],
)
def test_time_left(parts: list[tuple[float, float]], left_s: float | None) -> None:
    assert time_left_s(parts) == left_s
