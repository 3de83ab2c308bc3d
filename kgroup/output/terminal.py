"""A screen in a terminal or a pipe: colour and width follow where it goes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC
from typing import IO

from rich.cells import cell_len

from kgroup.model import Outcome
from kgroup.output.layout import draw_table, visible
from kgroup.screen import Block, Gap, Style, Table, Text, Title, Verdict

_PIPE_TITLE_WIDTH = 80
_VERDICT_WIDTH = 7
_COLOURS: dict[Style, str] = {"bad": "bold red", "warn": "yellow", "good": "green", "dim": "dim"}

Paint = Callable[[str, Style | None], str]


def terminal_width(stream: IO[str]) -> int | None:
    """Columns of the terminal behind the stream; None where lines may be as long as they like."""
    if not stream.isatty():
        columns = os.environ.get("COLUMNS", "")
        return int(columns) if columns.isdigit() and int(columns) > 0 else None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:
        return None


def painter(stream: IO[str]) -> Paint:
    """How a text gets its colour there: not at all in a pipe, with NO_COLOR, or in a dumb terminal."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return lambda text, style: text
    from rich.color import ColorSystem
    from rich.style import Style as RichStyle

    styles = {name: RichStyle.parse(text) for name, text in _COLOURS.items()}
    return lambda text, style: styles[style].render(text, color_system=ColorSystem.STANDARD) if style else text


def draw(outcome: Outcome, stream: IO[str] | None = None, *, wide: bool = False) -> None:
    """Write the outcome's screen."""
    stream = stream or sys.stdout
    width, paint = terminal_width(stream), painter(stream)
    for block in outcome.screen().blocks:
        for line in _lines(block, outcome, width, wide, paint):
            stream.write(line + "\n")


def title_line(title: Title, outcome: Outcome, width: int) -> str:
    """Subject at the left, context and UTC time at the right edge, never closer than two blanks."""
    left = visible(title.text)
    place = f"{outcome.cluster.label}  " if outcome.cluster else ""
    right = f"{place}{outcome.at.astimezone(UTC):%H:%M:%SZ}"
    return left + " " * max(2, width - cell_len(left) - cell_len(right)) + right


def _lines(block: Block, outcome: Outcome, width: int | None, wide: bool, paint: Paint) -> Iterator[str]:
    match block:
        case Title():
            yield title_line(block, outcome, width or _PIPE_TITLE_WIDTH)
        case Verdict(word, text, style):
            yield paint(word, style) + " " * max(1, _VERDICT_WIDTH - len(word)) + visible(text)
        case Table():
            yield from draw_table(block, width, wide, paint)
        case Text(lines):
            yield from (visible(line) for line in lines)
        case Gap():
            yield ""
