"""Parses Python code while other threads of a test may print tracebacks."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

from tests.helpers.places import ROOT

_ATTEMPTS = 5


def parsed(path: Path) -> ast.Module:
    """The syntax tree of a module.

    Python 3.11 parses a line when it prints a traceback; if another thread does that meanwhile, ours fails with a
    SystemError that has nothing to do with the code (python/cpython#106905). So it is tried again.

    Meanwhile no garbage is collected: it would be searched for in half-made trees, for two thirds of the CPU.
    """
    text = path.read_text("utf-8")
    gc.disable()
    try:
        for _ in range(_ATTEMPTS - 1):
            try:
                return ast.parse(text)
            except SystemError:
                continue
        return ast.parse(text)
    finally:
        gc.enable()


@cache
def product() -> dict[Path, ast.Module]:
    """The syntax trees of all modules of kgroup, by path."""
    return {path: parsed(path) for path in (ROOT / "kgroup").rglob("*.py")}
