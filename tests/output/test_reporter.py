"""What goes to stderr: anybody may have chosen a group's name, so nothing of it reaches the terminal as it is."""

from __future__ import annotations

import contextlib
import io
import os
import termios

import pytest

from kgroup.model.groups import RowError
from kgroup.output.reporter import StderrReporter
from kgroup.support.errors import NotFound

EVIL = "orders\x1b[2J"


def test_control_characters_are_escaped_everywhere() -> None:
    stream = io.StringIO()
    reporter = StderrReporter(stream)
    reporter.error(NotFound(f"no group {EVIL}", details=(f"Near: {EVIL}",), hint=f"kgroup describe {EVIL}"))
    reporter.note(EVIL)
    reporter.warn(EVIL)
    reporter.event("WAIT", EVIL)
    reporter.row_errors((RowError("not-found", f"no {EVIL}", group=EVIL, hint=EVIL),))
    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().count("orders\\x1b[2J") == 9


def test_row_errors_of_a_kind_are_one_line_with_one_hint() -> None:
    stream = io.StringIO()
    rows = tuple(RowError("no-leader", "has no leader", "g", "t", number, hint="wait") for number in range(12))
    StderrReporter(stream).row_errors(rows)
    first, hint = stream.getvalue().splitlines()
    assert first.startswith("kgroup: g t:0, g t:1,")
    twice = io.StringIO()
    StderrReporter(twice).row_errors((RowError("timed-out", "the ledger could not be read", "g"),) * 2)
    assert twice.getvalue() == "kgroup: g: the ledger could not be read [timed-out]\n"
    assert "and 2 more: has no leader [no-leader]" in first
    assert hint == "  wait"


@pytest.mark.parametrize("columns", [60, 80])
def test_the_box_fits_the_terminal(columns: int) -> None:
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    with os.fdopen(ours, "rb", buffering=0) as screen:
        with os.fdopen(theirs, "w", encoding="utf-8") as stream:
            StderrReporter(stream).box((f"{EVIL} MAY START NOW", "It starts at the log end. " * 3))
        lines = _read_all(screen).decode().splitlines()
    assert any("orders\\x1b[2J MAY START NOW" in line for line in lines)
    assert {len(line) for line in lines if line} == {max(map(len, lines))}
    assert max(map(len, lines)) <= columns


def _read_all(screen: io.FileIO) -> bytes:
    """All that was written to a terminal that is closed now: one read may return a part of it."""
    parts = []
    with contextlib.suppress(OSError):  # EIO is the end
        while part := screen.read(4096):
            parts.append(part)
    return b"".join(parts)
