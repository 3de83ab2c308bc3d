"""What of a setting's value may be shown: what our settings are made of, and nothing else."""

from __future__ import annotations

import re

from kgroup.support.redact import HIDDEN

# Numbers, names, classes, lists of them, and placeholders: a password that somebody wrote behind one is not among it.
_WORD = r"(?:\$\{[\w.-]*(?::(?:\d+\w{0,2})?)?\}|[\w.$-])+"
_PLAIN = re.compile(rf"[\s\[\"'|>\\-]*(?:{_WORD}(?:[\"']?\s*,[\s\"'\\]*{_WORD})*)?[\"'\],\s\\]*")
_KEY = re.compile(r"[^=:\s]*[ \t\f]*[=:]?")


def shown(value: str) -> str:
    """A value of one of the settings that are changed or spoken of, without comments and all else that is not its."""
    found = _PLAIN.match(value)
    end = found.end() if found else 0
    return value if end == len(value) else value[:end] + HIDDEN


def shown_line(line: str, *, first: bool) -> str:
    """A line of such a setting as it stands in the file; ``first`` is whether its key is on it."""
    indent = line[: len(line) - len(line.lstrip(" \t\f-"))]
    key = _KEY.match(line, len(indent)) if first else None
    begin = key.end() if key else len(indent)
    return line[:begin] + shown(line[begin:])
