"""Breaks a long line at blanks. A command in it begins on a line of its own, and a shell reads its lines as one."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from rich.cells import cell_len

from kgroup.model.blocks import Prose
from kgroup.support.quoting import visible

_WORD = r"(?:\$'(?:\\.|[^'\\])*'|'[^']*'|\"[^\"]*\"|\\.|[^\s'\"\\])+"
_BEFORE = re.compile(r"(?:^|->|:) *(?=(?:kgroup|kafka-[a-z-]+\.sh) )")
_COMMAND = re.compile(rf"(?P<command>\S+(?: {_WORD})+)(?P<after>(?:  .*)?)")
"""A command follows an indent, an arrow or a colon; two blanks end it."""

_PROSE_WIDTH = 78

_CONTINUES = " \\"
_CONTINUED = 3
"""How far the text after a command is indented, on the next line."""

_LEFT, _RIGHT = "  |  ", "  |"
"""The sides of a box."""

_PROSE = re.compile(r"[;,.:](?: |$)")
"""Punctuation that no command has: ``kgroup catchup list; a new one: ...`` is a sentence."""


def wrap_line(text: str, width: int | None, indent: int = 0) -> list[str]:
    """The text in lines of at most ``width`` cells; None: one line. ``indent`` precedes the lines after the first.

    Words longer than ``width`` are not broken: an id in two parts cannot be pasted. The lines of a command end with a
    backslash.
    """
    if width is None or cell_len(text) <= width:
        return [text]
    for match in _BEFORE.finditer(text):
        before, command = text[: match.end()], _COMMAND.fullmatch(text, match.end())
        if command is not None and not _PROSE.search(re.sub(r"'[^']*'", "", command["command"])):
            return _wrap_around(before, command["command"], command["after"].strip(), width, indent)
    return _wrap_prose(text, width, indent)


def prose_lines(prose: Prose, width: int | None) -> list[str]:
    """The sentences in lines that are easy to read; ``width`` is that of a terminal, None without one."""
    width = _PROSE_WIDTH if width is None else min(width, _PROSE_WIDTH)
    return [line for sentence in prose.sentences for line in wrap_line(visible(sentence), width, prose.indent)]


def _wrap_around(before: str, command: str, after: str, width: int, indent: int) -> list[str]:
    lines = list[str]()
    if before.rstrip().endswith(":"):
        lines, before = _wrap_prose(before.rstrip(), width, indent), " " * max(indent, 2)
    lines += _break_command(before, command, width)
    if after:
        margin = " " * (len(before) - len(before.lstrip()) + _CONTINUED)
        lines += _wrap_prose(margin + after, width, len(margin))
    return lines


def _wrap_prose(text: str, width: int, indent: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def boxed(lines: Sequence[str], width: int | None) -> list[str]:
    """The lines in a box of at most ``width`` cells. If a word or a command is too long: without a box, indented."""
    inner = None if width is None else max(1, width - len(_LEFT) - len(_RIGHT))
    wrapped = [part for line in lines for part in wrap_line(line, inner)]
    widest = max(map(cell_len, wrapped), default=0)
    if inner is not None and (widest > inner or any(line.endswith(_CONTINUES) for line in wrapped)):
        return [f"  {line}" for line in lines]
    edge = f"  +{'-' * (widest + 4)}+"
    return [edge, *(f"{_LEFT}{line}{' ' * (widest - cell_len(line))}{_RIGHT}" for line in wrapped), edge]


def _break_command(before: str, command: str, width: int) -> list[str]:
    """The command in lines that end with a backslash; an option stays with its values if they fit into a line."""
    if cell_len(before + command) <= width:
        return [before + command]
    margin = " " * (len(before) - len(before.lstrip()) + _CONTINUED)
    room = width - len(margin) - len(_CONTINUES)
    parts = [
        piece
        for part in re.findall(rf"{_WORD}(?: (?!-){_WORD})*", command)
        for piece in ([part] if cell_len(part) <= room else re.findall(_WORD, part))
    ]
    lines = [before + parts[0]]
    for part in parts[1:]:
        if cell_len(f"{lines[-1]} {part}{_CONTINUES}") <= width:
            lines[-1] += f" {part}"
        else:
            lines[-1] += _CONTINUES
            lines.append(margin + part)
    return lines
