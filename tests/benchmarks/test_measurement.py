"""Ratios, spreads and bounds of measurements, and which results are kept."""

from __future__ import annotations

import pytest

from tests.benchmarks.measurement import Hold, Machine, Measurement, Result, merged, of_rates, rounded

MACHINE = Machine(2, 8, "any", "Linux x86_64", "3.12.1")


def measured(**more: object) -> Measurement:
    return Measurement(**{"name": "x", "unit": "s", "ours": (1.0, 2.0, 6.0), **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "ratio", "spread"),
    [
        (measured(), None, (1.0, 6.0)),
        (measured(peer=(2.0, 2.0, 12.0)), 0.5, (0.5, 1.0)),  # in turns: pair by pair
        (measured(peer=(4.0,)), 0.5, (0.25, 1.5)),
        (measured(floor=(0.5,)), 4.0, (2.0, 12.0)),
        (measured(peer=(4.0,), floor=(0.5,)), 0.5, (0.25, 1.5)),
    ],
    ids=["alone", "in turns", "one of the peer", "floor", "peer and floor"],
)
def test_ratio_and_spread(row: Measurement, ratio: float | None, spread: tuple[float, float]) -> None:
    assert row.ratio == ratio
    assert row.spread == spread


@pytest.mark.parametrize(
    ("hold", "kept"),
    [
        (Hold(at_most=0.5), True),
        (Hold(at_most=0.4), False),
        (Hold(at_least=0.5), True),
        (Hold(at_least=0.6), False),
        (Hold(at_most=2, of="ours"), True),
        (Hold(at_most=1.9, of="ours"), False),
        (Hold(at_most=300, of="peak_mb"), False),
    ],
    ids=str,
)
def test_holds(hold: Hold, kept: bool) -> None:
    row = measured(peer=(4.0,), holds=(hold,), also={"peak_mb": 301.0})

    assert row.missed() == ([] if kept else [hold])


def test_a_bound_of_a_figure_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        measured(holds=(Hold(at_most=1),)).missed()


def test_rates_are_better_when_they_are_higher() -> None:
    row = of_rates("x", 100, (2.0, 4.0), (1.0, 2.0))

    assert row.ours == (50.0, 25.0)
    assert row.ratio == 0.5


def test_four_digits_are_stored() -> None:
    row = rounded(measured(ours=(1.23456, 123456.0), peer=(0.000123456, 7.0), also={"peak_mb": 51.23456}))

    assert (row.ours, row.peer, row.also) == ((1.235, 123500.0), (0.0001235, 7.0), {"peak_mb": 51.23})


def test_new_results_replace_those_of_the_same_benchmark() -> None:
    def result(name: str, note: str) -> Result:
        return Result(name, "2026-01-01T00:00:00+00:00", MACHINE, 0.5, (measured(),), note=note)

    stored = [result("a", "old"), result("b", "old"), result("gone", "old")]

    assert merged(stored, [result("b", "new"), result("c", "new")], "cab") == [
        result("c", "new"),
        result("a", "old"),
        result("b", "new"),
    ]
