"""Which record a group does not get past, as far as its commits show it: the one judge of whether it may be skipped.

A group that is stuck at a committed offset of 1000 need not fail at record 1000:

- A client may commit at delivery. librdkafka with auto commit stores 1001 when it delivers record 1000, commits that
  once, and does not commit it again if it seeks back (seen with confluent-kafka 2.16, both protocols). A Java client
  commits its position, also if the application has paused the partition and tries the last record again. A member that
  starts at 1001 passes such a record.
- A client may commit after a batch, or every few seconds. Then the record may be any that follows. It may commit the
  start of its batch again and again (seen).
- A process that dies loses the commits that it has not sent yet. So in a crash loop the record may be a later one,
  whatever the client commits.

It is record 1000 if a live member commits 1000 again and again, and has committed each record before it on its own
although the next ones were there: it does not work in batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from kgroup.model.groups import LoggedCommit
from kgroup.model.topic_partition import PartitionValue, TopicPartition

_MOVES = 3
_PACE_MS = 1_000
"""Auto commits come further apart."""
_REPEATS = 3


class StuckRecord(PartitionValue, msgspec.Struct, frozen=True):
    """The record that a group does not get past: that at ``offset``, its first unread one.

    It may also be the record ``before`` that one, or a ``later`` one.
    """

    topic: str
    partition: int
    offset: int
    before: bool
    later: bool
    latest: int | None = None
    """The last offset at which it may be, where commits show it; None: that is not known."""

    @property
    def is_known(self) -> bool:
        """Whether the evidence leaves this record alone: then it may be skipped."""
        return not self.before and not self.later

    @property
    def possible_offsets(self) -> str:
        """The offsets at which it may be, as an addition to the one that a sentence names; empty if it is known."""
        if self.is_known:
            return ""
        first = (
            f"{self.offset - 1}, " if self.before and self.later else f"{self.offset - 1} or " if self.before else ""
        )
        return f" (the record: {first}{self.offset}{' or later' if self.later else ''})"

    @property
    def doubt(self) -> str | None:
        """What is not known about it; None if it is known."""
        if self.is_known:
            return None
        later = " or a later one" if self.later else ""
        before = (
            ", or the one before if the client commits at delivery (librdkafka with auto commit): a restart passes it"
        )
        before = before if self.before else ""
        return f"not known: offset {self.offset} of {self.tp}{later}{before}"


def stuck_record(
    tp: TopicPartition,
    offset: int,
    commits: Sequence[LoggedCommit],
    unread_since_ms: int | None,
    *,
    replaced: bool,
) -> StuckRecord:
    """The record that a group does not get past. ``offset`` is that of its first unread record.

    ``commits`` are the partition's, oldest first. ``unread_since_ms`` is when that record was written, None: unknown.
    ``replaced`` is whether members have come and gone since the last move: each of them started at this record.
    """
    each_alone = _commits_each_record(commits, unread_since_ms)
    repeated = _repeats(commits) >= _REPEATS
    return StuckRecord(
        *tp,
        offset,
        before=offset > 0 and not replaced and not (each_alone and repeated),
        later=replaced or not each_alone,
    )


def _commits_each_record(commits: Sequence[LoggedCommit], unread_since_ms: int | None) -> bool:
    """Whether the last moves were of one record each, in quick succession, while the first unread record was there.

    A batch would have had the next records too, and auto commits are not as frequent.
    """
    firsts: list[LoggedCommit] = []
    for commit in reversed(commits):
        if firsts and commit.offset == firsts[-1].offset:
            firsts[-1] = commit
        elif len(firsts) > _MOVES:
            break
        else:
            firsts.append(commit)
    if len(firsts) <= _MOVES or any(commit.by_tool for commit in firsts):
        return False
    if unread_since_ms is None or unread_since_ms > firsts[-1].timestamp_ms:
        return False
    return all(
        later.offset - earlier.offset == 1 and later.timestamp_ms - earlier.timestamp_ms < _PACE_MS
        for later, earlier in pairwise(firsts)
    )


def _repeats(commits: Sequence[LoggedCommit]) -> int:
    """The number of commits of the newest offset by members."""
    count = 0
    for commit in reversed(commits):
        if commit.offset != commits[-1].offset or commit.by_tool:
            break
        count += 1
    return count
