"""A terminal in which a shell runs and keys are typed."""

from __future__ import annotations

import os
import pty
import select
import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.helpers.waiting import wait_for


class Terminal:
    """A program in a terminal of its own, 200 columns wide, that is typed at."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execvpe(words[0], list(words), {**env, "TERM": "xterm", "COLUMNS": "200", "LINES": "50"})
        self._seen = b""
        self._stopping = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopping = True
        self._reader.join()
        os.close(self._fd)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._fd, text.encode())

    @property
    def screen(self) -> str:
        """All that was shown since the beginning."""
        return self._seen.decode("utf-8", "replace")

    def expect(self, text: str, within_s: float = 30) -> None:
        """Wait until this was shown."""
        try:
            wait_for(lambda: text in self.screen, f"{text!r} on the screen", within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n--- screen\n{self.screen}") from None

    def _read(self) -> None:
        while not self._stopping:
            if not select.select([self._fd], [], [], 0.05)[0]:
                continue
            try:
                piece = os.read(self._fd, 65536)
            except OSError:
                return
            self._seen += piece
            if not piece:
                return
