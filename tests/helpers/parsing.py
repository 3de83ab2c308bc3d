"""Parses Python code while other threads of a test may print tracebacks."""

from __future__ import annotations

import ast
from pathlib import Path

_ATTEMPTS = 5


def parsed(path: Path) -> ast.Module:
    """The syntax tree of a module.

    Python 3.11 parses a line when it prints a traceback; if another thread does that meanwhile, ours fails with a
    SystemError that has nothing to do with the code (python/cpython#106905). So it is tried again.
    """
    text = path.read_text("utf-8")
    for _ in range(_ATTEMPTS - 1):
        try:
            return ast.parse(text)
        except SystemError:
            continue
    return ast.parse(text)
