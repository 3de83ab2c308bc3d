"""Reading a file of offsets, or stdin, for verbs that are given one."""

from __future__ import annotations

from kgroup.groups.offset_files import FileRow, parse_offsets
from kgroup.support.input_file import read_text, source_name


def read_offsets(path: str, option: str = "--from-file") -> tuple[FileRow, ...]:
    """The offsets in the file ``path``, or on stdin where it is ``-``.

    Raises UsageError, with the path, for a file that can't be read, is not UTF-8 or has a bad line. ``option`` is the
    flag that named it.
    """
    return parse_offsets(read_text(path, option), source_name(path))
