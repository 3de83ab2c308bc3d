"""Reads and compares versions as users write them (``4.3.1``, ``v1.21.6``, ``4.4.0-rc1``)."""

from __future__ import annotations

import re
from collections.abc import Sequence

# A pattern as text: re compiles it at its first use and caches it.
_VERSION = r"(?a)v?(\d{1,9}(?:\.\d{1,9}){0,3})((?!\.[xX]\b)(?:[-+.~]?[A-Za-z]|[-+~]\d)[-\w.+~]*)?"
_BEFORE_RELEASE = r"(?ai)[-+.~]?(?:rc|alpha|beta|snapshot|preview|dev|[abm]\d)"
_PARTS = 4

Version = tuple[int, ...]
"""Four numbers, then 0 for a pre-release and 1 for a release."""


def parse_version(text: str) -> Version | None:
    """``4.3`` as (4, 3, 0, 0, 1); a release candidate or snapshot sorts before its release; None if not a version."""
    found = re.fullmatch(_VERSION, text.strip())
    if found is None:
        return None
    numbers = [int(part) for part in found[1].split(".")]
    early = re.match(_BEFORE_RELEASE, found[2] or "") is not None
    return (*numbers, *[0] * (_PARTS - len(numbers)), 0 if early else 1)


def minor_of(version: Version) -> Version:
    """The minor release of a version: (4, 3) for 4.3.1."""
    return version[:2]


def has_fix(version: Version, fixed_in: Sequence[str]) -> bool:
    """Whether a version has a fix: its minor release got it by then, or the version is at least the newest fix.

    If ``fixed_in`` is 4.0.2, 4.1.2 and 4.2.0, then 4.1.2 and 4.3.0 have the fix, 4.1.1 and 4.0.1 do not.
    """
    fixes = [fix for text in fixed_in if (fix := parse_version(text))]
    own = any(minor_of(fix) == minor_of(version) and version >= fix for fix in fixes)
    return own or (bool(fixes) and version >= max(fixes))
