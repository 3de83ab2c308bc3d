"""Which commits of a group's log are changes of kgroup, by the journal of this machine. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kgroup.model.group_log import CommitWritten
from kgroup.model.journal import JournalEntry
from kgroup.model.topic_partition import TopicPartition

_CLOCKS_MS = 60_000
"""How far the clock of this machine may be from the clock of a broker."""


class OwnChanges:
    """The commits that changes in the journal made, or may have made."""

    def __init__(self, entries: Iterable[JournalEntry] = ()) -> None:
        self._made: dict[tuple[str, TopicPartition, int | None], list[tuple[int, int, str]]] = {}
        for entry in entries:
            ended_ms = entry.at_ms if entry.ended is None else round(entry.ended.timestamp() * 1000)
            for row in entry.rows:
                key = row.group, row.tp, None if row.after is None else row.after.offset
                self._made.setdefault(key, []).append((entry.at_ms, ended_ms, entry.id))

    def of(self, group: str, commit: CommitWritten) -> str | None:
        """The id of the change that made this commit, or deleted it; None: none did."""
        return self.at(group, commit.tp, commit.offset, commit.at_ms)

    def at(self, group: str, tp: TopicPartition, offset: int | None, at_ms: int) -> str | None:
        """The id of the change that set this offset, or deleted it, within a minute of that time; None: none did."""
        near = [
            (abs(at_ms - began_ms), change)
            for began_ms, ended_ms, change in self._made.get((group, tp, offset), ())
            if began_ms - _CLOCKS_MS <= at_ms <= ended_ms + _CLOCKS_MS
        ]
        return min(near)[1] if near else None
