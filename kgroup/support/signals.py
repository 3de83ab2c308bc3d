"""Signals that end kgroup: they raise at once, or are deferred while something is finished."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from kgroup.support.errors import ExitCode

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived; like ctrl-C, it unwinds the stack."""


def terminate(number: int, frame: FrameType | None) -> NoReturn:
    """The handler of SIGTERM and SIGHUP."""
    raise Terminated


class DeferredSignal:
    """Remembers the signal that arrived during the block, None if none did."""

    def __init__(self) -> None:
        self.number: int | None = None

    def note(self, number: int, frame: FrameType | None) -> None:
        """The signal handler during the block."""
        self.number = number

    @property
    def exit_code(self) -> ExitCode | None:
        """The exit code of kgroup for that signal, None without one."""
        if self.number is None:
            return None
        return ExitCode.INTERRUPTED if self.number == signal.SIGINT else ExitCode.TERMINATED

    def __bool__(self) -> bool:
        return self.number is not None


@contextmanager
def defer_signals() -> Iterator[DeferredSignal]:
    """Let only SIGKILL end the block: its code checks the yielded value, finishes its current row, and stops."""
    pending = DeferredSignal()
    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield pending
        return
    before: dict[signal.Signals, Any] = {}
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, pending.note)
    try:
        yield pending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
