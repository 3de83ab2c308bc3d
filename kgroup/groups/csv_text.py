"""A strict CSV reader that reports the position of every field; Python's csv module does neither. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

# Possessive (``*+``): otherwise the match of an unclosed quote would backtrack and end at an earlier doubled quote.
_FIELD = re.compile(r'"((?:[^"]++|"")*+)"|([^",\r\n]*)')
_AFTER_FIELD = re.compile(r",|\r?\n|\Z")


class CsvRow(msgspec.Struct, frozen=True):
    """The fields of a row. ``line`` is its first line, from 1; ``starts`` are the positions of the fields, from 0.

    ``quoted_empty`` are the indexes of fields that are written as ``""``, as opposed to fields without any text.
    """

    fields: tuple[str, ...]
    line: int
    starts: tuple[int, ...]
    quoted_empty: frozenset[int] = frozenset()


class CsvFault(msgspec.Struct, frozen=True):
    """A syntax error, and its position in the text, from 0."""

    message: str
    at: int


def read_rows(text: str) -> Iterator[CsvRow | CsvFault]:
    """The rows of RFC 4180 text with LF or CR LF, without empty lines. After a fault it continues on the next line."""
    at, line = 0, 1
    while at < len(text):
        first_line = line
        fields: list[str] = []
        starts: list[int] = []
        said_empty: set[int] = set()
        while True:
            field = _FIELD.match(text, at)
            assert field, "it may be empty, so there always is one"
            quoted, plain = field.groups()
            line += quoted.count("\n") if quoted else 0
            end = _AFTER_FIELD.match(text, field.end())
            if not end:
                yield _fault(text, field)
                newline = text.find("\n", field.end())
                unclosed = quoted is None and text[at] == '"'
                at, line = (len(text) if newline < 0 or unclosed else newline + 1), line + 1
                break
            if quoted == "":
                said_empty.add(len(fields))
            fields.append(plain if quoted is None else quoted.replace('""', '"'))
            starts.append(at)
            at = end.end()
            if end[0] != ",":
                line += 1
                if fields != [""] or quoted is not None:
                    yield CsvRow(tuple(fields), first_line, tuple(starts), frozenset(said_empty))
                break


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """The line and column of a position in the text, both from 1; columns count characters."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _fault(text: str, field: re.Match[str]) -> CsvFault:
    """The fault at a field that is not followed by a comma, a line end or the end of the text."""
    if field[1] is not None:
        return CsvFault("text after the closing quote", field.end())
    if text[field.start()] == '"':
        return CsvFault("the quote that begins here is never closed", field.start())
    if text[field.end()] == '"':
        return CsvFault("a quote in a field that does not begin with one", field.end())
    return CsvFault("a carriage return that ends no line", field.end())
