"""One process at a time: it waits, says for whom, and does not wait for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroup.support.errors import Refused
from kgroup.support.file_lock import exclusive_lock

Events = list[tuple[str, str]]


def test_a_lock_that_is_held_is_refused_when_patience_ends(tmp_path: Path) -> None:
    path, events = tmp_path / "new" / "lock", Events()

    def event(word: str, text: str) -> None:
        events.append((word, text))

    with exclusive_lock(path, event, "nobody"):
        with pytest.raises(Refused) as caught, exclusive_lock(path, event, "another kgroup", patience_s=0.2):
            pass
        assert caught.value.code == "locked"
        assert caught.value.message == f"another kgroup has held {path} for 0 s"
    assert events == [("WAIT", "for another kgroup")], "once, however often it looks"
    with exclusive_lock(path, event, "nobody", patience_s=0):
        pass
    assert len(events) == 1
