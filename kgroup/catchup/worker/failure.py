"""An error of a task as plain values, which travel from a worker to the driver. Pure."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from kgroup.support.errors import KgroupError


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of a task as plain values: ``kind`` is the class's name in kgroup.support.errors, None for a bug.

    ``trace`` is the bug's traceback, None for an error of ours.
    """

    kind: str | None
    message: str
    code: str
    exit_code: int
    details: tuple[str, ...]
    hint: str | None
    trace: str | None


def failure_of(error: Exception) -> Failure:
    """An error as plain values."""
    if isinstance(error, KgroupError):
        kind = _kind(type(error))
        return Failure(kind, error.message, error.code, int(error.exit_code), error.details, error.hint, None)
    text = "".join(traceback.format_exception(error))
    return Failure(None, f"{type(error).__name__}: {error}", "failed", 1, (), None, text)


def _kind(kind: type[KgroupError]) -> str:
    """The nearest class that stands in kgroup.support.errors itself."""
    return next((c.__name__ for c in kind.__mro__ if c.__module__ == KgroupError.__module__), KgroupError.__name__)
