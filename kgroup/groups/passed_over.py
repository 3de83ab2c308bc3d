"""Offsets that a group may have passed over, as they were deleted before it read them. Pure.

A consumer whose committed offset lies below the log start continues where ``auto.offset.reset`` sends it: its next
commit is far beyond. One that reads very fast commits so too, and records that it has read may be deleted: the log of
groups does not show when a log start moved. So what is found is never certain.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from kgroup.groups.foreign_owners import is_repartition_topic
from kgroup.groups.thresholds import LEAST_UNREAD
from kgroup.model.group_log import CommitWritten, EpochWritten, Event, GenerationWritten
from kgroup.model.groups import LoggedCommit, Partition
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.instants import short_time
from kgroup.support.units import human_count, plural

_GAPS_TO_COMPARE = 4
_TIMES_MORE = 10


class Leap(msgspec.Struct, frozen=True):
    """A commit of ``new`` after ``old``: many times farther and faster than all others, at most ``usual`` offsets."""

    tp: TopicPartition
    at_ms: int
    log_offset: int
    old: int
    new: int
    usual: int


class PassedOver(msgspec.Struct, frozen=True):
    """A leap from below the log start."""

    leap: Leap
    log_start: int

    @property
    def gone_end(self) -> int:
        """From the old offset to this one, no record is left."""
        return min(self.log_start, self.leap.new)

    @property
    def left(self) -> tuple[int, int] | None:
        """What is still there, without the last offset; None if it is no more than was read at other times."""
        return (
            (self.log_start, self.leap.new) if self.leap.new - self.log_start > _TIMES_MORE * self.leap.usual else None
        )

    @property
    def words(self) -> str:
        """``offsets 100 to 2399 are gone, 2400 to 4999 are still there: ...``."""
        gone, left = f"offsets {self.leap.old} to {self.gone_end - 1} are gone", self.left
        still = "" if left is None else f", {left[0]} to {left[1] - 1} are still there"
        return (
            f"{gone}{still}: auto.offset.reset passed over them, or they were read in one go and deleted since, the "
            "log does not show which"
        )


def leaps(commits: Mapping[TopicPartition, Sequence[LoggedCommit]], events: Iterable[Event]) -> tuple[Leap, ...]:
    """The leaps in a group's commits, oldest first; at most one of each partition, and none of a tool.

    ``events`` have its rebalances, in log order.
    """
    began_ms = [event.at_ms for event in events if isinstance(event, GenerationWritten | EpochWritten)]
    return tuple(leap for tp, of_partition in commits.items() for leap in _leap(tp, of_partition, began_ms))


def logged_commits(
    events: Iterable[Event], by_tool: Container[int] = frozenset()
) -> dict[TopicPartition, list[LoggedCommit]]:
    """The commits in a group's events since the last deletion of each; those at ``by_tool`` are of tools."""
    commits: dict[TopicPartition, list[LoggedCommit]] = {}
    for event in events:
        if isinstance(event, CommitWritten) and event.counts:
            if event.offset is None:
                commits.pop(event.tp, None)
            else:
                at = event.log_offset
                one = LoggedCommit(*event.tp, event.offset, event.leader_epoch, event.at_ms, at, by_tool=at in by_tool)
                commits.setdefault(event.tp, []).append(one)
    return commits


def _leap(tp: TopicPartition, commits: Sequence[LoggedCommit], began_ms: Sequence[int]) -> Iterator[Leap]:
    """The time of a step counts from the last rebalance: nothing was read before its members had joined.

    A step of a tool shows nothing of what the consumers read.
    """
    if len(commits) <= _GAPS_TO_COMPARE:
        return
    # Nearly all partitions end here, so that this must cost little.
    farthest = usual = at = 0
    for number, (before, after) in enumerate(pairwise(commits)):
        if after.by_tool:
            continue
        gain = after.offset - before.offset
        if gain > farthest:
            farthest, usual, at = gain, farthest, number
        elif gain > usual:
            usual = gain
    if farthest < LEAST_UNREAD.value or farthest <= _TIMES_MORE * usual:
        return
    others = (step for number, step in enumerate(pairwise(commits)) if number != at and not step[1].by_tool)
    rates = [_rate(*step, began_ms) for step in others]
    before, after = commits[at], commits[at + 1]
    if len(rates) + 1 >= _GAPS_TO_COMPARE and _rate(before, after, began_ms) > _TIMES_MORE * max(rates):
        yield Leap(tp, after.timestamp_ms, after.log_offset, before.offset, after.offset, usual)


def _rate(before: LoggedCommit, after: LoggedCommit, began_ms: Sequence[int]) -> float:
    """Offsets per ms."""
    begun = bisect_right(began_ms, after.timestamp_ms)
    since_ms = max(before.timestamp_ms, began_ms[begun - 1]) if begun else before.timestamp_ms
    return (after.offset - before.offset) / max(1, after.timestamp_ms - since_ms)


def passed_over(far: Iterable[Leap], log_starts: Mapping[TopicPartition, int]) -> tuple[PassedOver, ...]:
    """The leaps over the log starts, of those that are known.

    A start beyond the leap says nothing: it moved later. Streams deletes what it has read of its repartition topics.
    """
    return tuple(
        PassedOver(leap, start)
        for leap in far
        if (start := log_starts.get(leap.tp)) is not None
        and leap.old < start <= leap.new
        and not is_repartition_topic(leap.tp.topic)
    )


def passed_over_in(far: Iterable[Leap], partitions: Iterable[Partition]) -> tuple[PassedOver, ...]:
    """The same of a group's partitions as they are, the most first."""
    starts = {p.tp: p.log.start for p in partitions if p.log is not None}
    return tuple(sorted(passed_over(far, starts), key=lambda one: one.leap.old - one.leap.new))


def passed_over_words(passed: Sequence[PassedOver], now_ms: int) -> str:
    """What a conclusion says of them, by the first one."""
    first = passed[0]
    more = f"; {plural(len(passed) - 1, 'more partition')} too" if len(passed) > 1 else ""
    count, leap = human_count(first.leap.new - first.leap.old), first.leap
    return (
        f"{leap.tp} leapt by {count} at {short_time(leap.at_ms, now_ms)}, from below the log start: {first.words}{more}"
    )
