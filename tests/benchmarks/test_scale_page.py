"""The tables and the plot of docs/scale.md."""

from __future__ import annotations

import re
from itertools import pairwise

from tests.benchmarks.catalogue import RESULTS, stored
from tests.benchmarks.scale_page import PLOT, cpu_table, memory_table, plot, runs

FOUND = {
    "lag": {100: {"cpu_s": 0.5, "peak_mb": 40.0}, 1000: {"cpu_s": 1.0, "peak_mb": 50.0}},
    "list": {1000: {"cpu_s": 0.4, "peak_mb": 35.3}},
}


def test_cost_of_a_partition_and_seconds_in_all() -> None:
    assert cpu_table(FOUND).splitlines() == [
        "| command | 100 groups | 1,000 groups |",
        "| --- | --- | --- |",
        "| `lag -A` | 50 (0.50) | 10 (1.00) |",
        "| `list` | - | 4.00 (0.40) |",
    ]


def test_memory() -> None:
    assert memory_table(FOUND).splitlines()[2:] == ["| `lag -A` | 40 | 50 |", "| `list` | - | 35.3 |"]


def test_a_line_for_each_verb_from_left_to_right() -> None:
    drawn = plot(FOUND)
    lines = re.findall(r'stroke-width="2" points="(.*?)"', drawn)
    first, last = (tuple(map(float, point.split(","))) for point in lines[0].split())

    assert len(lines) == 2
    assert first[0] < last[0], "more groups are further to the right"
    assert first[1] < last[1], "a lower cost is further down"
    assert re.findall(r'"start" [^>]*>(.*?)<', drawn) == ["lag -A", "list"]


def test_labels_do_not_cover_each_other() -> None:
    drawn = plot(dict.fromkeys(("lag", "doctor", "export"), FOUND["lag"]))
    heights = [float(y) for y in re.findall(r'y="([\d.]+)" text-anchor="start"', drawn)]

    assert [later - earlier for earlier, later in pairwise(heights)] == [16, 16]


def test_the_plot_of_the_manual_is_of_the_stored_results() -> None:
    assert PLOT.read_text(encoding="utf-8") == plot(runs(stored(RESULTS)))
