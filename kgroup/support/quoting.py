"""Text that is safe to show, and words quoted for a shell, for commands that the user may paste."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable

_NOT_ASCII = re.compile(r"[^\x00-\x7e]")


def visible(text: str) -> str:
    """The text with every unprintable character written as an escape."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def json_safe(text: str, *, ascii_only: bool = False) -> str:
    """JSON in which ``\\uXXXX`` replaces what a terminal would interpret or hide: DEL, C1 and bidi characters.

    ``ascii_only`` replaces every other character that is not ASCII too.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return _NOT_ASCII.sub(lambda match: _as_json(match[0], ascii_only), text)


def _as_json(char: str, ascii_only: bool) -> str:
    return char if char.isprintable() and not ascii_only else json.dumps(char)[1:-1].replace("\x7f", "\\u007f")


def quote(word: str) -> str:
    """One quoted word. Unprintable characters become escapes: ``$'evil\\x1b[31m'`` (bash, zsh, ksh)."""
    return shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_escaped, word))}'"


def join(words: Iterable[str]) -> str:
    return " ".join(map(quote, words))


def _escaped(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    if char.isprintable():
        return char
    # A byte of the command line that is not UTF-8, or a lone surrogate from a document.
    errors = "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", errors))
