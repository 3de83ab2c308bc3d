"""Reads properties files of Java and librdkafka, with the position of each entry in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kgroup.groups.migration.client_config.entries import ConfigEntry, ConfigFile, Kind, Leaf
from kgroup.groups.migration.client_config.names import LONGEST_KEY
from kgroup.support.errors import ConfigError

_BLANK = " \t\f"
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_INDENT = re.compile(f"[{_BLANK}]*")
_PLAIN_KEY = re.compile(r"[^=: \t\f]*")
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.S)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u.{0,4}|.)", re.S)
_HEX = re.compile(r"u[0-9a-fA-F]{4}")
_SHORT_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_BRACKETS = re.compile(r"\.?\[([^\]]*)\]")


def dotted(key: str) -> str:
    """A key without the brackets that Spring allows around a part of it: ``a[b.c]`` is ``a.b.c``."""
    return _BRACKETS.sub(r".\1", key).lstrip(".") if "[" in key and len(key) <= LONGEST_KEY else key


def read_properties(text: str, name: str, kind: Kind) -> ConfigFile:
    """The entries of a properties file, including repeated ones; raises ConfigError with file and line.

    Java joins a line that ends with a backslash with the next one, and decodes escapes. Readers of librdkafka's files
    do neither. Source: ``java.util.Properties.load(Reader)``.
    """
    entries = tuple(_entries(text, name, joined=kind == "java"))
    found = re.search(r"\r\n|\r|\n", text)
    return ConfigFile(
        kind=kind,
        text=text,
        entries=entries,
        leaves=tuple(Leaf(entry.place, entry.value or "") for entry in entries),
        eol=found.group() if found else "\n",
    )


def _entries(text: str, name: str, *, joined: bool) -> Iterator[ConfigEntry]:
    for line, start, end, content in _logical_lines(text, joined=joined):
        indent = _INDENT.match(text, start)
        assert indent is not None
        key = (_KEY if joined else _PLAIN_KEY).match(content)
        assert key is not None
        separator = _SEPARATOR.match(content, key.end())
        assert separator is not None
        own, value = key.group(), content[separator.end() :]
        if joined:
            own, value = _unescape(own, name, line), _unescape(value, name, line)
        else:
            value = value.rstrip(_BLANK)
        own = dotted(own)
        yield ConfigEntry(
            full=own,
            own=own,
            value=value,
            line=line,
            start=start,
            end=end,
            place=(own,),
            lead=indent.group(),
            indent=indent.group(),
            separator=separator.group() if separator.group().strip() else "=",
        )


def _logical_lines(text: str, *, joined: bool) -> Iterator[tuple[int, int, int, str]]:
    """Number, start, end and content of each line that is not blank or a comment; continued lines are joined."""
    at, number = int(text.startswith("\ufeff")), 0
    parts: list[str] = []
    began = start = 0
    while at < len(text):
        natural = _LINE.match(text, at)
        assert natural is not None
        number += 1
        content = natural.group(1).lstrip(_BLANK)
        if not began:
            if not content or content[0] in "#!":
                at = natural.end()
                continue
            began, start = number, at
        at = natural.end()
        if joined and (len(content) - len(content.rstrip("\\"))) % 2:
            parts.append(content[:-1])
            continue
        yield began, start, at, "".join((*parts, content))
        parts, began = [], 0
    if began:
        yield began, start, at, "".join(parts)


def _unescape(text: str, name: str, line: int) -> str:
    def character(match: re.Match[str]) -> str:
        escaped = match.group(1)
        if escaped[0] != "u":
            return _SHORT_ESCAPES.get(escaped, escaped)
        if not _HEX.fullmatch(escaped):
            raise ConfigError(f"{name}:{line}: malformed \\uxxxx escape")
        return chr(int(escaped[1:], 16))

    return _ESCAPE.sub(character, text)
