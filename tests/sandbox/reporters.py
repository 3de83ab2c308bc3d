"""A Reporter that remembers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


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

    @contextmanager
    def progress(self, label: str, total: int, unit: str) -> Iterator[Recorder]:
        yield self

    def update(self, done: int) -> None:
        self.counts.append(done)
