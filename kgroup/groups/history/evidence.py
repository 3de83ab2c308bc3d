"""Evidence from a group's commits and from the completeness of its log: signs of life, and meaningful silences."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from kgroup.model.group_log import (
    CommitWritten,
    Event,
    ForeignGroupWritten,
    Partitions,
    ScannedRange,
    TransactionEnd,
    Unreadable,
)
from kgroup.model.topic_partition import TopicPartition

_GAPS_FOR_A_RHYTHM = 3
_LARGEST_SCAN = 200_000
_PLAIN = TransactionEnd.PLAIN


class CommitEvidence:
    """The commits of a group, queried by spans of log offsets; both ends of a span are excluded."""

    def __init__(self, events: Iterable[Event], reach: ScannedRange) -> None:
        self._whole_from = reach.whole_from
        self._broken: list[int] = []
        self._of_all = _Commits()
        self._by_partition: dict[TopicPartition, _Commits] = {}
        self._plain_by_partition: dict[TopicPartition, _Commits] = {}
        aborted = TransactionEnd.ABORTED
        for event in events:
            if isinstance(event, CommitWritten):
                if event.offset is not None and event.ending is not aborted:
                    self._add(event)
            elif isinstance(event, Unreadable | ForeignGroupWritten):  # kgroup does not decode such a group's records
                self._broken.append(event.log_offset)
        self.rhythm_ms = _rhythm(self._by_partition.values())
        """Median time in ms between two commits of one partition; None below three such gaps."""

    def _add(self, commit: CommitWritten) -> None:
        tp = commit.tp
        self._of_all.add(commit)
        kinds = (self._by_partition, self._plain_by_partition)
        for by_partition in kinds if commit.ending is _PLAIN else kinds[:1]:
            if (of_partition := by_partition.get(tp)) is None:
                of_partition = by_partition[tp] = _Commits()
            of_partition.add(commit)

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

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.times: list[int] = []

    def add(self, commit: CommitWritten) -> None:
        self.offsets.append(commit.log_offset)
        self.times.append(commit.at_ms)

    def last(self, after: int, before: int) -> int | None:
        index = bisect_left(self.offsets, before) - 1
        return self.times[index] if index >= 0 and self.offsets[index] > after else None


def _rhythm(commits: Iterable[_Commits]) -> int | None:
    gaps: list[int] = []
    for of_partition in commits:
        gaps += _gaps(of_partition.times)
        if len(gaps) > _LARGEST_SCAN:
            break
    return round(median(gaps)) if len(gaps) >= _GAPS_FOR_A_RHYTHM else None


def _gaps(times: Sequence[int]) -> list[int]:
    return [later - earlier for earlier, later in pairwise(times) if later > earlier]
