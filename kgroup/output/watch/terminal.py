"""``--watch`` in a terminal: the alternate screen and its keys; the terminal is restored however the watch ends."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from kgroup.model.output_format import Format
from kgroup.output.reporter import StderrReporter
from kgroup.output.streams import stdout_errors
from kgroup.output.terminal.colour import painter
from kgroup.output.terminal.draw import draw
from kgroup.output.watch.page import ScreenState, body_lines, fit_to_height, status_line
from kgroup.output.watch.refresh import Refresher, RefreshResult, next_start_s
from kgroup.output.watch.request import Refresh, WatchedVerb
from kgroup.support.background import in_background
from kgroup.support.clock import utc_now
from kgroup.support.errors import ExitCode
from kgroup.support.signals import defer_signals, handled, stop_process

_SIZE_UNKNOWN = os.terminal_size((80, 24))
_KEYS_AT_ONCE = 1024
_POLL_S = 0.1
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?<>=]*[ -/]*[@-~]|O.|.)?")
"""The sequences of arrow and function keys, which contain letters: F1 ends in a P."""


def watch_in_terminal(watched: WatchedVerb, reporter: StderrReporter) -> ExitCode:
    """Draw until ``q``, or until nothing is left to be watched; then the last page stays on the ordinary screen.

    Connecting and the first refresh come before the alternate screen, as without ``--watch``. Raises the KgroupError of
    a refresh that ends the watch.
    """
    refresher = Refresher()
    with watched.connect(refresher.reporter) as refresh:
        result = refresher.run(refresh)
        if not result.ends_watch(first=True):
            result = _WatchLoop(watched, refresh, refresher, result).run()
        if result.error is not None:
            raise result.error
        for line in result.lines if result.failure is not None or result.is_last else ():
            reporter.line(line)
        if not result.is_last:
            return result.failure or ExitCode.DONE
        with stdout_errors():
            for outcome in result.outcomes:
                draw(outcome, wide=watched.form is Format.WIDE)
            sys.stdout.flush()
        return result.exit_code


class _WatchLoop:
    """What is on the screen, and the refresh that runs: in a thread, so that keys work while a broker is silent."""

    def __init__(self, watched: WatchedVerb, refresh: Refresh, refresher: Refresher, first: RefreshResult) -> None:
        self._watched, self._refresh, self._refresher = watched, refresh, refresher
        self._state = ScreenState(first)
        self._due_s = time.monotonic() + watched.every_s
        self._started_s = 0.0
        self._running: Future[RefreshResult] | None = None
        self._paused = False
        self._p_typed_s = 0.0
        self._signals: list[int] = []
        self._keys_fd = sys.stdin.fileno() if _is_terminal(sys.stdin) else None
        self._paint = painter(sys.stdout)
        self._body: tuple[RefreshResult, int, list[str]] | None = None
        self._drawn: tuple[os.terminal_size, list[str]] | None = None

    def run(self) -> RefreshResult:
        """Run until ``q``, or a refresh that ends the watch; returns that refresh, or the last one that was shown."""
        # ctrl-\ would end kgroup and leave the terminal as it is in the watch.
        with handled((signal.SIGTSTP, signal.SIGQUIT), lambda number, frame: self._signals.append(number)):
            while True:
                with _screen(self._keys_fd) as live:
                    result = self._run_until_stopped(live)
                if result is not None:
                    return result
                stop_process()

    def _run_until_stopped(self, live: Live) -> RefreshResult | None:
        """The result of ``run``; None after ctrl-Z."""
        self._drawn = None
        self._signals.clear()
        while signal.SIGTSTP not in self._signals:
            now_s = time.monotonic()
            if self._running is None and not self._paused and now_s >= self._due_s:
                self._started_s = now_s
                self._running = in_background("watch", lambda: self._refresher.run(self._refresh))
            self._draw(live)
            for key in self._typed_keys():
                if key == "q":
                    return self._state.refresh
                if key == "p":
                    self._paused = not self._paused
                    self._due_s = self._p_typed_s = time.monotonic()
            if self._running is not None and self._running.done():
                result, self._running = self._running.result(), None
                if self._started_s < self._p_typed_s:  # a paused page does not change, and is then read again
                    continue
                if result.ends_watch(first=False):
                    return result
                self._state = self._state.after(result)
                self._due_s = next_start_s(self._started_s, time.monotonic(), self._watched.every_s)
        return None

    def _typed_keys(self) -> str:
        """The keys that are typed within a tenth of a second."""
        ready = select.select([] if self._keys_fd is None else [self._keys_fd], [], [], _POLL_S)[0]
        if not ready or self._keys_fd is None:
            return ""
        keys = b""
        with suppress(OSError):
            keys = os.read(self._keys_fd, _KEYS_AT_ONCE)
        if not keys:  # hung up: SIGHUP follows
            self._keys_fd = None
        return _ESCAPES.sub("", keys.decode("utf-8", "replace"))

    def _draw(self, live: Live) -> None:
        """Draw the page, unless it is on the screen already."""
        size = _terminal_size()
        width, height = size
        refresh = self._state.refresh
        if self._body is None or self._body[0] is not refresh or self._body[1] != width:
            lines = body_lines(refresh, width, self._paint, wide=self._watched.form is Format.WIDE)
            self._body = (refresh, width, lines)
        now = utc_now()
        status = status_line(self._state, self._watched.every_s, width, now, paused=self._paused)
        lines = fit_to_height(self._state, self._body[2], status, height, now, self._paint, width)
        if self._drawn == (size, lines):
            return
        live.console.width, live.console.height = size
        text = Text("\n", end="").join(Text.from_ansi(line) for line in lines)
        text.no_wrap, text.overflow = True, "crop"
        with stdout_errors():
            live.update(text, refresh=True)
        self._drawn = (size, lines)


@contextmanager
def _screen(keys_fd: int | None) -> Iterator[Live]:
    """stdout as the alternate screen, stdin as keys without Enter; keys that were typed ahead stay for the shell."""
    console = Console(file=sys.stdout, force_terminal=True, color_system="standard", highlight=False, emoji=False)
    live = Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
    before = None if keys_fd is None else termios.tcgetattr(keys_fd)
    try:
        if keys_fd is not None:
            tty.setcbreak(keys_fd, termios.TCSADRAIN)
        live.start()
        yield live
    finally:
        with defer_signals():  # a second ctrl-C must not interrupt this
            with suppress(OSError):  # the terminal itself is gone
                live.stop()
                sys.stdout.flush()
            if keys_fd is not None and before is not None:
                with suppress(termios.error):
                    termios.tcsetattr(keys_fd, termios.TCSADRAIN, before)


def _terminal_size() -> os.terminal_size:
    """Columns and lines now; 80 and 24 if they are unknown."""
    with suppress(OSError):
        size = os.get_terminal_size(sys.stdout.fileno())
        return size if all(size) else _SIZE_UNKNOWN
    return _SIZE_UNKNOWN


def _is_terminal(stream: Any) -> bool:
    """Whether the stream is a terminal; stdin may be missing or closed."""
    try:
        return bool(stream is not None and stream.isatty())
    except ValueError:
        return False
