"""A series of values in one line of text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroup.output.pages.sparkline import sparkline


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], ""),
        ([3], "▁"),
        ([3, 3, 3], "▁▁▁"),
        ([0, 5, 10], "▁▅█"),
        ([0.0, 0.5, 1.0], "▁▅█"),
        ([10, 5, 0], "█▅▁"),
        ([None, 0, None, 10], " ▁ █"),
        ([None, None], "  "),
        ([1_000_000, 1_000_001], "▁█"),
    ],
)
def test_sparkline(values: Sequence[float | None], text: str) -> None:
    assert sparkline(values) == text


@given(st.lists(st.one_of(st.none(), st.integers(0, 10**15), st.floats(0, 1e9))))
def test_a_sparkline_is_as_long_as_its_values(values: list[float | None]) -> None:
    assert len(sparkline(values)) == len(values)
