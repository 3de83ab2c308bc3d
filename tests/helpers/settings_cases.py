"""A Reporter that remembers, for tests of everything that warns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from kgroup.model.reporter import Progress, ProgressPart


class _NoProgress:
    def update(self, done: int, text: str = "", parts: Sequence[ProgressPart] = ()) -> None:
        pass


class Notes:
    """What was said beside the result."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self.events: list[tuple[str, str]] = []

    def event(self, word: str, text: str) -> None:
        self.events.append((word, text))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def note_effect(self, effect: str | None, change_id: str | None = None) -> None:
        """Nothing: only an error or a signal would show it."""

    def box(self, lines: Sequence[str]) -> None:
        self.notes += lines

    def progress(self, label: str, total: int, unit: str, word: str | None = None) -> AbstractContextManager[Progress]:
        return nullcontext(_NoProgress())
