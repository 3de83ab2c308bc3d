"""The parts of a page as values: title, verdict lines, tables, text. ``kgroup.output`` draws them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

Style = Literal["bad", "warn", "good", "dim", "strong"]
"""A colour only repeats what a word already says: bad is red, warn yellow, good green, strong bold."""


class Styled(msgspec.Struct, frozen=True):
    text: str
    style: Style


Cell = str | int | None | Styled
"""None is drawn as ``-``. Integers are drawn without separators, because users copy and paste offsets."""


class Column(msgspec.Struct, frozen=True):
    """A column of a table.

    ``drop`` is the order in which columns are left out of a narrow terminal: the highest number first, 0 never.
    ``wide`` columns are shown only with ``-o wide``. ``fold`` columns hold long ids, which may be broken into a
    second line at one of their separators.
    """

    title: str
    right: bool = False
    drop: int = 0
    wide: bool = False
    fold: bool = False


class Title(msgspec.Struct, frozen=True):
    """The first line: subject, state, since when. Cluster and UTC time are drawn at the right edge.

    ``in_terminal_only`` is for plain lists that scripts read: in a pipe their first line is the table heading.
    """

    text: str
    in_terminal_only: bool = False


class Conclusion(msgspec.Struct, frozen=True):
    """What follows from all the rest of the page, in one sentence after ``->``, and the commands for it."""

    text: str
    commands: tuple[str, ...] = ()


class LabelledLine(msgspec.Struct, frozen=True):
    """A line that begins with a fixed upper-case word (LAG, STUCK, RATE, ...)."""

    word: str
    text: str
    style: Style | None = None


class Table(msgspec.Struct, frozen=True):
    """Rows under headings. A column named in ``sparse`` is left out if all its cells are None."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    sparse: frozenset[str] = frozenset()


class Text(msgspec.Struct, frozen=True):
    """Plain lines, wrapped at blanks if they are too long for the terminal; ``fold`` False (scripts): never wrapped."""

    lines: tuple[str, ...]
    fold: bool = True


class Prose(msgspec.Struct, frozen=True):
    """Sentences, wrapped at blanks into lines of at most 78 columns also where there is room for more, and in a pipe.

    ``indent`` is how many blanks precede the lines after the first one of a sentence.
    """

    sentences: tuple[str, ...]
    indent: int = 0


class BlankLine(msgspec.Struct, frozen=True):
    """An empty line."""


Block = Title | Conclusion | LabelledLine | Table | Text | Prose | BlankLine


class Screen(msgspec.Struct, frozen=True):
    blocks: tuple[Block, ...]


class Records(msgspec.Struct, frozen=True):
    """The flat form of a result, for csv: a header and plain rows. None is an empty field."""

    header: tuple[str, ...]
    rows: Iterable[Sequence[str | int | None]]

    @classmethod
    def of(cls, header: tuple[str, ...], items: Iterable[msgspec.Struct]) -> Records:
        """The fields that ``header`` names, of what JSON shows; ``true`` and ``false`` for a bool."""
        return cls(header, (tuple(_plain(getattr(item, name)) for name in header) for item in items))


def _plain(value: str | int | None) -> str | int | None:
    return str(value).lower() if isinstance(value, bool) else value
