"""A configuration file as it was read: its settings, each with the lines on which it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["java", "librdkafka", "yaml"]


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a file.

    ``own`` is its key as it stands there and ``full`` with those of the mappings around it; in both, ``a[b.c]`` reads
    ``a.b.c``. ``place`` is the same for ``Leaf``. ``mapping`` numbers what it stands in (0 in a properties file),
    ``document`` the document in a YAML stream. ``value`` is None for a mapping; of a list it is the items with commas
    between. ``line`` counts from 1.

    ``text[start:end]`` are its lines with their ends; where something else begins on the first (``- a: 1``) it starts
    behind that, and ``lead`` is empty, not ``indent``. ``separator`` stands between key and value. ``inline`` is
    whether it shares its line with others, so that lines can't be taken out.
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
        """The keys of the mappings around it, with a dot at the end."""
        return self.full[: len(self.full) - len(self.own)]

    @property
    def dashed(self) -> bool:
        """Whether it is the first of a list's item, behind the dash."""
        return self.lead != self.indent


@dataclass(frozen=True, slots=True)
class Leaf:
    """What a file says at one place, for comparing it with another: nothing about how it is written."""

    place: tuple[object, ...]
    value: str
    tag: str = ""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file's settings; ``blocks`` are texts inside it that look like files of their own, as (line, key).

    ``eol`` is how its lines end.
    """

    kind: Kind
    text: str
    entries: tuple[ConfigEntry, ...]
    leaves: tuple[Leaf, ...]
    eol: str
    blocks: tuple[tuple[int, str], ...] = ()
