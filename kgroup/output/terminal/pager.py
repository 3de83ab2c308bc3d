"""Whether a pipe ends in a program that only shows it: then the page is for the terminal behind that program."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from kgroup.settings.environment import variable

_PAGERS = frozenset({"less", "more", "most", "bat", "batcat", "moar", "moor", "ov", "pg", "head", "tail"})
"""They show lines as they are. A program that chooses or cuts lines (grep, awk) gets all columns, as ``cat`` does."""

_PROCESSES = Path("/proc")


def pager_width(stream: IO[str], processes: Path = _PROCESSES) -> int | None:
    """Columns of the terminal in which a pager shows the stream; None if no pager is known to read it.

    ``processes`` is Linux's list of processes; where there is none, the answer is None.
    """
    with suppress(OSError, ValueError):
        status = os.fstat(stream.fileno())
        if stat.S_ISFIFO(status.st_mode):
            pipe = f"pipe:[{status.st_ino}]"
            for reader in _job(processes):
                if _reads(reader, pipe) and _name(reader) in _pagers():
                    return _columns(reader / "fd" / "1")
    return None


def _job(processes: Path) -> Iterator[Path]:
    """The other processes of the shell's job that this one belongs to."""
    group, own = os.getpgrp(), os.getpid()
    for entry in processes.iterdir():
        if entry.name.isdecimal() and int(entry.name) != own:
            with suppress(OSError):  # it has ended
                if os.getpgid(int(entry.name)) == group:
                    yield entry


def _reads(process: Path, pipe: str) -> bool:
    with suppress(OSError):
        return str((process / "fd" / "0").readlink()) == pipe
    return False


def _name(process: Path) -> str:
    return (process / "comm").read_text(encoding="utf-8", errors="replace").strip()


def _pagers() -> frozenset[str]:
    """The known ones, and the user's own."""
    words = (variable("PAGER") or "").split()
    return _PAGERS | {Path(words[0]).name} if words else _PAGERS


def _columns(output: Path) -> int | None:
    """The width of the terminal that the pager writes to; None if it writes to a pipe or a file."""
    terminal = os.open(output, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        return os.get_terminal_size(terminal).columns or None
    finally:
        os.close(terminal)
