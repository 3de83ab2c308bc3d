"""Waiting for a condition with a deadline; tests never sleep a fixed time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import IO, TypeVar

T = TypeVar("T")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.05


def wait_for(condition: Callable[[], T | None], what: str, within_s: float = 60.0) -> T:
    """The first true value of ``condition``; an AssertionError that says ``what`` when there is none in time."""
    deadline = time.monotonic() + within_s
    pause_s = _FIRST_PAUSE_S
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s: {what}; last seen: {value!r}")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def read_line(stream: IO[str] | None, within_s: float = 60.0) -> str:
    """The next line of a process, "" at its end; an AssertionError when neither comes in time."""
    assert stream is not None
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.append(stream.readline()), daemon=True)
    reader.start()
    reader.join(within_s)
    assert lines, f"no line within {within_s} s"
    return lines[0]
