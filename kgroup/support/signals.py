"""The handlers of signals, installed here and nowhere else.

Signals end kgroup at once until a verb begins; then they raise, or are deferred while something is finished. A signal
that was ignored when kgroup started stays ignored: ``nohup``, a background job of a shell.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from kgroup.support.errors import ExitCode

SignalHandler = Callable[[int, FrameType | None], object]

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived; like ctrl-C, it unwinds the stack."""


def end_at_once() -> None:
    """Let ctrl-C and SIGTERM exit without cleaning up: no verb has begun."""
    _install({signal.SIGINT: _exit, signal.SIGTERM: _exit})


def raise_signals() -> None:
    """Let ctrl-C raise KeyboardInterrupt, and SIGTERM and SIGHUP raise Terminated."""
    _install({signal.SIGINT: _interrupt, signal.SIGTERM: _terminate, signal.SIGHUP: _terminate})


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
        # Imported here: this module is imported before anything else, to handle ctrl-C.
        from kgroup.support.errors import ExitCode

        if self.number is None:
            return None
        return ExitCode.INTERRUPTED if self.number == signal.SIGINT else ExitCode.TERMINATED

    def __bool__(self) -> bool:
        return self.number is not None


@contextmanager
def defer_signals() -> Iterator[DeferredSignal]:
    """Let only SIGKILL end the block: its code checks the yielded value, finishes its current row, and stops."""
    import threading

    pending = DeferredSignal()
    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield pending
        return
    with handled(_ENDING, pending.note):
        yield pending


@contextmanager
def handled(numbers: Iterable[signal.Signals], handler: SignalHandler) -> Iterator[None]:
    """Let ``handler`` get these signals during the block; for the main thread only."""
    before = _install(dict.fromkeys(numbers, handler))
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)


def stop_process() -> None:
    """Do what ctrl-Z does: return when the shell continues the process."""
    handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    try:
        signal.raise_signal(signal.SIGTSTP)
    finally:
        signal.signal(signal.SIGTSTP, handler)


def end_after(seconds: float) -> None:
    """Exit with 0 after ``seconds``, whatever hangs then; 0 seconds: never."""
    signal.signal(signal.SIGALRM, lambda number, frame: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, seconds)


def kill_after(seconds: int) -> None:
    """Let the kernel end the process after ``seconds``, even if a C library hangs then."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)


def _install(handlers: Mapping[signal.Signals, SignalHandler]) -> dict[signal.Signals, Any]:
    """The handlers that were replaced."""
    before: dict[signal.Signals, Any] = {}
    for number, handler in handlers.items():
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, handler)
    return before


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    os._exit(130 if number == signal.SIGINT else 143)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    # Not signal.default_int_handler: what it sets has no value yet in Python 3.11, and confluent-kafka, whose callback
    # the signal may arrive in, restores an exception by its value: it would end with SystemError instead.
    raise KeyboardInterrupt


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated
