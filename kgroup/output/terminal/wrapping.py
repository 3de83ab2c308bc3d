"""Breaks a long line at blanks; a command in it continues after a backslash, so that it can be pasted."""

from __future__ import annotations

import re
import textwrap

from rich.cells import cell_len

_WORD = r"(?:\$'(?:\\.|[^'\\])*'|'[^']*'|\"[^\"]*\"|\\.|[^\s'\"\\])+"
_COMMAND = re.compile(
    rf"(?P<before>^ *|.*?(?:->|:) +)(?P<command>(?:kgroup|kafka-[a-z-]+\.sh)(?: {_WORD})+)(?P<after>(?:  .*)?)"
)
"""A command follows an indent, an arrow or a colon; two blanks end it."""

_PROSE = re.compile(r"[;,.:](?: |$)")
"""Punctuation that no command has: ``kgroup catchup list; a new one: ...`` is a sentence."""

_GOES_ON = " \\"
_CONTINUED = 3


def wrap_line(text: str, width: int | None, indent: int = 0) -> list[str]:
    """The text in lines of at most ``width`` cells; None: one line. ``indent`` precedes the lines after the first.

    Words longer than ``width`` are not broken: an id in two parts cannot be pasted.
    """
    if width is None or cell_len(text) <= width:
        return [text]
    found = _COMMAND.fullmatch(text)
    if found is None or _PROSE.search(re.sub(r"'[^']*'", "", found["command"])):
        return _wrap_prose(text, width, indent)
    before, lines = found["before"], list[str]()
    if before.rstrip().endswith(":"):  # the command has its own line
        lines, before = _wrap_prose(before.rstrip(), width, indent), " " * max(indent, 2)
    margin = " " * (len(before) - len(before.lstrip()) + _CONTINUED)
    first, *others = _wrap_command(found["command"], width - len(before), width - len(margin))
    lines += [before + first, *(margin + line for line in others)]
    return [*lines, *_wrap_prose(margin + found["after"].strip(), width, len(margin))] if found["after"] else lines


def _wrap_prose(text: str, width: int, indent: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def _wrap_command(command: str, first: int, others: int) -> list[str]:
    """The command in lines, all but the last with a backslash at the end; an option stays with its value."""
    lines: list[str] = []
    for part in re.findall(rf"{_WORD}(?: (?!-){_WORD})*", command):
        room = (others if len(lines) > 1 else first) - len(_GOES_ON)
        if lines and cell_len(f"{lines[-1]} {part}") <= room:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return [*(line + _GOES_ON for line in lines[:-1]), *lines[-1:]]
