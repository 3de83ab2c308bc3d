"""Where offsets are read from: a file, stdin, and what is neither."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kgroup.queries.offset_file import read_offsets
from kgroup.support.errors import UsageError


def complaint(path: str | Path) -> str:
    with pytest.raises(UsageError) as caught:
        read_offsets(str(path))
    return caught.value.message


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes(b'\xef\xbb\xbf"\xd0\xb7,a",t,0,5\r\n')
    (row,) = read_offsets(str(file))
    assert (row.group, row.topic, row.partition, row.offset) == ("з,a", "t", 0, 5)


def test_stdin() -> None:
    script = "from kgroup.queries.offset_file import read_offsets; print(read_offsets('-')[0].offset)"
    done = subprocess.run([sys.executable, "-c", script], input="t,0,5\n", capture_output=True, text=True, check=True)
    assert done.stdout == "5\n"
    done = subprocess.run([sys.executable, "-c", script], input="t,0,x\n", capture_output=True, text=True, check=False)
    assert "stdin:1: offset 'x'" in done.stderr
    without = f'exec {sys.executable} -c "{script}" <&-'
    closed = subprocess.run(["/bin/sh", "-c", without], capture_output=True, text=True, check=False)
    assert "UsageError: --from-file stdin: " in closed.stderr


def test_a_pipe_with_a_name(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text("t,0,5\n"))
    writer.start()
    assert read_offsets(str(pipe))[0].offset == 5
    writer.join()


def test_what_can_not_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "missing.csv"
    assert complaint(missing) == f"--from-file {missing}: No such file or directory"
    assert complaint(tmp_path) == f"--from-file {tmp_path}: Is a directory"
    assert complaint("") == "--from-file is empty"
    assert complaint("/dev/zero") == "--from-file /dev/zero: a device, not a file"
    assert complaint("a\0b") == "--from-file 'a\\x00b': embedded null byte"
    with pytest.raises(UsageError, match=r"^--undo-from "):
        read_offsets(str(missing), "--undo-from")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes("t,0,5\nзt".encode() + b"\xff,1,5\n")
    assert complaint(file) == f"{file}:2:3: byte 0xff is not UTF-8"
    file.write_bytes("t,0,5\n".encode("utf-16"))
    assert complaint(file) == f"{file}:1:1: byte 0xff is not UTF-8"
    file.write_bytes("t,0,5\n".encode("utf-16-le"))
    assert complaint(file) == f"{file}:1: a NUL byte: the file is not UTF-8 text"
