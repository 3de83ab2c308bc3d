"""A program in a terminal of its own that is drawn anew again and again: keys, sizes, signals, and what is shown."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.helpers.waiting import wait_for

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_HOME = "\x1b[H"
ALTERNATE, NORMAL = "\x1b[?1049h", "\x1b[?1049l"
HIDDEN, VISIBLE = "\x1b[?25l", "\x1b[?25h"
_ALL = "\x1b[9999z"
"""An escape that means nothing, behind all that a program has sent."""


class Terminal:
    """A pseudo terminal with the program in its foreground; a context manager that kills what is left of it."""

    def __init__(self, *words: str, columns: int = 80, lines: int = 24) -> None:
        self._ours, self._theirs = pty.openpty()
        self._lines = lines
        self.resize(columns, lines)
        self.before = self.attributes()
        self._seen = b""
        self._over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.process = subprocess.Popen(
            words,
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env=os.environ | {"TERM": "xterm-256color"},
            start_new_session=True,
            # Else ctrl-C and ctrl-Z would be letters like all others.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    @classmethod
    def kgroup(cls, *arguments: str, columns: int = 80, lines: int = 24) -> Terminal:
        """The command line."""
        return cls(sys.executable, "-m", "kgroup", *arguments, columns=columns, lines=lines)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exc_info: object) -> None:
        # All that it started is in its session; what left the foreground may be stopped.
        for pid in {self.process.pid, *_children(self.process.pid)}:
            _kill(pid)
        self.process.wait(10)
        self._over = True
        self._reader.join(10)
        os.close(self._ours)
        os.close(self._theirs)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        """Make the window another size; who draws in it hears of it."""
        self._lines = lines
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def attributes(self) -> Sequence[Any]:
        """What ``stty -a`` would show."""
        return termios.tcgetattr(self._theirs)

    @property
    def raw(self) -> str:
        """All that it was sent, with escapes."""
        return self._seen.decode("utf-8", "replace")

    @property
    def text(self) -> str:
        """The same without."""
        return _ESCAPES.sub("", self.raw)

    @property
    def coloured(self) -> list[str]:
        """The lines of the newest page, with their colours; its end may still be under way."""
        return self.raw.rpartition(ALTERNATE)[2].split(_HOME)[-1].replace("\r", "").split("\n")

    @property
    def page(self) -> list[str]:
        """Its lines, without colours and blanks at the end."""
        return [_ESCAPES.sub("", line).rstrip() for line in self.coloured]

    def shows(self, holds: Callable[[list[str]], object], what: str) -> list[str]:
        """Wait for a page that is as it should be."""

        def found() -> list[str] | None:
            page = self.page
            return page if holds(page) else None

        try:
            return wait_for(found, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n--- the page\n" + "\n".join(self.page)) from None

    def says(self, text: str) -> list[str]:
        """Wait for a page with this text in one of its lines; it is there from top to bottom."""
        return self.shows(
            lambda page: len(page) == self._lines and any(text in line for line in page), f"{text!r} on the screen"
        )

    def ends(self, exit_code: int) -> str:
        """Wait for its end, and check that the terminal is as it was; what was said behind the last page."""
        assert self.process.wait(30) == exit_code, self.text
        os.write(self._theirs, _ALL.encode())
        wait_for(lambda: _ALL in self.raw, "all of the output read")
        self.is_restored()
        return _ESCAPES.sub("", self.raw.rpartition(NORMAL)[2])

    def is_restored(self) -> None:
        """Assert that nothing of the page is left behind: screen, cursor, attributes."""
        raw = self.raw
        assert raw.count(ALTERNATE) == raw.count(NORMAL)
        assert raw.count(HIDDEN) <= raw.count(VISIBLE)
        assert self.attributes() == self.before

    def _read(self) -> None:
        while not self._over:
            if select.select([self._ours], [], [], 0.1)[0]:
                try:
                    self._seen += os.read(self._ours, 65536)
                except OSError:
                    return


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except OSError:  # it is over, or this is not Linux
        return []


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
