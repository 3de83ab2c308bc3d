"""Reading a file of offsets, or stdin, for verbs that are given one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kgroup.errors import UsageError
from kgroup.groups.offset_files import FileRow, parse_offsets

_STDIN = 0
_MOST_BYTES = 512 * 1024 * 1024


def read_offsets(path: str, option: str = "--from-file") -> tuple[FileRow, ...]:
    """The offsets in the file ``path``, or on stdin where it is ``-``.

    Raises UsageError, with the path, for a file that can't be read, is not UTF-8 or has a bad line. ``option`` is the
    flag that named it.
    """
    if not path:
        raise UsageError(f"{option} is empty", hint="Is a variable of the script not set?")
    source = "stdin" if path == "-" else path
    try:
        data = _read(_STDIN if path == "-" else Path(path))
    except OSError as error:
        raise UsageError(f"{option} {source}: {error.strerror or error}") from error
    except ValueError as error:  # a NUL in the path
        raise UsageError(f"{option} {path!r}: {error}") from error
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{option} {source}: more than {_MOST_BYTES >> 20} MiB, which no file of offsets is")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode(errors="replace")) + 1
        bad = data[error.start]
        raise UsageError(f"{source}:{line}:{column}: byte 0x{bad:02x} is not UTF-8") from error
    return parse_offsets(text, source)


def _read(file: int | Path) -> bytes:
    """The whole file, as long as it is of a reasonable size; ``<(kgroup export ...)`` is a pipe and welcome."""
    with open(file, "rb", closefd=file != _STDIN) as stream:
        mode = os.fstat(stream.fileno()).st_mode
        if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and file != _STDIN):
            raise OSError(0, "a device, not a file")
        return stream.read(_MOST_BYTES + 1)
