"""Numbers in verdicts and totals."""

from __future__ import annotations

import re

import pytest

from kgroup.support.units import bar, human_count, percent, plural, some_of
from tests.helpers.for_each import for_each

_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (1, "1"),
        (999, "999"),
        (3120, "3120"),
        (9_999, "9999"),
        (10_000, "10.0k"),
        (15_310, "15.3k"),
        (99_949, "99.9k"),
        (99_950, "100k"),
        (812_000, "812k"),
        (999_499, "999k"),
        (999_500, "1.00M"),
        (1_000_000, "1.00M"),
        (3_940_025, "3.94M"),
        (4_099_000, "4.10M"),
        (9_999_499_999, "10.0G"),
        (41_203_377, "41.2M"),
        (999_499_999_999, "999G"),
        (999_500_000_000, "1.00T"),
        (10**12, "1.00T"),
        (123 * 10**12, "123T"),
    ],
)
def test_human_count(number: int, text: str) -> None:
    assert human_count(number) == text


@for_each("exponent", range(4, 19))
@for_each("lead", [1.0, 1.004, 9.949, 9.951, 9.994, 9.995, 9.996, 9.9995, 9.99949, 9.99951])
def test_human_count_is_near_the_number(exponent: int, lead: float) -> None:
    number = int(lead * 10**exponent)

    text = human_count(number)

    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kMGT]?)", text)
    assert match, text
    assert float(match[1]) * _FACTORS[match[2]] == pytest.approx(number, rel=0.006), text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(96, 100, "96%"), (0, 100, "0%"), (100, 100, "100%"), (1, 1000, "<1%"), (1, 3, "33%"), (0, 0, "0%")],
)
def test_percent(part: int, whole: int, text: str) -> None:
    assert percent(part, whole) == text


@pytest.mark.parametrize(
    ("done", "total", "text"),
    [
        (0, 80, "[----]"),
        (20, 80, "[#---]"),
        (79, 80, "[###-]"),
        (80, 80, "[####]"),
        (0, 0, "[####]"),
        (-5, 80, "[----]"),
    ],
)
def test_a_bar_is_full_only_if_all_is_done(done: int, total: int, text: str) -> None:
    assert bar(done, total, 4) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 members"), (1, "1 member"), (2, "2 members")])
def test_plural(count: int, text: str) -> None:
    assert plural(count, "member") == text


def test_the_first_names_and_how_many_more() -> None:
    assert some_of(["a", "b", "c"]) == "a, b, c"
    assert some_of(["a", "b", "c", "d"]) == "a, b, c and 1 more"
    assert some_of(["a", "b"], most=1) == "a and 1 more"
