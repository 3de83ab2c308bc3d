"""The interface for output on stderr, apart from the result: events, notes, warnings and progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import msgspec


class ProgressPart(msgspec.Struct, frozen=True):
    """The progress of one part: ``done`` of ``total``, which may be 0."""

    label: str
    done: int
    total: int


class Progress(Protocol):
    """A progress count, shown as a bar in a terminal."""

    def update(self, done: int, text: str = "", parts: Sequence[ProgressPart] = ()) -> None:
        """Set the amount done, in the unit that ``Reporter.progress`` got.

        ``text`` has further facts, separated by two blanks. In a terminal each of ``parts`` has its own bar.
        """


class Reporter(Protocol):
    """Prints events, notes, warnings and progress on stderr."""

    def event(self, word: str, text: str) -> None:
        """Print one line that begins with the time and a fixed upper-case word (WAIT, RELEASED, ...)."""

    def note(self, text: str) -> None:
        """Print a fact about the result, such as what could not be read."""

    def warn(self, text: str) -> None:
        """Print a warning: something that the user should change."""

    def note_effect(self, effect: str | None, change_id: str | None = None) -> None:
        """What an error or a signal from now on leaves behind, for its message: "nothing was changed".

        None: nothing to add. ``change_id`` is the change that was made, which the message shows how to undo.
        """

    def box(self, lines: Sequence[str]) -> None:
        """Print a framed message in a terminal; nothing elsewhere, where callers print an event with the same facts."""

    def progress(self, label: str, total: int, unit: str, word: str | None = None) -> AbstractContextManager[Progress]:
        """Show a bar of ``total`` units while the block runs; plain lines if stderr is no terminal.

        With ``word`` it shows a line of facts and a bar for each part; events if stderr is no terminal.
        """


class NullReporter:
    """A Reporter that prints nothing: for a prompt, or for a tool that only runs another one."""

    def event(self, word: str, text: str) -> None: ...

    def note(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def note_effect(self, effect: str | None, change_id: str | None = None) -> None: ...

    def box(self, lines: Sequence[str]) -> None: ...

    @contextmanager
    def progress(self, label: str, total: int, unit: str, word: str | None = None) -> Iterator[Progress]:
        yield _NoBar()


class _NoBar:
    def update(self, done: int, text: str = "", parts: Sequence[ProgressPart] = ()) -> None: ...
