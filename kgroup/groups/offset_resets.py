"""Offsets that were moved while the group was Empty: by a reset, not by a member. Pure.

A reset that was undone is none. Nor are kgroup's releases of catch-ups, and commits with a leader epoch: a consumer
with ``assign()`` sends it, administrators do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from kgroup.groups.commit_tags import CatchupCommitTag
from kgroup.groups.history.own_changes import OwnChanges
from kgroup.groups.next_commands import (
    MOST_RANGES,
    commit_history,
    deliver_ranges,
    deliver_skipped,
    read_from,
    undo_move,
)
from kgroup.groups.thresholds import ONE_REQUEST_MS, RESET_SHOWN
from kgroup.model.groups import LoggedCommit
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.hint import Hint
from kgroup.support.instants import short_time
from kgroup.support.units import human_count, plural


class ResetPartition(msgspec.Struct, frozen=True):
    """A partition that was moved from the offset ``old``; ``commit`` is the last one before a member commits again.

    ``topic_id`` is that of the topic at that commit, None before Kafka 4.1. ``read_again`` is whether members have read
    all that it moved back: an undo would only read what came since once more.
    """

    old: int
    at_ms: int
    commit: LoggedCommit
    topic_id: str | None = None
    read_again: bool = False

    @property
    def moved(self) -> int:
        return self.commit.offset - self.old


class OffsetReset(msgspec.Struct, frozen=True):
    """The partitions that were moved within a second, the farthest first; ``change`` is kgroup's, if it was one."""

    at_ms: int
    rows: tuple[ResetPartition, ...]
    change: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is left to undo."""
        return all(row.read_again for row in self.rows)

    def words(self, now_ms: int) -> str:
        """``orders:0 was moved back by 50 at 07:33:25Z by no member, while the group was Empty: ...``."""
        first = self.rows[0]
        way = "back" if first.moved < 0 else "forward"
        more = f" (and {plural(len(self.rows) - 1, 'more partition')})" if len(self.rows) > 1 else ""
        who = "no member" if self.change is None else f"kgroup ({self.change})"
        lowest, end = sorted((first.old, first.commit.offset))
        offsets = f"offset {lowest}" if end - lowest == 1 else f"offsets {lowest} to {end - 1}"
        what = f"read again from {lowest} on" if first.moved < 0 else f"no member committed {offsets}"
        return (
            f"{first.commit.tp} was moved {way} by {human_count(abs(first.moved))}{more} at "
            f"{short_time(self.at_ms, now_ms)} by {who}, while the group was Empty: {what}"
            + (", and read to where it was: nothing is left to undo" if self.is_over else "")
        )

    def commands(self, group: str, *, is_empty: bool) -> Iterator[Hint]:
        """What undoes a reset, if kgroup did not make it; what shows or delivers the skipped records; the history.

        Consumers that went on have read since, and an undo moves all partitions: skipped records are delivered instead.
        """
        skipped = [row for row in self.rows if row.moved > 0]
        if self.change is not None:
            yield from (deliver_skipped(group, self.change) for _ in skipped[:1])
        elif not is_empty and len(skipped) == len(self.rows):
            yield deliver_ranges((row.commit.tp, row.old, row.commit.offset) for row in skipped[:MOST_RANGES])
        elif not self.is_over and (undo := undo_move(group, self.at_ms)) is not None:
            yield undo
        if self.change is None:
            yield from (read_from(row.commit.tp, row.old) for row in skipped[:1])
        yield commit_history(group)


def offset_resets(
    commits: Mapping[TopicPartition, Sequence[LoggedCommit]],
    now_ms: int,
    topic_ids: Mapping[int, str] = MappingProxyType({}),
) -> tuple[OffsetReset, ...]:
    """The resets of the last hour that are not undone, the newest first. ``topic_ids`` are by the log offset."""
    moved = [row for of_partition in commits.values() for row in _moved(of_partition, topic_ids)]
    requests: list[list[ResetPartition]] = []
    for row in sorted(moved, key=lambda row: -row.at_ms):
        if row.commit.timestamp_ms <= now_ms - RESET_SHOWN.value:
            continue
        if requests and requests[-1][0].at_ms - row.at_ms <= ONE_REQUEST_MS:
            requests[-1].append(row)
        else:
            requests.append([row])
    return tuple(
        OffsetReset(min(row.at_ms for row in rows), tuple(sorted(rows, key=lambda row: -abs(row.moved))))
        for rows in requests
    )


def without_recreated(resets: Sequence[OffsetReset], present_ids: Mapping[str, str | None]) -> tuple[OffsetReset, ...]:
    """Those of topics that are still the same, as far as is known: a recreated one has nothing to undo."""
    kept = []
    for reset in resets:
        ids = ((row, present_ids.get(row.commit.topic)) for row in reset.rows)
        rows = tuple(row for row, present in ids if present is None or row.topic_id in (None, present))
        if rows:
            kept.append(replace(reset, rows=rows))
    return tuple(kept)


def _moved(commits: Sequence[LoggedCommit], topic_ids: Mapping[int, str]) -> list[ResetPartition]:
    found: list[ResetPartition] = []
    before: LoggedCommit | None = None
    read = False  # before a member has committed, the group is set up
    for commit in commits:
        read |= not commit.by_tool
        if commit.by_tool and before is not None and read and CatchupCommitTag.of(commit.metadata) is None:
            row = ResetPartition(before.offset, commit.timestamp_ms, commit, topic_ids.get(commit.log_offset))
            old_id = topic_ids.get(before.log_offset)
            if None not in (old_id, row.topic_id) and old_id != row.topic_id:
                found.clear()  # the offsets before are of another topic
                before = commit
                continue
            if before.by_tool and found and found[-1].commit is before:
                row = replace(found.pop(), commit=commit)
            undone = next((at for at, earlier in enumerate(found) if _undoes(row, earlier)), None)
            if undone is not None:
                del found[undone:]
            elif row.moved:
                found.append(row)
        before = commit
    last = commits[-1].offset if commits and not commits[-1].by_tool else 0
    return [replace(row, read_again=row.moved < 0 and last >= row.old) for row in found]


def _undoes(row: ResetPartition, earlier: ResetPartition) -> bool:
    """Whether it only takes back what the earlier one moved: not what members have read since."""
    return row.commit.offset == earlier.old and abs(row.moved) <= abs(earlier.moved)


def with_changes(resets: Sequence[OffsetReset], group: str, own: Callable[[], OwnChanges]) -> tuple[OffsetReset, ...]:
    """Those of kgroup with their changes in the journal, which is only read if there are any; others as they were.

    One whose commits have a leader epoch is left out unless kgroup made it: it is a consumer's.
    """
    if not resets:
        return ()
    changes = own()
    named = (
        replace(reset, change=changes.at(group, row.tp, row.offset, row.timestamp_ms))
        for reset in resets
        for row in (reset.rows[0].commit,)
    )
    return tuple(each for each in named if each.change or each.rows[0].commit.leader_epoch is None)
