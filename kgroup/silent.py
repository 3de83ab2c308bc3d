"""A Reporter for callers that have nobody to talk to: a prompt, a tool that only runs another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgroup.model import Progress, ProgressPart


class Silent:
    """Says nothing, and shows no bar."""

    def event(self, word: str, text: str) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def warn(self, text: str) -> None:
        """Nothing."""

    def box(self, lines: Sequence[str]) -> None:
        """Nothing."""

    @contextmanager
    def progress(self, label: str, total: int, unit: str, word: str | None = None) -> Iterator[Progress]:
        """No bar."""
        yield _NoBar()


class _NoBar:
    def update(self, done: int, text: str = "", parts: Sequence[ProgressPart] = ()) -> None:
        """Nothing."""
