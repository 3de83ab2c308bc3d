"""Words as a shell reads them back, for commands that are shown to be pasted."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence


def quote(word: str) -> str:
    """One word. What a terminal does not show as it is stands as an escape: ``$'evil\\x1b[31m'`` (bash, zsh, ksh)."""
    return shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_escaped, word))}'"


def join(words: Iterable[str]) -> str:
    """A whole command line."""
    return " ".join(map(quote, words))


def to_apply(typed: Sequence[str], *more: str) -> str:
    """The command line that was typed, with ``--execute`` and more options; what stands behind ``--`` are names."""
    end = typed.index("--") if "--" in typed else len(typed)
    options = [word for word in typed[:end] if word not in ("--dry-run", "--execute")]
    return join([*options, *more, "--execute", *typed[end:]])


def _escaped(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    if char.isprintable():
        return char
    # A byte of the command line that is no UTF-8, or half a character out of a document.
    errors = "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", errors))
