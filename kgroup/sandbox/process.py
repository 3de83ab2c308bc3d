"""Processes that outlive kgroup: each in its own session, identified by a pid file and its command line.

The process writes the pid file itself before it executes Java, so no broker runs without a pid file. A pid counts only
while that process has the broker's own settings file among its arguments. So kgroup never signals a recycled pid.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

_POLL_S = 0.02
_UNSETTLED_TRIES = 20
_UNSETTLED_S = 0.005
_WRITE_PID_THEN_EXEC = 'echo $$ >"$0.$$" && command -p mv -f "$0.$$" "$0" && exec "$@"'
"""Renamed into place: it may come after the file that ``start`` wrote, and readers must never see an empty file.

``-p`` finds ``mv`` where PATH does not name the system's directories.
"""

_children: dict[int, subprocess.Popen[bytes]] = {}
"""Children of this process: they stay zombies until polled."""


class Daemon(msgspec.Struct, frozen=True):
    """A process, identified by its pid file and by ``mark``, its last argument, which no other process has."""

    pid_file: Path
    mark: str

    def start(self, command: Sequence[str], *, log: Path) -> None:
        """Run ``command``, whose last argument is ``mark``, and append its output to ``log``."""
        with log.open("ab") as output:
            child = subprocess.Popen(
                ["/bin/sh", "-c", _WRITE_PID_THEN_EXEC, str(self.pid_file), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=log.parent,
            )
        _children[child.pid] = child
        # The shell writes it too, in case kgroup dies here. After this line no reader sees an old pid.
        self.pid_file.write_text(f"{child.pid}\n")

    @property
    def pid(self) -> int | None:
        """The pid, None if the process does not run."""
        pid = self._written_pid()
        if pid is None:
            return None
        child = _children.get(pid)
        if child is not None:
            if child.poll() is None:
                return pid
            del _children[pid]
        return pid if _has_argument(pid, self.mark) else None

    @property
    def died(self) -> bool:
        """Whether the process is gone although kgroup did not stop it."""
        return self._written_pid() is not None and self.pid is None

    def signal(self, number: signal.Signals) -> None:
        pid = self.pid
        if pid is not None:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                return

    def wait(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while self.pid is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def remove_pid_file(self) -> None:
        """Remove the pid file after an intended stop."""
        self.pid_file.unlink(missing_ok=True)

    def _written_pid(self) -> int | None:
        for _ in range(_UNSETTLED_TRIES):
            try:
                return int(self.pid_file.read_text())
            except FileNotFoundError:
                return None
            except ValueError:  # being written at this moment
                time.sleep(_UNSETTLED_S)
        return None


def _has_argument(pid: int, mark: str) -> bool:
    """Whether the process runs and has ``mark`` as an argument; a zombie has no arguments."""
    if not Path("/proc/self").exists():
        listing = subprocess.run(
            ["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return listing.stdout.rstrip().endswith(f" {mark}")
    for _ in range(_UNSETTLED_TRIES):
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_text(errors="surrogateescape")
            if arguments or _is_zombie(pid):
                return mark in arguments.split("\0")
        except (FileNotFoundError, ProcessLookupError):
            return False
        time.sleep(_UNSETTLED_S)  # empty for a moment while the shell executes Java
    return False


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
