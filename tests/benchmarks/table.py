"""The table of results: as text for a terminal, as Markdown for docs/benchmarks.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from tests.benchmarks.measurement import Machine, Measurement, Result

HEADER = ("measured", "unit", "ours", "peer", "floor", "ratio", "hold", "spread", "also", "machine")


def as_text(results: Sequence[Result]) -> str:
    """All rows, aligned, with the name of the benchmark before each, and a line for each machine."""
    machines = _machines(results)
    rows: list[tuple[str, ...]] = [("benchmark", *HEADER)]
    rows += [
        (each.benchmark, *cells(row, machines.index(each.machine))) for each in results for row in each.measurements
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, "", *_machine_lines(machines)])


def as_markdown(results: Sequence[Result], about: Callable[[str], str]) -> str:
    """A heading and a table for each benchmark, with what it is ``about``, when it was run and with what else."""
    machines = _machines(results)
    parts = ["Machines:", "\n".join(f"- {line}" for line in _machine_lines(machines))]
    for result in results:
        rows = [HEADER, *(cells(row, machines.index(result.machine)) for row in result.measurements)]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        parts += [f"### {result.benchmark}", about(result.benchmark), _circumstances(result)]
        parts += ["\n".join([lines[0], "|" + "---|" * len(HEADER), *lines[1:]])]
    return "\n\n".join(parts)


def cells(row: Measurement, machine: int) -> tuple[str, ...]:
    """One row: medians, the ratio with its bounds, and on which of the machines."""
    missed = row.missed()
    holds = "; ".join(f"{hold}{' (missed)' * (hold in missed)}" for hold in row.holds)
    smallest, largest = (figure(each) for each in row.spread)
    return (
        row.name,
        row.unit,
        *(figure(statistics.median(samples)) if samples else "-" for samples in (row.ours, row.peer, row.floor)),
        "-" if row.ratio is None else figure(row.ratio),
        holds or "-",
        f"{smallest} to {largest}" if len(row.ours) > 1 else "-",
        ", ".join(f"{name} {figure(value)}" for name, value in row.also.items()) or "-",
        str(machine + 1),
    )


def figure(value: float) -> str:
    """Three digits, or all before the point: 0.012, 1.23, 12.3, 12, 12,345."""
    if value >= 100 or (value >= 10 and value == int(value)):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def _machines(results: Sequence[Result]) -> list[Machine]:
    return list(dict.fromkeys(result.machine for result in results))


def _machine_lines(machines: Sequence[Machine]) -> list[str]:
    return [f"machine {number}: {machine}" for number, machine in enumerate(machines, 1)]


def _circumstances(result: Result) -> str:
    sizes = "".join(f", {name} {value}" for name, value in result.sizes.items())
    note = f"; {result.note}" * bool(result.note)
    return f"Measured on {result.measured_at[:10]}, load average before it {result.load_before:.1f}{sizes}{note}."
