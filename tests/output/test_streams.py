"""What is left in a buffer when kgroup ends, and what an encoding lacks."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from kgroup.output.pages.sparkline import sparkline
from kgroup.output.streams import OutputError, flush_streams, print_text, repair_streams


def test_a_full_disk_is_an_error_at_the_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        full.write("what is buffered")

        with pytest.raises(OutputError, match="No space left"):
            flush_streams()


def test_an_encoding_without_blocks_gets_plain_characters_and_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    monkeypatch.setattr(sys, "stderr", sys.stdout)

    repair_streams()
    print_text(f"{sparkline(range(8))} größe")

    assert written.getvalue() == rb"_.-=+*%# gr\xf6\xdfe" + b"\n"
