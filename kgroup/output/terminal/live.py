"""Lines that are redrawn in place while something runs: the total progress, and a bar for each part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from kgroup.model.reporter import ProgressPart
from kgroup.support.quoting import visible
from kgroup.support.units import bar, human_count, percent

PARTS_SHOWN = 8
_A_SECOND = 4
_GAP = "   "
_LABEL_WIDTH, _BAR_WIDTH, _SHORTEST_BAR = 30, 60, 10


def head_lines(label: str, done: int, total: int, facts: Sequence[str], width: int) -> list[str]:
    """``replay   61%   6.12M records   142k/s   28s left``; facts that do not fit continue on further lines."""
    first = f"{visible(label)}{_GAP}"
    lines = [first + (percent(done, total) if total else "-")]
    for fact in facts:
        longer = f"{lines[-1]}{_GAP}{visible(fact)}"
        if len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(" " * len(first) + visible(fact))
    return [line[:width] for line in lines]


def part_lines(parts: Sequence[ProgressPart], width: int) -> list[str]:
    """``clicks   [########----]   61%   6.12M of 10.0M`` per part; if there are many, those with the most left."""
    shown = list(parts)
    if len(parts) > PARTS_SHOWN:
        slowest = sorted(parts, key=lambda part: (part.done - part.total, part.label))[:PARTS_SHOWN]
        rest = [part for part in parts if part not in slowest]
        others = ProgressPart(f"{len(rest)} others", sum(part.done for part in rest), sum(part.total for part in rest))
        shown = [*(part for part in parts if part in slowest), others]
    rows = [
        (
            _cut(visible(part.label)),
            percent(part.done, part.total) if part.total else "100%",
            f"{human_count(part.done)} of {human_count(part.total)}",
        )
        for part in shown
    ]
    labels, shares, counts = (max((len(row[column]) for row in rows), default=0) for column in range(3))
    room = min(_BAR_WIDTH, width - labels - shares - counts - 3 * len(_GAP) - 2)
    lines = []
    for part, (label, share, count) in zip(shown, rows, strict=True):
        line = f"{label:<{labels}}{_GAP}"
        if room >= _SHORTEST_BAR:
            line += f"{bar(part.done, part.total, room)}{_GAP}"
        lines.append(f"{line}{share:>{shares}}{_GAP}{count:>{counts}}"[:width])
    return lines


def _cut(label: str) -> str:
    return label if len(label) <= _LABEL_WIDTH else label[: _LABEL_WIDTH - 1] + "…"


class LiveProgress:
    """A Progress in a terminal; messages are written above it. A context manager that removes its lines at the end."""

    def __init__(self, stream: IO[str], label: str, total: int) -> None:
        self._label, self._total = label, total
        self._done = 0
        self._facts: tuple[str, ...] = ()
        self._parts: tuple[ProgressPart, ...] = ()
        # No colours or line breaks by rich: lines are cut to the terminal's width when they are drawn.
        self._console = Console(file=stream, highlight=False, markup=False)
        self._live = Live(
            self,
            console=self._console,
            refresh_per_second=_A_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> LiveProgress:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(1, options.max_width - 1)  # some terminals add an empty line after a full one
        lines = head_lines(self._label, self._done, self._total, self._facts, width) + part_lines(self._parts, width)
        yield Text("\n".join(lines[: max(1, options.size.height - 1)]), no_wrap=True)

    def update(self, done: int, text: str = "", parts: Sequence[ProgressPart] = ()) -> None:
        """Set the progress; it is drawn four times a second, however often this is called."""
        self._done, self._facts, self._parts = done, tuple(fact for fact in text.split("  ") if fact), tuple(parts)

    def above(self, line: str) -> None:
        """Write a permanent line above the progress."""
        self._console.print(Text.from_ansi(line), soft_wrap=True)
