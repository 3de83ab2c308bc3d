"""An error of a task as plain values, to send from a worker to the driver. Pure."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from kgroup.support.errors import KgroupError, refusal_code

SPARK_WORKERS = refusal_code(
    "spark-workers",
    "catchup",
    "A worker of Spark lacks what the replay needs: a package, a file, the directory or the command of the "
    "destination; or it runs another version of Python.",
    "Follow the hint, on each machine with workers.",
)


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of a task as plain values."""

    kind: str | None
    """Its class in kgroup.support.errors, None for a bug."""

    message: str
    code: str
    exit_code: int
    details: tuple[str, ...]
    hint: str | None
    trace: str | None
    """The traceback of a bug, None for a KgroupError."""


def failure_of(error: Exception) -> Failure:
    """Convert an error to plain values."""
    if isinstance(error, KgroupError):
        kind = _kind(type(error))
        return Failure(kind, error.message, error.code, int(error.exit_code), error.details, error.hint, None)
    text = "".join(traceback.format_exception(error))
    return Failure(None, f"{type(error).__name__}: {error}", "failed", 1, (), None, text)


def _kind(kind: type[KgroupError]) -> str:
    """The name of the nearest base class that is defined in kgroup.support.errors."""
    return next((c.__name__ for c in kind.__mro__ if c.__module__ == KgroupError.__module__), KgroupError.__name__)
