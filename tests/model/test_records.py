"""Ranges of offsets, each offset once."""

from __future__ import annotations

import pytest

from kgroup.model.records import OffsetRange, merged


def of(*spans: tuple[int, int], partition: int = 0) -> list[OffsetRange]:
    return [OffsetRange("t", partition, start, end) for start, end in spans]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (of(), of()),
        (of((3, 3), (5, 4)), of()),
        (of((0, 5)), of((0, 5))),
        (of((3, 8), (0, 5)), of((0, 8))),
        (of((0, 10), (2, 3)), of((0, 10))),
        (of((0, 5), (5, 8)), of((0, 8))),
        (of((0, 5), (6, 8)), of((0, 5), (6, 8))),
        (of((4, 6), (0, 5), (4, 6), (9, 12)), of((0, 6), (9, 12))),
        (of((0, 5), partition=1) + of((3, 8)), of((3, 8)) + of((0, 5), partition=1)),
    ],
)
def test_ranges_are_merged(given: list[OffsetRange], expected: list[OffsetRange]) -> None:
    assert merged(given) == expected


def test_what_a_range_is_called() -> None:
    assert str(OffsetRange("orders", 3, 7, 9)) == "orders:3 [7, 9)"
    assert OffsetRange("orders", 3, 7, 9).offsets == 2
    assert OffsetRange("orders", 3, 9, 7).offsets == 0
