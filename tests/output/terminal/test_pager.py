"""The width of a page in a pipe: the terminal's where a pager shows it, and none where a program reads it."""

from __future__ import annotations

import shlex
import sys

import pytest

from tests.helpers.terminals import Terminal
from tests.helpers.waiting import wait_for

_PRINTED = """
import sys
from kgroup.output.terminal.colour import terminal_width
print("width", terminal_width(sys.stdout))
"""
_READ = """
import os
from contextlib import suppress
from pathlib import Path
from tests.helpers.waiting import wait_for

def is_read():
    pipe = os.readlink("/proc/self/fd/1")
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if os.readlink(process / "fd" / "0") == pipe and (process / "comm").read_text() != "bash\\n":
                return True
    return False

wait_for(is_read, "bash has become the reader")
"""


@pytest.mark.programs("bash", "grep", "head", "less")
@pytest.mark.parametrize(
    ("reader", "width"),
    [
        ("less -FX", "61"),
        ("head -n 5", "61"),
        ("PAGER='grep -v none'; export PAGER; {} | grep -v none", "61"),
        ("grep -v none", "None"),
        ("cat", "None"),
        ("head -n 5 | cat", "None"),
        ("export COLUMNS=77; {} | head -n 5", "77"),
    ],
)
def test_the_width_in_a_pipe(reader: str, width: str) -> None:
    python = shlex.join([sys.executable, "-c", _READ + _PRINTED])
    command = reader.replace("{}", python) if "{}" in reader else f"{python} | {reader}"

    with Terminal("bash", "-c", command, columns=61) as terminal:
        wait_for(lambda: f"width {width}" in terminal.text, "the width")


@pytest.mark.programs("cat")
def test_the_width_of_a_file(tmp_path: object) -> None:
    command = f"{shlex.join([sys.executable, '-c', _PRINTED])} > {tmp_path}/page; cat {tmp_path}/page"

    with Terminal("bash", "-c", command, columns=61) as terminal:
        wait_for(lambda: "width None" in terminal.text, "the width")
