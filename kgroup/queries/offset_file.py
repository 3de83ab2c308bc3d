"""Reads a file of offsets, or stdin."""

from __future__ import annotations

from kgroup.groups.offset_files import FileRow, parse_offsets
from kgroup.support.input_file import read_text, source_name


def read_offsets(path: str, option: str = "--from-file") -> tuple[FileRow, ...]:
    """The offsets in the file ``path``, or from stdin if it is ``-``.

    ``option`` is the option that named the file. Raises UsageError, with the path, if it cannot be read, is not UTF-8
    or has an invalid line.
    """
    return parse_offsets(read_text(path, option), source_name(path))
