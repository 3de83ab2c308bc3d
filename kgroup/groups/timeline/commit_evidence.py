"""Evidence from a group's commits and from the completeness of its log: signs of life, and meaningful silences."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from statistics import median

from kgroup.model.group_log import (
    CommitWritten,
    Event,
    Partitions,
    ScannedRange,
    TransactionEnd,
    Unreadable,
)
from kgroup.model.topic_partition import TopicPartition

_GAPS_FOR_A_RHYTHM = 3
_LARGEST_SCAN = 200_000


class CommitEvidence:
    """The commits of a group, queried by spans of log offsets; both ends of a span are excluded.

    They are arranged at the first query: a group that never rebalanced has none, and may have many commits.
    """

    def __init__(self, events: Sequence[Event], reach: ScannedRange) -> None:
        self._events = events
        self._whole_from = reach.whole_from

    @cached_property
    def _broken(self) -> list[int]:
        return [event.log_offset for event in self._events if isinstance(event, Unreadable)]

    @cached_property
    def _commits(self) -> list[CommitWritten]:
        aborted = TransactionEnd.ABORTED
        return [
            event
            for event in self._events
            if isinstance(event, CommitWritten) and event.offset is not None and event.ending is not aborted
        ]

    @cached_property
    def _of_all(self) -> _Commits:
        return _Commits(self._commits)

    @cached_property
    def _by_partition(self) -> dict[TopicPartition, _Commits]:
        return _by_partition(self._commits)

    @cached_property
    def _plain_by_partition(self) -> dict[TopicPartition, _Commits]:
        plain = TransactionEnd.PLAIN
        return _by_partition([commit for commit in self._commits if commit.ending is plain])

    @cached_property
    def rhythm_ms(self) -> int | None:
        """Median time in ms between two commits of one partition; None below three such gaps."""
        gaps: list[int] = []
        for of_partition in self._by_partition.values():
            gaps += (later - earlier for earlier, later in pairwise(of_partition.times) if later > earlier)
            if len(gaps) > _LARGEST_SCAN:
                break
        return round(median(gaps)) if len(gaps) >= _GAPS_FOR_A_RHYTHM else None

    def whole(self, after: int, before: int) -> bool:
        """Whether no record of the group is missing or unreadable between these offsets.

        Only then does the absence of a record mean something.
        """
        if self._whole_from is None or after + 1 < self._whole_from:
            return False
        return bisect_right(self._broken, after) == bisect_left(self._broken, before)

    def last_commit(self, partitions: Partitions, after: int, before: int, *, plain: bool = False) -> int | None:
        """Time (ms since 1970) of the last commit for any of these partitions; None if there is none.

        ``plain`` leaves out transactional commits: in the classic protocol only a plain one counts as a heartbeat.
        """
        commits = self._plain_by_partition if plain else self._by_partition
        times = [
            time
            for tp in partitions
            if (of_partition := commits.get(tp)) is not None and (time := of_partition.last(after, before)) is not None
        ]
        return max(times, default=None)

    def last_of_all(self, after: int, before: int) -> int | None:
        """Time (ms since 1970) of the last commit for any partition; None if there is none."""
        return self._of_all.last(after, before)


class _Commits:
    """The log offsets of commits, ascending, and their times."""

    __slots__ = ("offsets", "times")

    def __init__(self, commits: Iterable[CommitWritten]) -> None:
        self.offsets: list[int] = []
        self.times: list[int] = []
        for commit in commits:
            self.offsets.append(commit.log_offset)
            self.times.append(commit.at_ms)

    def last(self, after: int, before: int) -> int | None:
        index = bisect_left(self.offsets, before) - 1
        return self.times[index] if index >= 0 and self.offsets[index] > after else None


def _by_partition(commits: Iterable[CommitWritten]) -> dict[TopicPartition, _Commits]:
    by_partition: defaultdict[TopicPartition, list[CommitWritten]] = defaultdict(list)
    for commit in commits:
        by_partition[commit.tp].append(commit)
    return {tp: _Commits(of_partition) for tp, of_partition in by_partition.items()}
