"""Write a screen to a terminal or a pipe, with the colours and the width that it supports."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import UTC
from typing import IO

from rich.cells import cell_len

from kgroup.model.blocks import BlankLine, Block, Conclusion, LabelledLine, Prose, Screen, Table, Text, Title
from kgroup.model.outcome import Outcome
from kgroup.output.terminal.colour import Paint, painter, terminal_width
from kgroup.output.terminal.layout import draw_table
from kgroup.output.terminal.wrapping import prose_lines, wrap_line
from kgroup.support.quoting import visible

_PIPE_TITLE_WIDTH = 80
_VERDICT_WIDTH = 5
_HANGING = 3
_CLOSEST = 2
_LABEL = re.compile(r" +(?:\d+ )?\S+ {2,}| *")
"""What a line of text continues under: its indent, and a word that labels it (`` 2 replay   50 records``)."""


def draw(
    outcome: Outcome,
    stream: IO[str] | None = None,
    *,
    screen: Screen | None = None,
    wide: bool = False,
    with_headers: bool = True,
) -> None:
    """Write the outcome's screen, or ``screen``, which is derived from it."""
    stream = stream or sys.stdout
    width, paint = terminal_width(stream), painter(stream)
    screen = outcome.screen() if screen is None else screen
    for line in page_lines(outcome, screen, width, paint, wide=wide, with_headers=with_headers):
        stream.write(line + "\n")


def page_lines(
    outcome: Outcome, screen: Screen, width: int | None, paint: Paint, *, wide: bool, with_headers: bool = True
) -> Iterator[str]:
    """The lines of ``screen``, the outcome's own or one derived from it; ``width`` is None for a pipe."""
    for block in screen.blocks:
        yield from _lines(block, outcome, width, wide, paint, with_headers)


def title_lines(title: Title, outcome: Outcome, width: int) -> list[str]:
    """Subject at the left, context and UTC time at the right edge of the first line.

    A subject that does not fit continues on further lines.
    """
    left = visible(title.text)
    cluster = f"{outcome.cluster.label}  " if outcome.cluster else ""
    right = f"{cluster}{outcome.at.astimezone(UTC):%H:%M:%SZ}"
    first, *others = wrap_line(left, max(1, width - cell_len(right) - _CLOSEST), _HANGING)
    if others:
        # Only the first line is narrow: in a small terminal the rest would be a column of single words.
        others = wrap_line(" " * _HANGING + left.removeprefix(first).lstrip(), width, _HANGING)
    room = width - cell_len(first) - cell_len(right)
    if room >= _CLOSEST:
        return [first + " " * room + right, *others]
    return [" " * max(0, width - cell_len(right)) + right, *wrap_line(left, width, _HANGING)]


def _lines(
    block: Block, outcome: Outcome, width: int | None, wide: bool, paint: Paint, with_headers: bool
) -> Iterator[str]:
    match block:
        case Title(in_terminal_only=True) if width is None:
            return
        case Title():
            yield from title_lines(block, outcome, width or _PIPE_TITLE_WIDTH)
        case Conclusion():
            yield from _conclusion(block, width, paint)
        case LabelledLine():
            yield from _labelled(block, width, paint)
        case Table():
            yield from draw_table(block, width, wide, paint, with_header=with_headers)
        case Text(lines, fold):
            for line in lines:
                label = _LABEL.match(line)
                hanging = max(_HANGING, 0 if label is None else label.end())
                yield from wrap_line(visible(line), width if fold else None, hanging)
        case Prose():
            yield from prose_lines(block, width)
        case BlankLine():
            yield ""


def _conclusion(block: Conclusion, width: int | None, paint: Paint) -> Iterator[str]:
    yield from (paint(line, "strong") for line in wrap_line(f"-> {visible(block.text)}", width, _HANGING))
    for command in block.commands:
        yield from wrap_line(f"   {visible(command)}", width, _HANGING)


def _labelled(block: LabelledLine, width: int | None, paint: Paint) -> Iterator[str]:
    heading = f"{block.word:<{_VERDICT_WIDTH}}  "
    first, *others = wrap_line(heading + visible(block.text), width, len(heading))
    yield paint(block.word, block.style) + first[len(block.word) :]
    yield from others
