"""What is left in a buffer when kgroup ends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kgroup.output.streams import OutputError, flush_streams


def test_a_full_disk_is_an_error_at_the_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        full.write("what is buffered")

        with pytest.raises(OutputError, match="No space left"):
            flush_streams()
