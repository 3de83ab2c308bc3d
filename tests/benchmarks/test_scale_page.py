"""The tables and the plot of docs/scale.md."""

from __future__ import annotations

from tests.benchmarks.catalogue import RESULTS, stored
from tests.benchmarks.scale_page import PLOT, plot, runs


def test_the_plot_of_the_manual_is_of_the_stored_results() -> None:
    assert PLOT.read_text(encoding="utf-8") == plot(runs(stored(RESULTS)))
