"""Reads a file that was named on the command line, or stdin."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kgroup.support.errors import UsageError

_STDIN = 0
_MOST_BYTES = 512 * 1024 * 1024


def source_name(path: str) -> str:
    """The name of the file in messages; ``-`` is stdin."""
    return "stdin" if path == "-" else path


def read_bytes(path: str, option: str) -> bytes:
    """The whole file ``path``, or stdin if it is ``-``.

    ``option`` is the option that named the file. Raises UsageError, with the path, if the file cannot be read or has
    more than 512 MiB.
    """
    if not path:
        raise UsageError(f"{option} is empty", hint="A variable of the script may be unset.")
    source = source_name(path)
    try:
        data = _read(_STDIN if path == "-" else Path(path))
    except OSError as error:
        raise UsageError(f"{option} {source}: {error.strerror or error}") from error
    except ValueError as error:  # a NUL in the path
        raise UsageError(f"{option} {path!r}: {error}") from error
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{option} {source}: more than {_MOST_BYTES >> 20} MiB, too large for such a file")
    return data


def read_text(path: str, option: str) -> str:
    """The text of a file, line ends unchanged. Raises UsageError as ``read_bytes`` does, and if it is not UTF-8."""
    data = read_bytes(path, option)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode(errors="replace")) + 1
        bad = data[error.start]
        raise UsageError(f"{source_name(path)}:{line}:{column}: byte 0x{bad:02x} is not UTF-8") from error


def _read(file: int | Path) -> bytes:
    """At most ``_MOST_BYTES`` + 1 bytes of the file. Refuses devices, accepts pipes: ``<(kgroup export ...)``."""
    with open(file, "rb", closefd=file != _STDIN) as stream:
        mode = os.fstat(stream.fileno()).st_mode
        if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and file != _STDIN):
            raise OSError(0, "a device, not a file")
        return stream.read(_MOST_BYTES + 1)
