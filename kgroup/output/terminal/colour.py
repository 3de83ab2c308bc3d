"""The width and the colours that a stream's terminal supports."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO

from kgroup.model.blocks import Style
from kgroup.output.terminal.pager import pager_width
from kgroup.settings.environment import is_dumb_terminal, variable

_COLOURS: dict[Style, str] = {"bad": "bold red", "warn": "yellow", "good": "green", "dim": "dim", "strong": "bold"}

Paint = Callable[[str, Style | None], str]


def terminal_width(stream: IO[str]) -> int | None:
    """Columns of the terminal behind the stream, also behind a pager; None if lines may have any length.

    COLUMNS decides for a stream that is no terminal.
    """
    if not stream.isatty():
        columns = variable("COLUMNS") or ""
        return int(columns) if columns.isdigit() and int(columns) > 0 else pager_width(stream)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:
        return None


def painter(stream: IO[str]) -> Paint:
    """A function that colours text; it changes nothing in a pipe, with NO_COLOR, or in a dumb terminal."""
    if not stream.isatty() or variable("NO_COLOR") or is_dumb_terminal():
        return lambda text, style: text
    from rich.color import ColorSystem
    from rich.style import Style as RichStyle

    styles = {name: RichStyle.parse(text) for name, text in _COLOURS.items()}
    return lambda text, style: styles[style].render(text, color_system=ColorSystem.STANDARD) if style else text
