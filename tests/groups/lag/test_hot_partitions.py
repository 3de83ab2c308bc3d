"""With what the records of a partition are compared."""

from __future__ import annotations

from itertools import product
from statistics import median

import pytest

from kgroup.groups.lag.hot_partitions import median_of_others


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_the_median_of_the_others_is_exact(count: int) -> None:
    for values in product([0.0, 1.5, 2.0, 7.25], repeat=count):
        for at, value in enumerate(values):
            others = values[:at] + values[at + 1 :]
            assert median_of_others(sorted(values), value) == median(others), (values, value)
