"""Masks the parts of a value that cannot belong to the settings that kgroup changes: they may be secrets."""

from __future__ import annotations

import re

from kgroup.support.redact import HIDDEN

# Numbers, names, classes, lists of them, and placeholders. A password that a user wrote after one does not match.
_WORD = r"(?:\$\{[\w.-]*(?::(?:\d+\w{0,2})?)?\}|[\w.$-])+"
_PLAIN = re.compile(rf"[\s\[\"'|>\\-]*(?:{_WORD}(?:[\"']?\s*,[\s\"'\\]*{_WORD})*)?[\"'\],\s\\]*")
_KEY = re.compile(r"[^=:\s]*[ \t\f]*[=:]?")


def shown(value: str) -> str:
    """The value of a setting to show; everything from the first part that is not a plain value is hidden."""
    found = _PLAIN.match(value)
    end = found.end() if found else 0
    return value if end == len(value) else value[:end] + HIDDEN


def shown_line(line: str, *, first: bool) -> str:
    """A line of such a setting, masked the same way; ``first`` is whether the line has the key."""
    indent = line[: len(line) - len(line.lstrip(" \t\f-"))]
    key = _KEY.match(line, len(indent)) if first else None
    begin = key.end() if key else len(indent)
    return line[:begin] + shown(line[begin:])
