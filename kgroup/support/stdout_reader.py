"""Pauses that end when the reader of stdout is gone: ``kgroup history svc --follow | head -1``."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable
from contextlib import suppress


class StdoutClosed(Exception):
    """The reader of our output has closed the pipe (``kgroup list | head -1``); this is not a failure."""


def pause(seconds: float) -> None:
    """Wait. Raises StdoutClosed as soon as the reader of the pipe is gone, not only at the next write."""
    poll: Callable[[float], object] | None = None
    with suppress(OSError, ValueError):  # a StringIO has no file
        gone = select.poll()
        gone.register(sys.stdout.fileno(), 0)
        poll = gone.poll
    due_s = time.monotonic() + seconds
    while (left_s := due_s - time.monotonic()) > 0:
        if poll is None:
            time.sleep(left_s)
        elif poll(left_s * 1000):
            raise StdoutClosed
