"""Parses the syntax of ``java.util.Properties`` files and of ``sasl.jaas.config``; it gives no key a meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_BLANK = " \t\f"
_NATURAL_LINE = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.S)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u.{0,4}|.)", re.S)
_HEX = re.compile(r"u[0-9a-fA-F]{4}")
_SHORT_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


class PropertiesError(ValueError):
    """Java would not accept the text; ``line`` counts from 1, None if it is not known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Property(msgspec.Struct, frozen=True):
    """One entry, on the lines ``line`` to ``last_line``, counted from 1."""

    key: str
    value: str
    line: int
    last_line: int


def decode(data: bytes) -> str:
    """The text of a properties file: UTF-8, otherwise Latin-1, which Java uses for all of them."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def parse_properties(text: str) -> tuple[Property, ...]:
    """All entries in order, repeated keys included (the last one counts). Raises PropertiesError.

    Source: the documentation of ``java.util.Properties.load(Reader)``.
    """
    return tuple(_entry(*line) for line in _logical_lines(text))


def _logical_lines(text: str) -> Iterator[tuple[str, int, int]]:
    """Lines without comments, continued lines joined, each with the numbers of its first and last natural line."""
    pending, began, number = "", 0, 0
    for number, natural in enumerate(_NATURAL_LINE.split(text), start=1):
        content = natural.lstrip(_BLANK)
        if not began:
            if not content or content[0] in "#!":
                continue
            began = number
        backslashes = len(content) - len(content.rstrip("\\"))
        if backslashes % 2:
            pending += content[:-1]
            continue
        yield pending + content, began, number
        pending, began = "", 0
    if began:
        yield pending, began, number


def _entry(content: str, line: int, last_line: int) -> Property:
    key = _KEY.match(content)
    assert key is not None
    separator = _SEPARATOR.match(content, key.end())
    assert separator is not None
    return Property(_unescape(key.group(), line), _unescape(content[separator.end() :], line), line, last_line)


def _unescape(text: str, line: int) -> str:
    def character(match: re.Match[str]) -> str:
        escaped = match.group(1)
        if escaped[0] != "u":
            return _SHORT_ESCAPES.get(escaped, escaped)
        if not _HEX.fullmatch(escaped):
            raise PropertiesError("malformed \\uxxxx escape", line)
        return chr(int(escaped[1:], 16))

    unescaped = _ESCAPE.sub(character, text)
    try:
        # A character beyond the BMP is written as two escapes, a surrogate pair.
        return unescaped.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise PropertiesError("half of a surrogate pair in \\uxxxx escapes", line) from None


class LoginModule(msgspec.Struct, frozen=True):
    """The one entry of ``sasl.jaas.config``: the class name without its package, and the options."""

    name: str
    options: dict[str, str]


_JAAS_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/            # skipped
      | "(?P<double>(?:\\.|[^"\\])*)"
      | '(?P<single>(?:\\.|[^'\\])*)'
      | (?P<mark>[=;])
      | (?P<word>[^\s=;"']+)
      | (?P<wrong>.)""",
    re.S | re.X,
)
_CONTROL_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})


class _Token(msgspec.Struct, frozen=True):
    """``mark`` is true for an unquoted ``=`` or ``;``; a password may contain the same characters."""

    text: str
    mark: bool


def parse_jaas(text: str) -> LoginModule:
    """Parses ``org.x.PlainLoginModule required username="a" password="b";``.

    Raises PropertiesError; its message never quotes the text, which contains passwords.
    """
    tokens = list(_jaas_tokens(text))
    if len(tokens) < 2 or tokens[1].text.lower() not in _CONTROL_FLAGS:
        raise PropertiesError("expected: LoginModuleClass required option=value ...;")
    rest = tokens[2:]
    if rest and rest[-1] == _Token(";", mark=True):
        del rest[-1]
    if _Token(";", mark=True) in rest:
        raise PropertiesError("more than one login module, or text after the semicolon")
    names, marks, values = rest[0::3], rest[1::3], rest[2::3]
    if len(rest) % 3 or any(mark != _Token("=", mark=True) for mark in marks):
        raise PropertiesError("its options are not of the form name=value")
    options = {name.text: value.text for name, value in zip(names, values, strict=True)}
    return LoginModule(tokens[0].text.rsplit(".", 1)[-1], options)


def _jaas_tokens(text: str) -> Iterator[_Token]:
    for match in _JAAS_TOKEN.finditer(text):
        match match.lastgroup:
            case None:
                continue
            case "wrong":
                raise PropertiesError("a quotation mark is not closed")
            case "double" | "single" as kind:
                yield _Token(re.sub(r"\\(.)", r"\1", match[kind], flags=re.S), mark=False)
            case kind:
                yield _Token(match[kind], mark=kind == "mark")
