"""The table of results, as text and as Markdown."""

from __future__ import annotations

from tests.benchmarks.measurement import Machine, Measurement, Result
from tests.benchmarks.table import as_text

SMALL, LARGE = (Machine(cores, 8, "any", "Linux x86_64", "3.12.1") for cores in (2, 16))
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


def test_text_has_all_rows_and_machines() -> None:
    lines = as_text([FIRST, SECOND]).splitlines()

    assert [line.split() for line in lines[:4]] == [
        ["benchmark", "measured", "unit", "ours", "peer", "floor", "ratio", "hold", "spread", "also", "machine"],
        ["reading", "alone", "MB", "12", "-", "-", "-", "-", "-", "-", "1"],
        ["reading", "floored", "s", "2.00", "-", "1.00", "2.00", "-", "-", "requests", "17", "1"],
        ["writing", "all", "s", "1.00", "-", "-", "-", "-", "-", "-", "2"],
    ]
    assert lines[-2:] == [f"machine 1: {SMALL}", f"machine 2: {LARGE}"]
