"""Files that are named on the command line: what cannot be read, and where a text is not UTF-8."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kgroup.support import input_file
from kgroup.support.errors import UsageError
from kgroup.support.input_file import read_bytes, read_text, source_name


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "--from-file is empty"),
        ("nowhere", "--from-file nowhere: No such file or directory"),
        (".", "--from-file .: Is a directory"),
        ("/dev/zero", "--from-file /dev/zero: a device, not a file"),
        ("a\0b", "--from-file 'a\\x00b': embedded null byte"),
    ],
)
def test_what_cannot_be_read(path: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        read_bytes(path, "--from-file")
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("data", "place"),
    [(b"\xff", "1:1: byte 0xff"), (b"ab\n\xc3\xa9x\x80", "2:3: byte 0x80"), (b"a\n\n\xfe", "3:1: byte 0xfe")],
)
def test_where_a_text_is_not_utf_8(data: bytes, place: str, tmp_path: Path) -> None:
    path = tmp_path / "offsets.csv"
    path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        read_text(str(path), "--from-file")
    assert caught.value.message == f"{path}:{place} is not UTF-8"


def test_line_ends_stay(tmp_path: Path) -> None:
    path = tmp_path / "offsets.csv"
    path.write_bytes("a\r\né\r".encode())
    assert read_text(str(path), "--from-file") == "a\r\né\r"


@pytest.mark.parametrize(("size", "fits"), [(8, True), (9, False)])
def test_a_file_has_a_largest_size(size: int, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_file, "_MOST_BYTES", 8)
    path = tmp_path / "offsets.csv"
    path.write_bytes(b"x" * size)
    if fits:
        assert len(read_bytes(str(path), "--from-file")) == size
    else:
        with pytest.raises(UsageError, match="too large"):
            read_bytes(str(path), "--from-file")


def test_a_pipe_is_read_and_a_dash_is_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"of a pipe")
    os.close(writing)
    assert read_bytes(f"/dev/fd/{reading}", "--from-file") == b"of a pipe"
    os.close(reading)
    assert (source_name("-"), source_name("a")) == ("stdin", "a")
