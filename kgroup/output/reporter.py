"""Events, notes, warnings and progress on stderr while a command works."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from kgroup.model.blocks import Style
from kgroup.output.remarks import NO_REMARKS, Remarks
from kgroup.output.terminal.colour import painter, terminal_width
from kgroup.settings.environment import is_dumb_terminal
from kgroup.support.clock import utc_now
from kgroup.support.errors import KgroupError
from kgroup.support.quoting import visible

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from kgroup.model.groups import RowError
    from kgroup.model.reporter import Progress, ProgressPart
    from kgroup.output.terminal.live import LiveProgress

_PLAIN_INTERVAL_S = 10.0
_HANGING = 2


class StderrReporter:
    """The Reporter of the command line. It writes whole lines, so that ``2>&1 | grep`` works.

    ``quiet`` hides events, notes and progress; they are still in documents.
    """

    def __init__(self, stream: IO[str], *, quiet: bool = False) -> None:
        self._stream = stream
        self.quiet = quiet
        self._paint = painter(stream)
        self._live: LiveProgress | None = None
        self._remarks = NO_REMARKS
        self.effect: str | None = None
        self.change_id: str | None = None

    def event(self, word: str, text: str) -> None:
        """``03:16:03Z  RELEASED  text``."""
        if not self.quiet:
            self._line(f"{utc_now():%H:%M:%SZ}  {word:<8}  {text}")

    def note(self, text: str) -> None:
        self._remarks = self._remarks.and_note(text)
        if not self.quiet:
            self._line(text, "note:", "dim")

    def warn(self, text: str) -> None:
        self._remarks = self._remarks.and_warning(text)
        self._line(text, "WARNING", "warn")

    def take_remarks(self) -> Remarks:
        """The warnings and notes since this was last called."""
        taken, self._remarks = self._remarks, NO_REMARKS
        return taken

    def error(self, error: KgroupError) -> None:
        """What happened, the facts that show it, and what to do next."""
        self._line(f"{error.message} [{error.code}]", "kgroup:", "bad")
        for line in (*error.details, *((error.hint,) if error.hint else ())):
            for part in line.splitlines():
                self._line(f"  {part}")

    def line(self, text: str) -> None:
        """Write a finished line, such as one from another reporter."""
        self._line(text)

    def row_errors(self, errors: tuple[RowError, ...], limit: int = 10) -> None:
        """Write the failed rows: at most ``limit`` kinds of error, ``limit`` rows of each, and one hint per kind."""
        kinds: dict[tuple[str, str], list[RowError]] = {}
        for error in errors:
            kinds.setdefault((error.code, error.message), []).append(error)
        for (code, message), rows in list(kinds.items())[:limit]:
            subjects = list(dict.fromkeys(row.subject for row in rows if row.subject))
            more = f" and {len(subjects) - limit} more" if len(subjects) > limit else ""
            said = len(subjects) == 1 and message.startswith(subjects[0])
            where = f"{', '.join(subjects[:limit])}{more}: " if subjects and not said else ""
            self._line(f"{where}{message} [{code}]", "kgroup:", "bad")
            hint = next((row.hint for row in rows if row.hint), None)
            for line in (*rows[0].details, *((hint,) if hint else ())):
                for part in line.splitlines():
                    self._line(f"  {part}")
        if len(kinds) > limit:
            self._line(f"and {len(kinds) - limit} more errors of other kinds: -o json has all", "kgroup:", "bad")

    def note_effect(self, effect: str | None, change_id: str | None = None) -> None:
        self.effect, self.change_id = effect, change_id

    def box(self, lines: Sequence[str]) -> None:
        """The only box that kgroup draws. Long lines are wrapped in it; a word too long for it leaves no box."""
        if self.quiet or not self._stream.isatty():
            return
        from kgroup.output.terminal.wrapping import boxed

        for line in ("", *boxed([visible(line) for line in lines], terminal_width(self._stream)), ""):
            self._line(line, wraps=False)

    @contextmanager
    def progress(self, label: str, total: int, unit: str, word: str | None = None) -> Iterator[Progress]:
        """In a terminal a bar, or lines redrawn in place if ``word`` is given; elsewhere a line every ten seconds."""
        if self.quiet or not self._stream.isatty() or is_dumb_terminal():
            yield _PlainProgress(self, label, total, unit, word)
            return
        if word is not None:
            from kgroup.output.terminal.live import LiveProgress

            with LiveProgress(self._stream, label, total) as live:
                self._live = live
                try:
                    yield live
                finally:
                    self._live = None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        bars = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
            console=Console(file=self._stream),
            transient=True,
        )
        with bars:
            yield _Bar(bars, bars.add_task(label, total=total, text=""))

    def _line(self, text: str, head: str = "", style: Style | None = None, *, wraps: bool = True) -> None:
        """Write one line, in a terminal broken at blanks to its width.

        Unprintable characters are escaped: it may contain a group name that any client chose.
        """
        plain = f"{head} {visible(text)}" if head else visible(text)
        first, *others = self._wrapped(plain) if wraps and self._stream.isatty() else [plain]
        first = self._paint(head, style) + first[len(head) :] if head else first
        with suppress(OSError):  # stderr is closed; the exit code remains
            for line in (first, *others):
                if (live := self._live) is not None:
                    live.above(line)
                else:
                    self._stream.write(line + "\n")
            self._stream.flush()

    def _wrapped(self, text: str) -> list[str]:
        # Imported here, because it takes longer than a page of help.
        from kgroup.output.terminal.wrapping import wrap_line

        return wrap_line(text, terminal_width(self._stream), len(text) - len(text.lstrip()) + _HANGING)


class _PlainProgress:
    def __init__(self, reporter: StderrReporter, label: str, total: int, unit: str, word: str | None) -> None:
        self._reporter, self._label, self._total, self._unit = reporter, label, total, unit
        self._word = word
        self._said_at = time.monotonic()

    def update(self, done: int, text: str = "", parts: Sequence[ProgressPart] = ()) -> None:
        if not self._reporter.quiet and time.monotonic() - self._said_at >= _PLAIN_INTERVAL_S:
            self._said_at = time.monotonic()
            said = f"{done} of {self._total} {self._unit}{f'  {text}' if text else ''}"
            if self._word is None:
                self._reporter.line(f"note: {self._label}: {said}")
            else:
                self._reporter.event(self._word, f"{self._label}  {said}")


class _Bar:
    def __init__(self, bars: Bars, task: TaskID) -> None:
        self._bars, self._task = bars, task

    def update(self, done: int, text: str = "", parts: Sequence[ProgressPart] = ()) -> None:
        self._bars.update(self._task, completed=done, text=text)
