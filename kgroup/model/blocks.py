"""What a screen consists of, as values: title, verdict lines, tables, closing lines. ``output`` draws them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Style = Literal["bad", "warn", "good", "dim"]
"""Colour repeats a word and never replaces it: bad is red, warn yellow, good green."""


@dataclass(frozen=True, slots=True)
class Styled:
    """A table cell with a colour."""

    text: str
    style: Style


Cell = str | int | None | Styled
"""None is drawn as ``-``; integers are drawn plain, without separators, because offsets get pasted."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    ``drop`` is when it goes where the terminal is too narrow: 0 never, else the highest number first.
    ``wide`` columns are shown with ``-o wide`` alone. ``fold`` columns hold long ids, which may go on in a
    second line at one of their separators.
    """

    title: str
    right: bool = False
    drop: int = 0
    wide: bool = False
    fold: bool = False


@dataclass(frozen=True, slots=True)
class Title:
    """The first line: subject, state, since when. Cluster and UTC time are put at the right edge.

    ``in_terminal_only`` is for plain lists, which scripts read: in a pipe their first line is the heading.
    """

    text: str
    in_terminal_only: bool = False


@dataclass(frozen=True, slots=True)
class LabelledLine:
    """A line that begins with a fixed upper-case word (LAG, STUCK, RATE, ...)."""

    word: str
    text: str
    style: Style | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings; a column whose cells are all None is left out where ``sparse`` names it."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    sparse: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Text:
    """Plain lines, folded at blanks where they are too long for the terminal; a script is not (``fold`` False)."""

    lines: tuple[str, ...]
    fold: bool = True


@dataclass(frozen=True, slots=True)
class BlankLine:
    """An empty line."""


Block = Title | LabelledLine | Table | Text | BlankLine


@dataclass(frozen=True, slots=True)
class Screen:
    """A page, top to bottom."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Records:
    """The flat form of an answer, for csv: a header and plain rows; None is an empty field."""

    header: tuple[str, ...]
    rows: Iterable[Sequence[str | int | None]]
