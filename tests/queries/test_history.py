"""Histories that are read on: what is known of the log's holes goes on being true."""

from __future__ import annotations

import pytest

from kgroup.model.group_log import ScannedRange
from kgroup.queries.history import _longer


@pytest.mark.parametrize(
    ("whole_from", "expected"),
    [
        (100, 7),
        (90, 7),
        # Compaction was faster than the next reading, as after hours without an answer.
        (140, 140),
        (None, None),
    ],
)
def test_holes_behind_what_was_read_before_are_told(whole_from: int | None, expected: int | None) -> None:
    read = ScannedRange(start=5, end=100, oldest_ms=1, whole_from=7, to_log_start=True)

    found = _longer(read, ScannedRange(100, 200, 9, whole_from, False, open_since_ms=8), 100)

    assert found == ScannedRange(5, 200, 1, expected, True, open_since_ms=8)
