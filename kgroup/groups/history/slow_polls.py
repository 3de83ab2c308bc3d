"""Members that left since they did not poll within max.poll.interval.ms, at offsets that have not moved since. Pure.

A client leaves by itself then; its process lives on, hangs, or handles a batch that takes longer, and comes back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

import msgspec

from kgroup.groups.thresholds import SERIES_PAUSE
from kgroup.groups.timeline.departures import POLL_EARLY_MS
from kgroup.groups.timeline.steps import Cause, HistoryStep, PresentMember, StepKind
from kgroup.model.group_log import CommitWritten
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.durations import format_duration
from kgroup.support.units import plural


class SlowPoll(msgspec.Struct, frozen=True):
    """A member that left at the step at ``log_offset``. ``sure`` is whether its commits before show why."""

    at_ms: int
    log_offset: int
    name: str
    poll_ms: int
    sure: bool


class SlowPolls(msgspec.Struct, frozen=True):
    """The partitions that most of them had, since their offsets moved, and those members, oldest first."""

    places: tuple[TopicPartition, ...]
    left: tuple[SlowPoll, ...]


def slow_polls(
    steps: Sequence[HistoryStep],
    commits: Iterable[CommitWritten],
    now_ms: int,
    topic_names: Mapping[str, str] = MappingProxyType({}),
) -> SlowPolls | None:
    """The members that left so at one place; None if there are none, or one that has it now polls.

    Of a member that never committed the log shows only how long it was there: two of these are needed.
    ``topic_names`` has the names of topics that the steps identify by id.
    """
    at_place: defaultdict[TopicPartition, list[SlowPoll]] = defaultdict(list)
    came_ms: dict[str, int] = {}
    for before, step in pairwise(steps):
        for present in before.members:
            came_ms.setdefault(present.member_id, before.at_ms)
        for present, left in _left(before, step, came_ms):
            for tp in _partitions(present, topic_names):
                at_place[tp].append(left)
    if not at_place:
        return None
    moved = _last_moves(commits)
    of_place = {tp: [one for one in left if one.log_offset > moved.get(tp, -1)] for tp, left in at_place.items()}
    most = max(of_place.values(), key=len)
    if not most or (len(most) == 1 and not most[0].sure):
        return None
    places = {tp for tp, left in of_place.items() if left == most}
    for present in steps[-1].members:
        there_ms = now_ms - came_ms.get(present.member_id, steps[-1].at_ms)
        if there_ms > (present.poll_ms or 0) + SERIES_PAUSE.value and places & _partitions(present, topic_names):
            return None
    return SlowPolls(tuple(sorted(places)), tuple(most))


def _partitions(present: PresentMember, names: Mapping[str, str]) -> set[TopicPartition]:
    return {TopicPartition(names.get(tp.topic, tp.topic), tp.partition) for tp in present.partitions or ()}


def _left(
    before: HistoryStep, step: HistoryStep, came_ms: Mapping[str, int]
) -> Iterator[tuple[PresentMember, SlowPoll]]:
    remaining = {present.member_id for present in step.members}
    for present in before.members:
        if present.member_id in remaining or present.poll_ms is None or step.kind is StepKind.DELETED:
            continue
        causes = {reason.cause for reason in step.reasons if present.name in reason.members}
        sure = Cause.POLL_EXCEEDED in causes
        late_ms = step.at_ms - came_ms[present.member_id] - present.poll_ms
        as_long = -POLL_EARLY_MS <= late_ms <= (present.session_ms or 0) // 3 + POLL_EARLY_MS
        if sure or (as_long and Cause.GONE in causes):
            yield present, SlowPoll(step.at_ms, step.log_offset, present.name, present.poll_ms, sure)


def _last_moves(commits: Iterable[CommitWritten]) -> dict[TopicPartition, int]:
    """The log offset at which the committed offset of each partition moved last."""
    moved: dict[TopicPartition, int] = {}
    offsets: dict[TopicPartition, int | None] = {}
    for commit in commits:
        if commit.counts and offsets.get(commit.tp) != commit.offset:
            moved[commit.tp], offsets[commit.tp] = commit.log_offset, commit.offset
    return moved


def slow_poll_words(found: SlowPolls, where: str, now_ms: int) -> str:
    """Why they left, ``where`` they may be, and what the log does not show."""
    last = found.left[-1]
    ago, poll = format_duration(max(0, now_ms - last.at_ms) // 1000), format_duration(last.poll_ms / 1000)
    if len(found.left) == 1:
        return (
            f"its last member {last.name} left {ago} ago as it did not poll for {poll} (max.poll.interval.ms): its "
            f"process may live, and hang at {where}"
        )
    return (
        f"members left {plural(len(found.left), 'time')} at {where}, the last {ago} ago, as they did not poll for "
        f"{poll} (max.poll.interval.ms): a batch needs longer, or a call hangs, the log does not show which"
    )
