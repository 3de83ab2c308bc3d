"""``--watch`` in a terminal: the alternate screen and its keys; the terminal is restored however the watch ends.

Refreshes run in a thread of their own, so that keys work while a broker does not answer.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from types import FrameType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from kgroup.model.output_format import Format
from kgroup.output.reporter import StderrReporter
from kgroup.output.streams import stdout_errors
from kgroup.output.terminal.colour import painter
from kgroup.output.watch.listener import RefreshListener
from kgroup.output.watch.pace import RefreshPace, is_the_end
from kgroup.output.watch.page import RefreshResult, ScreenState, body_lines, fit_to_height, status_line
from kgroup.output.watch.request import Refresh, WatchedVerb
from kgroup.support.clock import utc_now
from kgroup.support.errors import ExitCode
from kgroup.support.signals import defer_signals, handled, stop_process

_SIZE_UNKNOWN = (80, 24)
_KEYS_AT_ONCE = 1024
_LOCAL_FLAGS, _CONTROL_CHARACTERS = 3, 6


def in_terminal(watched: WatchedVerb, reporter: StderrReporter) -> ExitCode:
    """Draw until ``q``. Connecting and the first refresh come before the alternate screen, as without ``--watch``.

    Raises the KgroupError of a refresh that ends the watch.
    """
    listener = RefreshListener()
    with watched.opened(listener.reporter) as look:
        seen = listener.take(look)
        if not (seen.failure is not None and is_the_end(seen.failure, first=True)):
            with _woken_by((signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT)) as wakes, _Terminal() as terminal:
                seen = _Watching(watched, terminal, wakes, _Looks(look, listener, wakes)).until_the_end(seen)
        if seen.error is not None and seen.failure is not None:
            raise seen.error
        for line in seen.lines if seen.failure is not None else ():
            reporter.line(line)
        return seen.failure or ExitCode.DONE


class _Wakes:
    """A pipe that ends the wait for keys when a signal arrives or a refresh ends."""

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)
        self.signals: set[int] = set()

    def note(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        self.signals.add(number)
        self.wake()

    def wake(self) -> None:
        """End the current or the next wait; a full pipe does that already, and after close() there is none."""
        with suppress(OSError):
            os.write(self._write_fd, b".")

    def taken(self) -> frozenset[int]:
        """The signals since the last call."""
        with suppress(BlockingIOError):
            while os.read(self.fd, _KEYS_AT_ONCE):
                pass
        found = frozenset(self.signals)
        self.signals -= found
        return found

    def close(self) -> None:
        os.close(self.fd)
        os.close(self._write_fd)


@contextmanager
def _woken_by(numbers: Sequence[signal.Signals]) -> Iterator[_Wakes]:
    wakes = _Wakes()
    try:
        with handled(numbers, wakes.note):  # a shell without job control ignores ctrl-Z
            yield wakes
    finally:
        wakes.close()


class _Looks:
    """Refreshes one after the other, each in a thread; the result waits in a queue."""

    def __init__(self, look: Refresh, listener: RefreshListener, wakes: _Wakes) -> None:
        self._look, self._listener, self._wakes = look, listener, wakes
        self._brought: SimpleQueue[RefreshResult | BaseException] = SimpleQueue()

    def begin(self) -> None:
        """Start a refresh; not to be called while another one is running."""
        # A daemon thread: quitting does not wait for a broker that does not answer.
        threading.Thread(target=self._run, name="look", daemon=True).start()

    def _run(self) -> None:
        try:
            self._brought.put(self._listener.take(self._look))
        except BaseException as bug:
            self._brought.put(bug)
        self._wakes.wake()

    def take(self) -> RefreshResult | None:
        """The result; None while the refresh is running. Raises the exception if a bug raised one in it."""
        if self._brought.empty():
            return None
        brought = self._brought.get()
        if isinstance(brought, BaseException):
            raise brought
        return brought


class _Terminal:
    """stdout as the alternate screen and stdin as keys without Enter; a context manager that restores both."""

    def __init__(self) -> None:
        self._console = Console(
            file=sys.stdout, force_terminal=True, color_system="standard", highlight=False, markup=False, emoji=False
        )
        self._live: Live | None = None
        self._keys_fd = sys.stdin.fileno() if _is_terminal(sys.stdin) else None
        self._before: list[Any] | None = None
        self._drawn: tuple[tuple[int, int], list[str]] | None = None

    def __enter__(self) -> _Terminal:
        try:
            self.enter()
        except BaseException:
            self.leave()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def enter(self) -> None:
        """Start, or start again, to draw and to read keys."""
        if self._keys_fd is not None:
            self._before = termios.tcgetattr(self._keys_fd)
            changed = termios.tcgetattr(self._keys_fd)
            changed[_LOCAL_FLAGS] &= ~(termios.ICANON | termios.ECHO)
            # ctrl-\ would end kgroup and leave the terminal in this state.
            changed[_CONTROL_CHARACTERS][termios.VQUIT] = b"\0"
            changed[_CONTROL_CHARACTERS][termios.VMIN] = 1
            changed[_CONTROL_CHARACTERS][termios.VTIME] = 0
            termios.tcsetattr(self._keys_fd, termios.TCSADRAIN, changed)
        self._drawn = None
        self._live = Live(
            console=self._console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._live.start()

    def leave(self) -> None:
        """Restore the terminal; keys that were typed ahead stay for the shell."""
        with defer_signals():  # a second ctrl-C must not interrupt this
            if self._live is not None:
                with suppress(OSError):  # the terminal itself is gone
                    self._live.stop()
                    sys.stdout.flush()
                self._live = None
            if self._before is not None and self._keys_fd is not None:
                with suppress(termios.error):
                    termios.tcsetattr(self._keys_fd, termios.TCSADRAIN, self._before)
                self._before = None

    def suspended(self) -> None:
        """Do what ctrl-Z does: stop, with the terminal restored for the shell, until ``fg``."""
        self.leave()
        stop_process()
        self.enter()

    def continued(self) -> None:
        """Set the terminal again after a SIGSTOP, which cannot be caught: the shell may have changed all settings."""
        before = self._before
        self.leave()
        self.enter()
        self._before = before if before is not None else self._before

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines now; 80 and 24 if they are unknown."""
        try:
            columns, lines = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            return _SIZE_UNKNOWN
        return columns or _SIZE_UNKNOWN[0], lines or _SIZE_UNKNOWN[1]

    def draw(self, lines: list[str], size: tuple[int, int]) -> None:
        """Show these lines, unless they are on the screen already."""
        if self._drawn == (size, lines) or self._live is None:
            return
        self._console.width, self._console.height = size
        text = Text("\n", no_wrap=True, overflow="crop", end="").join(Text.from_ansi(line) for line in lines)
        text.no_wrap, text.overflow = True, "crop"
        with stdout_errors():
            self._live.update(text, refresh=True)
        self._drawn = (size, lines)

    def keys(self, wakes: _Wakes, within_s: float) -> str:
        """The keys, as soon as some are typed; "" after ``within_s``, or if a signal or a refresh ends the wait."""
        fds = [wakes.fd] if self._keys_fd is None else [wakes.fd, self._keys_fd]
        ready, _, _ = select.select(fds, [], [], within_s)
        if self._keys_fd is None or self._keys_fd not in ready:
            return ""
        try:
            typed = os.read(self._keys_fd, _KEYS_AT_ONCE)
        except OSError:
            typed = b""
        if not typed:  # hung up: SIGHUP follows
            self._keys_fd = None
        return typed.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class _Body:
    """The page laid out for a width, kept until the page or the width changes."""

    shown: ScreenState
    width: int
    lines: list[str]


class _Watching:
    """The loop: it takes refreshes, keys and signals, and draws pages."""

    def __init__(self, watched: WatchedVerb, terminal: _Terminal, wakes: _Wakes, looks: _Looks) -> None:
        self._terminal, self._wakes, self._looks = terminal, wakes, looks
        self._every_s = watched.every_s
        self._wide = watched.form is Format.WIDE
        self._paint = painter(sys.stdout)
        self._body: _Body | None = None

    def until_the_end(self, first: RefreshResult) -> RefreshResult:
        """Run until ``q`` or a refresh that ends the watch; returns that refresh, or the last one that was shown."""
        shown = ScreenState.initial(first)
        pace = RefreshPace(self._every_s, due_s=time.monotonic() + self._every_s)
        while not pace.quit:
            if pace.is_due(time.monotonic()):
                pace = pace.begin(time.monotonic())
                self._looks.begin()
            self._draw(shown, pace)
            pace = pace.pressed(self._terminal.keys(self._wakes, pace.wait_s(time.monotonic())), time.monotonic())
            self._obey(self._wakes.taken())
            seen = self._looks.take()
            if seen is None:
                continue
            if seen.failure is not None and is_the_end(seen.failure, first=False):
                return seen
            if not pace.late:
                shown = shown.after(seen)
            pace = pace.end(time.monotonic())
        return shown.look

    def _obey(self, signals: frozenset[int]) -> None:
        if signal.SIGTSTP in signals:
            self._terminal.suspended()
            self._wakes.signals.discard(signal.SIGCONT)
        elif signal.SIGCONT in signals:
            self._terminal.continued()

    def _draw(self, shown: ScreenState, pace: RefreshPace) -> None:
        width, height = size = self._terminal.size
        if self._body is None or self._body.shown is not shown or self._body.width != width:
            lines = body_lines(shown, width, self._paint, wide=self._wide)
            self._body = _Body(shown, width, lines)
        now = utc_now()
        status = status_line(shown, self._every_s, width, now, paused=pace.paused)
        self._terminal.draw(fit_to_height(shown, self._body.lines, status, height, now, self._paint), size)


def _is_terminal(stream: Any) -> bool:
    """Whether the stream is a terminal; stdin may be missing or closed."""
    try:
        return bool(stream is not None and stream.isatty())
    except ValueError:
        return False
