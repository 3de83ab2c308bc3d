"""Text that is safe to show, and words quoted for a shell, for commands that the user may paste."""

from __future__ import annotations

import shlex
from collections.abc import Iterable


def visible(text: str) -> str:
    """The text with every unprintable character written as an escape."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def quote(word: str) -> str:
    """One quoted word. Unprintable characters become escapes: ``$'evil\\x1b[31m'`` (bash, zsh, ksh)."""
    return shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_escaped, word))}'"


def join(words: Iterable[str]) -> str:
    """A whole command line, quoted."""
    return " ".join(map(quote, words))


def _escaped(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    if char.isprintable():
        return char
    # A byte of the command line that is not UTF-8, or a lone surrogate from a document.
    errors = "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", errors))
