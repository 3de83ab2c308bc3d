"""A configuration file as it was read: its settings, each with its lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["java", "librdkafka", "yaml"]


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a file.

    ``own`` is its key in the file, ``full`` has the keys of the enclosing mappings before it; in both, ``a[b.c]``
    becomes ``a.b.c``. ``place`` is the same position as in ``Leaf``. ``mapping`` is the number of the enclosing mapping
    (0 in a properties file), ``document`` that of the document in a YAML stream. ``value`` is None for a mapping; a
    list is joined with commas. ``line`` counts from 1.

    ``text[start:end]`` are its lines with line ends. If other text precedes it on its first line (``- a: 1``),
    ``start`` is after that text, and ``lead`` is empty instead of ``indent``. ``separator`` is the text between key
    and value. ``inline`` is whether it shares its line with other settings, so that the line cannot be removed.
    """

    full: str
    own: str
    value: str | None
    line: int
    start: int
    end: int
    place: tuple[object, ...]
    mapping: int = 0
    document: int = 0
    lead: str = ""
    indent: str = ""
    separator: str = "="
    inline: bool = False

    @property
    def around(self) -> str:
        """The keys of the enclosing mappings, with a dot at the end; empty if there are none."""
        return self.full[: len(self.full) - len(self.own)]

    @property
    def dashed(self) -> bool:
        """Whether it is the first setting of a list item, after the dash."""
        return self.lead != self.indent


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value at one place of a file, without its formatting, to compare it with another file."""

    place: tuple[object, ...]
    value: str
    tag: str = ""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file's settings and line end; ``blocks`` are embedded texts that may be configurations, as (line, key)."""

    kind: Kind
    text: str
    entries: tuple[ConfigEntry, ...]
    leaves: tuple[Leaf, ...]
    eol: str
    blocks: tuple[tuple[int, str], ...] = ()
