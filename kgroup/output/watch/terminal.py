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
from queue import SimpleQueue
from types import FrameType
from typing import Any

import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from kgroup.model.output_format import Format
from kgroup.output.reporter import StderrReporter
from kgroup.output.streams import stdout_errors
from kgroup.output.terminal.colour import painter
from kgroup.output.terminal.draw import draw
from kgroup.output.watch.listener import RefreshListener
from kgroup.output.watch.pace import RefreshPace, ends_watch
from kgroup.output.watch.page import RefreshResult, ScreenState, body_lines, fit_to_height, status_line
from kgroup.output.watch.request import Refresh, WatchedVerb
from kgroup.support.clock import utc_now
from kgroup.support.errors import ExitCode
from kgroup.support.signals import defer_signals, handled, stop_process

_SIZE_UNKNOWN = (80, 24)
_KEYS_AT_ONCE = 1024
_LOCAL_FLAGS, _CONTROL_CHARACTERS = 3, 6


def watch_in_terminal(watched: WatchedVerb, reporter: StderrReporter) -> ExitCode:
    """Draw until ``q``, or until nothing is left to be watched; then the last page stays on the ordinary screen.

    Connecting and the first refresh come before the alternate screen, as without ``--watch``. Raises the KgroupError of
    a refresh that ends the watch.
    """
    listener = RefreshListener()
    with watched.connect(listener.reporter) as refresh:
        result = listener.run(refresh)
        if not (result.is_last or (result.failure is not None and ends_watch(result.failure, first=True))):
            with _woken_by((signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT)) as wake_ups, _Terminal() as terminal:
                refreshes = _RefreshThread(refresh, listener, wake_ups)
                result = _WatchLoop(watched, terminal, wake_ups, refreshes).run(result)
        if result.error is not None and result.failure is not None:
            raise result.error
        for line in result.lines if result.failure is not None or result.is_last else ():
            reporter.line(line)
        if result.is_last:
            _draw_last(result, wide=watched.form is Format.WIDE)
            return result.exit_code
        return result.failure or ExitCode.DONE


def _draw_last(result: RefreshResult, *, wide: bool) -> None:
    with stdout_errors():
        for outcome in result.outcomes:
            draw(outcome, wide=wide)
        sys.stdout.flush()


class _WakeUps:
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

    def take_signals(self) -> frozenset[int]:
        """The signals since the last call."""
        with suppress(BlockingIOError):
            while os.read(self.fd, _KEYS_AT_ONCE):
                pass
        received = frozenset(self.signals)
        self.signals -= received
        return received

    def close(self) -> None:
        os.close(self.fd)
        os.close(self._write_fd)


@contextmanager
def _woken_by(numbers: Sequence[signal.Signals]) -> Iterator[_WakeUps]:
    wake_ups = _WakeUps()
    try:
        with handled(numbers, wake_ups.note):  # a shell without job control ignores ctrl-Z
            yield wake_ups
    finally:
        wake_ups.close()


class _RefreshThread:
    """Refreshes one after the other, each in a thread; the result waits in a queue."""

    def __init__(self, refresh: Refresh, listener: RefreshListener, wake_ups: _WakeUps) -> None:
        self._refresh, self._listener, self._wake_ups = refresh, listener, wake_ups
        self._results: SimpleQueue[RefreshResult | BaseException] = SimpleQueue()

    def begin(self) -> None:
        """Start a refresh; not to be called while another one is running."""
        # A daemon thread: quitting does not wait for a broker that does not answer.
        threading.Thread(target=self._run, name="refresh", daemon=True).start()

    def _run(self) -> None:
        try:
            self._results.put(self._listener.run(self._refresh))
        except BaseException as bug:
            self._results.put(bug)
        self._wake_ups.wake()

    def take(self) -> RefreshResult | None:
        """The result; None while the refresh is running. Raises the exception if a bug raised one in it."""
        if self._results.empty():
            return None
        result = self._results.get()
        if isinstance(result, BaseException):
            raise result
        return result


class _Terminal:
    """stdout as the alternate screen and stdin as keys without Enter; a context manager that restores both."""

    def __init__(self) -> None:
        self._console = Console(
            file=sys.stdout, force_terminal=True, color_system="standard", highlight=False, markup=False, emoji=False
        )
        self._live: Live | None = None
        self._keys_fd = sys.stdin.fileno() if _is_terminal(sys.stdin) else None
        self._original: list[Any] | None = None
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
            self._original = termios.tcgetattr(self._keys_fd)
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
            if self._original is not None and self._keys_fd is not None:
                with suppress(termios.error):
                    termios.tcsetattr(self._keys_fd, termios.TCSADRAIN, self._original)
                self._original = None

    def suspend(self) -> None:
        """Do what ctrl-Z does: stop, with the terminal restored for the shell, until ``fg``."""
        self.leave()
        stop_process()
        self.enter()

    def resume(self) -> None:
        """Set the terminal again after a SIGSTOP, which cannot be caught: the shell may have changed all settings."""
        original = self._original
        self.leave()
        self.enter()
        self._original = original if original is not None else self._original

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

    def keys(self, wake_ups: _WakeUps, within_s: float) -> str:
        """The keys, as soon as some are typed; "" after ``within_s``, or if a signal or a refresh ends the wait."""
        fds = [wake_ups.fd] if self._keys_fd is None else [wake_ups.fd, self._keys_fd]
        ready, _, _ = select.select(fds, [], [], within_s)
        if self._keys_fd is None or self._keys_fd not in ready:
            return ""
        try:
            keys = os.read(self._keys_fd, _KEYS_AT_ONCE)
        except OSError:
            keys = b""
        if not keys:  # hung up: SIGHUP follows
            self._keys_fd = None
        return keys.decode("utf-8", "replace")


class _Body(msgspec.Struct, frozen=True):
    """The page laid out for a width, kept until the page or the width changes."""

    state: ScreenState
    width: int
    lines: list[str]


class _WatchLoop:
    """The loop: it takes refreshes, keys and signals, and draws pages."""

    def __init__(
        self, watched: WatchedVerb, terminal: _Terminal, wake_ups: _WakeUps, refreshes: _RefreshThread
    ) -> None:
        self._terminal, self._wake_ups, self._refreshes = terminal, wake_ups, refreshes
        self._every_s = watched.every_s
        self._wide = watched.form is Format.WIDE
        self._paint = painter(sys.stdout)
        self._body: _Body | None = None

    def run(self, first: RefreshResult) -> RefreshResult:
        """Run until ``q`` or a refresh that ends the watch; returns that refresh.

        After ``q`` it is one that does not end the watch: the last that was shown.
        """
        state = ScreenState.initial(first)
        pace = RefreshPace(self._every_s, due_s=time.monotonic() + self._every_s)
        while not pace.quit:
            if pace.is_due(time.monotonic()):
                pace = pace.begin(time.monotonic())
                self._refreshes.begin()
            self._draw(state, pace)
            pace = pace.after_keys(self._terminal.keys(self._wake_ups, pace.wait_s(time.monotonic())), time.monotonic())
            self._handle(self._wake_ups.take_signals())
            result = self._refreshes.take()
            if result is None:
                continue
            if result.failure is not None and ends_watch(result.failure, first=False):
                return result
            if not pace.late:
                if result.is_last:
                    return result
                state = state.after(result)
            pace = pace.end(time.monotonic())
        return state.refresh

    def _handle(self, signals: frozenset[int]) -> None:
        if signal.SIGTSTP in signals:
            self._terminal.suspend()
            self._wake_ups.signals.discard(signal.SIGCONT)
        elif signal.SIGCONT in signals:
            self._terminal.resume()

    def _draw(self, state: ScreenState, pace: RefreshPace) -> None:
        width, height = size = self._terminal.size
        if self._body is None or self._body.state is not state or self._body.width != width:
            lines = body_lines(state, width, self._paint, wide=self._wide)
            self._body = _Body(state, width, lines)
        now = utc_now()
        status = status_line(state, self._every_s, width, now, paused=pace.paused)
        self._terminal.draw(fit_to_height(state, self._body.lines, status, height, now, self._paint, width), size)


def _is_terminal(stream: Any) -> bool:
    """Whether the stream is a terminal; stdin may be missing or closed."""
    try:
        return bool(stream is not None and stream.isatty())
    except ValueError:
        return False
