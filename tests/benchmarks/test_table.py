"""The table of results, as text and as Markdown."""

from __future__ import annotations

import pytest

from tests.benchmarks.measurement import Hold, Machine, Measurement, Result
from tests.benchmarks.table import as_markdown, as_text, cells, figure

SMALL, LARGE = (Machine(cores, 8, "any", "Linux x86_64", "3.12.1") for cores in (2, 16))
COMPARED = Measurement("read", "s", (1.0, 2.0, 3.0), (4.0,), holds=(Hold(at_most=0.4), Hold(at_most=60, of="peak_mb")))
FIRST = Result(
    "reading",
    "2026-01-02T03:04:05+00:00",
    SMALL,
    1.25,
    (Measurement("alone", "MB", (12.0,)), Measurement("floored", "s", (2.0,), floor=(1.0,), also={"requests": 17.0})),
)
SECOND = Result(
    "writing", "2026-01-03T03:04:05+00:00", LARGE, 0.0, (Measurement("all", "s", (1.0,)),), {"runs": 1}, "alone"
)


def test_cells() -> None:
    row = Measurement(
        **{**{name: getattr(COMPARED, name) for name in COMPARED.__struct_fields__}, "also": {"peak_mb": 51.5}}
    )

    assert cells(row, 0) == (
        "read",
        "s",
        "2.00",
        "4.00",
        "-",
        "0.50",
        "at most 0.4 (missed); peak_mb at most 60",
        "0.25 to 0.75",
        "peak_mb 51.5",
        "1",
    )


def test_text_has_all_rows_and_machines() -> None:
    lines = as_text([FIRST, SECOND]).splitlines()

    assert [line.split() for line in lines[:4]] == [
        ["benchmark", "measured", "unit", "ours", "peer", "floor", "ratio", "hold", "spread", "also", "machine"],
        ["reading", "alone", "MB", "12", "-", "-", "-", "-", "-", "-", "1"],
        ["reading", "floored", "s", "2.00", "-", "1.00", "2.00", "-", "-", "requests", "17", "1"],
        ["writing", "all", "s", "1.00", "-", "-", "-", "-", "-", "-", "2"],
    ]
    assert lines[-2:] == [f"machine 1: {SMALL}", f"machine 2: {LARGE}"]


def test_markdown_has_a_table_for_each_benchmark() -> None:
    text = as_markdown([FIRST, SECOND], lambda name: f"About {name}.")

    assert text.count("| measured | unit |") == 2
    assert "### reading\n\nAbout reading.\n\nMeasured on 2026-01-02, load average before it 1.2.\n\n| measured" in text
    assert "### writing\n\nAbout writing.\n\nMeasured on 2026-01-03, load average before it 0.0, runs 1; alone." in text
    assert "| floored | s | 2.00 | - | 1.00 | 2.00 | - | - | requests 17 | 1 |" in text
    assert "| all | s | 1.00 | - | - | - | - | - | - | 2 |" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(12345.6, "12,346"), (100, "100"), (51.46, "51.5"), (17, "17"), (2, "2.00"), (0.256, "0.26"), (0.0123, "0.012")],
)
def test_figure(value: float, text: str) -> None:
    assert figure(value) == text
