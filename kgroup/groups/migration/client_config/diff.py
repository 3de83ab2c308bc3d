"""The unified diff of a changed file: only lines of changed settings, no context lines."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

from kgroup.groups.migration.client_config.edit import Span
from kgroup.groups.migration.client_config.entries import ConfigFile
from kgroup.groups.migration.client_config.masking import shown_line

_BREAK = re.compile(r"\r\n|\r|\n")
_YAML_BREAK = re.compile(r"\r\n|[\r\n\x85\u2028\u2029]")


def split_lines(text: str, *, yaml: bool = False) -> list[str]:
    """The lines with their line ends; form feeds and other ASCII separators do not end a line."""
    lines, at = [], 0
    for found in (_YAML_BREAK if yaml else _BREAK).finditer(text):
        lines.append(text[at : found.end()])
        at = found.end()
    return [*lines, text[at:]] if at < len(text) else lines


def unified(reading: ConfigFile, spans: Iterable[Span], name: str) -> Iterator[str]:
    """The lines of the diff, none if nothing changed.

    The diff is made from the changes themselves: comparing the two texts can mark repeated lines as changed. It has no
    context lines, because they may contain passwords that kgroup cannot recognise.
    """
    yaml = reading.kind == "yaml"
    starts = list(accumulate((len(line) for line in split_lines(reading.text, yaml=yaml)), initial=0))
    hunks: list[tuple[int, list[str], list[str]]] = []
    for start, end, comes in spans:
        number = bisect_right(starts, start) - 1
        # The dash of `- a: 1`. Not for insertions: in a file without a last line end it would be the whole last line.
        before = reading.text[starts[number] : start].lstrip("\ufeff") if end > start else ""
        old = [
            _line("-", line, shown_line(line, first=not place))
            for place, line in enumerate(split_lines(before + reading.text[start:end], yaml=yaml))
        ]
        comes = before + comes.removeprefix(reading.eol) if comes else ""
        new = [_line("+", line, line) for line in split_lines(comes, yaml=yaml)]
        if hunks and number == hunks[-1][0] + len(hunks[-1][1]):
            hunks[-1][1].extend(old)
            hunks[-1][2].extend(new)
        else:
            hunks.append((number, old, new))
    if hunks:
        yield from (f"--- {name} (before)", f"+++ {name} (after)")
    moved = 0
    for number, old, new in hunks:
        yield f"@@ -{_range(number, len(old))} +{_range(number + moved, len(new))} @@"
        yield from (*old, *new)
        moved += len(new) - len(old)


def _line(sign: str, line: str, shown: str) -> str:
    ended = line[-1:] in ("\r", "\n", "\x85", "\u2028", "\u2029")
    return sign + shown.rstrip("\r\n\x85\u2028\u2029") + ("" if ended else "\n\\ No newline at end of file")


def _range(start: int, lines: int) -> str:
    """A range of lines in a diff header: counted from 1; an empty range is given by the line before it."""
    return str(start + 1) if lines == 1 else f"{start + bool(lines)},{lines}"
