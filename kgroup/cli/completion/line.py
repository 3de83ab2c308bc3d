"""A command line that is still being typed: its words, the connection it names, and how a name is inserted.

Nothing here is ever run or expanded by a shell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from kgroup.settings.connection import Connection

_CONNECTION = {
    "-b": "bootstrap_server",
    "--bootstrap-server": "bootstrap_server",
    "--command-config": "command_config",
    "-X": "property",
    "--property": "property",
    "--context": "context",
}
_BARE: Final = re.compile(r"[\w./,+%@:=-]")
_VARIABLE: Final = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


class NotYetKnown(Exception):
    """The connection depends on something that only the shell knows, such as a command's output."""


class Word(msgspec.Struct, frozen=True):
    """One word without its quotes; ``known`` is False if the shell would expand it to something else."""

    text: str
    known: bool = True


class Current(msgspec.Struct, frozen=True):
    """The word at the cursor: ``text`` without quotes, and ``quote``, the open quote ("" for none).

    ``kept`` is the length of the part of ``text`` that the shell does not replace: up to the last word break.
    """

    text: str
    quote: str
    kept: int


class TypedLine(msgspec.Struct, frozen=True):
    """The words before the cursor, and the word at the cursor."""

    words: tuple[Word, ...]
    current: Current


def parse(line: str, environ: Mapping[str, str], breaks: str = "") -> TypedLine:
    """The words of ``line``, which ends at the cursor, split as by a POSIX shell.

    Variables are looked up in ``environ``; a word with any other expansion is not ``known``. ``breaks`` are the
    characters at which bash's line editor begins a new word (COMP_WORDBREAKS).
    """
    lexer = _Lexer(line, environ, breaks)
    lexer.read()
    return TypedLine(tuple(lexer.words), Current(lexer.text, lexer.quote, lexer.kept))


def connection(words: Sequence[Word]) -> Connection:
    """The connection options among the words; later ones win. Raises NotYetKnown."""
    values: dict[str, str] = {}
    properties: list[str] = []
    rest = iter(words)
    for word in rest:
        if word.text == "--":
            break
        flag, value = _flag(word, rest)
        if flag is None or value is None:
            continue
        if not value.known:
            raise NotYetKnown(flag)
        if flag == "property":
            properties.append(value.text)
        else:
            values[flag] = value.text
    config = values.get("command_config")
    return Connection(
        bootstrap_server=values.get("bootstrap_server"),
        command_config=None if config is None else Path(config),
        property=properties or None,
        context=values.get("context"),
    )


def _flag(word: Word, rest: Iterator[Word]) -> tuple[str | None, Word | None]:
    """The connection option that a word is, and its value: the rest of the word, or the next of ``rest``."""
    name, equals, value = word.text.partition("=")
    if word.text.startswith("--"):
        if name not in _CONNECTION:
            return None, None
        return _CONNECTION[name], Word(value, word.known) if equals else next(rest, None)
    short = _CONNECTION.get(word.text[:2])
    if short is None:
        return None, None
    return short, Word(word.text[2:], word.known) if len(word.text) > 2 else next(rest, None)


def for_bash(word: str, current: Current) -> str:
    """What bash has to insert in place of the current word, or of its part after the last word break."""
    piece = word[current.kept :]
    if current.quote == "'":
        return piece.replace("'", "'\\''")
    if current.quote:
        # An exclamation mark expands history even in quotes, and a backslash before it would remain.
        escaped = "".join("\\" + each if each in '$`"\\' else each for each in piece)
        return escaped.replace("!", "\"'!'\"")
    return "".join(each if _BARE.fullmatch(each) or not each.isascii() else "\\" + each for each in piece)


class _Lexer:
    """Reads quotes and backslashes by the rules that POSIX shells and fish share."""

    def __init__(self, line: str, environ: Mapping[str, str], breaks: str) -> None:
        self.words: list[Word] = []
        self.text, self.quote, self.kept = "", "", 0
        self._line, self._environ, self._breaks = line, environ, breaks
        self._known, self._begun, self._kept_outside = True, False, 0

    def read(self) -> None:
        at = 0
        while at < len(self._line):
            at = self._step(at)

    def _step(self, at: int) -> int:
        """Consume the text at ``at``; returns the position of the next text."""
        char = self._line[at]
        if self.quote:
            return self._quoted(at, char)
        if char.isspace():
            self._end()
            return at + 1
        if not self._begun and char == "~" and self._line[at + 1 : at + 2] in ("", "/", " "):
            self._put(self._environ.get("HOME", "~"))
        elif char == "\\":
            self._put(self._line[at + 1 : at + 2])
            return at + 2
        elif char in "'\"":
            self.quote, self._begun = char, True
            # Bash inserts after an open quote; it replaces a closed one with the rest of its word.
            self.kept, self._kept_outside = len(self.text), self.kept
        elif char == "$":
            return self._variable(at)
        else:
            self._known = self._known and char not in "`*?[{<("
            self._put(char)
            if char in self._breaks:
                self.kept = len(self.text)
        return at + 1

    def _quoted(self, at: int, char: str) -> int:
        if char == self.quote:
            self.quote, self.kept = "", self._kept_outside
        elif self.quote == '"' and char == "\\" and self._line[at + 1 : at + 2] in ("$", "`", '"', "\\"):
            self._put(self._line[at + 1])
            return at + 2
        elif self.quote == '"' and char == "$":
            return self._variable(at)
        else:
            self._known = self._known and not (self.quote == '"' and char == "`")
            self._put(char)
        return at + 1

    def _variable(self, at: int) -> int:
        match = _VARIABLE.match(self._line, at)
        value = self._environ.get(match[1] or match[2]) if match else None
        # Unquoted, the shell would split the value again.
        if match is None or value is None or (not self.quote and any(each.isspace() for each in value)):
            self._known = False
            self._put("$")
            return at + 1
        self._put(value)
        return match.end()

    def _put(self, text: str) -> None:
        self.text += text
        self._begun = True

    def _end(self) -> None:
        if self._begun:
            self.words.append(Word(self.text, self._known))
        self.text, self.kept, self._known, self._begun = "", 0, True, False
