"""The tables and the plot of docs/scale.md, from stored results of the benchmark ``scale``."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle

from tests.benchmarks.measurement import Result
from tests.benchmarks.scale import PARTITIONS, VERBS
from tests.benchmarks.table import figure
from tests.helpers.places import ROOT

PLOT = ROOT / "docs" / "img" / "scale.svg"
SHOWN = ("lag csv", "lag", "doctor", "reset", "delete", "describe json", "describe csv", "export", "list")
"""The names of VERBS that the page shows."""

Also = Mapping[str, float]
"""The figures of one run: ``cpu_s``, ``peak_mb`` and others."""

_WIDTH, _HEIGHT = 840, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 310, 20, 50
_LABEL_PX = 16
_COLOURS = ("#0b61a4", "#c1272d", "#2e7d32", "#7b3fa0", "#b36b00", "#00838f", "#5d4037", "#455a64", "#ad1457")


def runs(results: Iterable[Result]) -> dict[str, dict[int, Also]]:
    """The figures of each verb that is shown, by the number of groups, ascending."""
    (scale,) = (result for result in results if result.benchmark == "scale")
    found: dict[str, dict[int, Also]] = {verb: {} for verb in SHOWN}
    for row in scale.measurements:
        name = re.fullmatch(r"`(.+)`, ([\d,]+) groups", row.name)
        assert name, row.name
        if name[1] in found:
            found[name[1]][int(name[2].replace(",", ""))] = row.also
    return {verb: dict(sorted(of_verb.items())) for verb, of_verb in found.items()}


def cpu_table(found: Mapping[str, Mapping[int, Also]]) -> str:
    """Microseconds of CPU for each partition of each group, and in brackets the seconds in all."""
    return _table(found, lambda size, also: f"{figure(each_us(size, also))} ({figure(also['cpu_s'])})")


def memory_table(found: Mapping[str, Mapping[int, Also]]) -> str:
    """The largest resident memory in MB."""
    return _table(found, lambda _, also: figure(also["peak_mb"]))


def each_us(size: int, also: Also) -> float:
    """Microseconds of CPU for each partition of each group."""
    return also["cpu_s"] / size / PARTITIONS * 1e6


def _table(found: Mapping[str, Mapping[int, Also]], cell: Callable[[int, Also], str]) -> str:
    sizes = sorted({size for of_verb in found.values() for size in of_verb})
    lines = [["command", *(f"{size:,} groups" for size in sizes)], ["---"] * (1 + len(sizes))]
    for verb, of_verb in found.items():
        cells = (cell(size, of_verb[size]) if size in of_verb else "-" for size in sizes)
        lines.append([f"`{' '.join(VERBS[verb])}`", *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plot(found: Mapping[str, Mapping[int, Also]]) -> str:
    """Microseconds of CPU for a partition against the number of groups, as SVG; both axes are logarithmic."""
    costs = {verb: [(size, each_us(size, also)) for size, also in of_verb.items()] for verb, of_verb in found.items()}
    sizes = sorted({size for line in costs.values() for size, _ in line})
    all_us = [us for line in costs.values() for _, us in line]
    across = _Axis(sizes[0], sizes[-1], _LEFT, _WIDTH - _RIGHT)
    up = _Axis(
        10 ** math.floor(math.log10(min(all_us))), 10 ** math.ceil(math.log10(max(all_us))), _HEIGHT - _BOTTOM, _TOP
    )
    parts = [
        *(
            _line(_LEFT, up.at(us), _WIDTH - _RIGHT, up.at(us)) + _text(_LEFT - 8, up.at(us) + 4, f"{us:g}", "end")
            for us in up.ticks()
        ),
        *(
            _line(across.at(n), _TOP, across.at(n), _HEIGHT - _BOTTOM)
            + _text(across.at(n), _HEIGHT - _BOTTOM + 18, f"{n:,}")
            for n in sizes
        ),
        _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 10, "groups of 100 partitions"),
        f'<g transform="rotate(-90 16 {_HEIGHT / 2})">{_text(16, _HEIGHT / 2, "µs of CPU for a partition")}</g>',
    ]
    label_ys = _apart([up.at(line[-1][1]) for line in costs.values()])
    for (verb, line), colour, label_y in zip(costs.items(), cycle(_COLOURS), label_ys, strict=False):
        points = [(across.at(size), up.at(us)) for size, us in line]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{_points(points)}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        (x, y), label_x = points[-1], _WIDTH - _RIGHT + 16
        parts.append(f'<polyline fill="none" stroke="{colour}" points="{_points([(x, y), (label_x - 2, label_y)])}"/>')
        parts.append(_text(label_x, label_y + 4, " ".join(VERBS[verb]), "start", colour))
    head = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif">'
    background = f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>'
    return "\n".join([head, background, *parts, "</svg>", ""])


class _Axis:
    """A logarithmic axis from the value ``low`` at ``start`` to ``high`` at ``end`` (pixels)."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low, self._high, self._start, self._end = low, high, start, end

    def at(self, value: float) -> float:
        """Where a value is."""
        share = math.log(value / self._low) / math.log(self._high / self._low)
        return self._start + share * (self._end - self._start)

    def ticks(self) -> list[float]:
        """1, 2 and 5 of each power of ten."""
        powers = range(round(math.log10(self._low)), round(math.log10(self._high)) + 1)
        return [tick for power in powers for step in (1, 2, 5) if (tick := step * 10.0**power) <= self._high]


def _apart(ys: Sequence[float]) -> list[float]:
    """These heights, moved down where a label would cover another."""
    moved, last = [0.0] * len(ys), -math.inf
    for at in sorted(range(len(ys)), key=ys.__getitem__):
        moved[at] = last = max(ys[at], last + _LABEL_PX)
    return moved


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dddddd"/>'


def _text(x: float, y: float, text: str, anchor: str = "middle", colour: str = "#333333") -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {where} font-size="12" fill="{colour}">{html.escape(text)}</text>'
