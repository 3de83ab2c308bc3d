"""What is shown next to the result, on stderr: events, notes, warnings and progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ProgressPart:
    """How far a part of something is, ``done`` of ``total``, which may be 0."""

    label: str
    done: int
    total: int


class Progress(Protocol):
    """A running count, shown as a bar in a terminal."""

    def update(self, done: int, text: str = "", parts: Sequence[ProgressPart] = ()) -> None:
        """Set how much is done, in the unit that the bar was made with.

        ``text`` is what else there is to say, its facts two blanks apart; ``parts`` get a bar each in a terminal.
        """


class Reporter(Protocol):
    """Everything that is said beside the result, on stderr."""

    def event(self, word: str, text: str) -> None:
        """One line that begins with the time and a fixed upper-case word (WAIT, RELEASED, ...)."""

    def note(self, text: str) -> None:
        """A fact about the result, such as what could not be read."""

    def warn(self, text: str) -> None:
        """Something that the user ought to change."""

    def box(self, lines: Sequence[str]) -> None:
        """What must not be overlooked, in a terminal; nothing elsewhere, where an event says the same."""

    def progress(self, label: str, total: int, unit: str, word: str | None = None) -> AbstractContextManager[Progress]:
        """A bar of ``total`` units while the block runs; where stderr is no terminal plain lines.

        With ``word`` it is a line of facts and a bar for each part, and where stderr is no terminal events.
        """


class NullReporter:
    """A Reporter that says nothing and shows no bar: for a prompt, or for a tool that only runs another one."""

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
