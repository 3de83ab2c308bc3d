"""A pause ends when nobody reads stdout any more."""

from __future__ import annotations

import io
import os
import sys
import time

import pytest

from kgroup.support.stdout_reader import StdoutClosed, pause


def test_a_pause_ends_as_soon_as_the_reader_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        pause(0.01)
        os.close(reading)
        start = time.monotonic()
        with pytest.raises(StdoutClosed):
            pause(60)
        assert time.monotonic() < start + 30


def test_what_is_no_file_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    start = time.monotonic()
    pause(0.05)
    assert time.monotonic() >= start + 0.05
    pause(-1)
