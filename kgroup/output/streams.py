"""What may go wrong with stdout itself: nobody reads it any more, or it can't be written."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kgroup.support.errors import KgroupError
from kgroup.support.stdout_reader import NobodyReads


class OutputError(KgroupError):
    """stdout could not be written (a full disk behind ``>``): what is there is not the whole answer."""

    code = "output"


@contextmanager
def writing() -> Iterator[None]:
    """A block that does nothing but write to stdout; raises NobodyReads and OutputError."""
    try:
        yield
    except BrokenPipeError:
        raise NobodyReads from None
    except OSError as error:
        drop_stdout()
        raise OutputError(f"the output could not be written: {error.strerror or error}") from error


def say(text: str) -> None:
    """Write a text that is the whole output."""
    try:
        with writing():
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
    except NobodyReads:
        drop_stdout()


def drop_stdout() -> None:
    """Forget what is still to be written: Python would complain once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def in_utf8() -> None:
    """From here on, stdout is a file in UTF-8, whatever the terminal is: another program reads it back."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")


def mend() -> None:
    """Streams that are closed (``>&-``) swallow what is written; characters they lack are written as escapes."""
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
