"""Failures of stdout itself: its reader is gone, or it cannot be written."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kgroup.support.errors import KgroupError
from kgroup.support.stdout_reader import StdoutClosed

_PLAIN = "kgroup-plain"
_STEPS = dict(zip("▁▂▃▄▅▆▇█", "_.-=+*%#", strict=True))


class OutputError(KgroupError):
    """stdout could not be written (for example, the disk behind ``>`` is full); the output is incomplete."""

    code = "output"


@contextmanager
def stdout_errors() -> Iterator[None]:
    """A block that only writes to stdout; raises StdoutClosed and OutputError."""
    try:
        yield
    except BrokenPipeError:
        raise StdoutClosed from None
    except OSError as error:
        drop_stdout()
        raise OutputError(f"the output could not be written: {error.strerror or error}") from error


def print_text(text: str) -> None:
    try:
        with stdout_errors():
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
    except StdoutClosed:
        drop_stdout()


def drop_stdout() -> None:
    """Discard what is still buffered; otherwise Python fails again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def flush_streams() -> None:
    """Write what is buffered, so that Python does not fail with 120 at exit; what no reader takes is discarded.

    Raises OutputError if stdout cannot be written.
    """
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    try:
        with stdout_errors():
            sys.stdout.flush()
    except StdoutClosed:
        drop_stdout()


def use_utf8() -> None:
    """Write stdout in UTF-8 from now on, whatever the terminal's encoding: another program reads it."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")


def repair_streams() -> None:
    """Make writes to closed streams (``>&-``) have no effect; replace or escape what the encoding lacks."""
    codecs.register_error(_PLAIN, _in_plain_characters)
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_PLAIN)


def _in_plain_characters(error: UnicodeError) -> tuple[str, int]:
    """For an encoding without blocks: the steps of a sparkline as ``_.-=+*%#``, anything else as an escape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_STEPS.get(each) or each.encode("ascii", "backslashreplace").decode() for each in missing), error.end
