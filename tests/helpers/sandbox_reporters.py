"""A Reporter that remembers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from kgroup.model.reporter import ProgressPart


@dataclass
class Recorder:
    """What was said, and the last count of each progress bar."""

    said: list[str] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def event(self, word: str, text: str) -> None:
        self.said.append(f"{word} {text}")

    def note(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.said.append(text)

    def note_effect(self, effect: str | None, change_id: str | None = None) -> None:
        """Nothing: only an error or a signal would show it."""

    def box(self, lines: Sequence[str]) -> None:
        self.said += lines

    @contextmanager
    def progress(self, label: str, total: int, unit: str, word: str | None = None) -> Iterator[Recorder]:
        yield self

    def update(self, done: int, text: str = "", parts: Sequence[ProgressPart] = ()) -> None:
        self.counts.append(done)
