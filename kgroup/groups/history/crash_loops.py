"""Crash loops: members that own a partition come and go, and its committed offset does not move, or creeps. Pure.

It creeps if each process commits one record more and ends: it commits before it handles, or every record ends it.
The log of a group shows who owned the partition and what was committed. Whether a record was unread all the while, it
does not show: ``CrashLoop.since`` takes that from the caller.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from msgspec.structs import replace

from kgroup.groups.history.signatures import LOOP_GAP_MS, is_orderly, rollouts
from kgroup.groups.timeline.departures import POLL_EARLY_MS
from kgroup.groups.timeline.steps import (
    LOOP,
    Cause,
    CrashLoop,
    HistoryStep,
    OwnerGone,
    PresentMember,
    Signature,
    SignatureKind,
    StepKind,
)
from kgroup.model.group_log import CommitWritten, RebalanceProtocol
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.durations import format_duration
from kgroup.support.units import plural

_COMMITS_IN_A_LIFE = 2
_NAMED = 3
"""Of several partitions, each may have the record that ends the members."""


def crash_loops(
    steps: Sequence[HistoryStep],
    commits: Iterable[CommitWritten],
    now_ms: int,
    topic_names: Mapping[str, str] = MappingProxyType({}),
) -> tuple[CrashLoop, ...]:
    """The partitions of which at least three owners are gone since the committed offset moved, most owners first.

    There are at most ten minutes between two of them, and since the last. An owner that exceeded its poll interval does
    not count: it is slow, and its process lives. It takes five owners if the offset moved by a record at a time: from
    one owner to the next by one or none, by a commit of any member. The loops are suspected until ``CrashLoop.since``
    confirms them.
    ``commits`` are examined only if there are steps enough for a loop. ``topic_names`` has the names of topics that the
    steps identify by id.
    """
    if len(steps) <= LOOP or steps[-1].protocol in (RebalanceProtocol.SHARE, RebalanceProtocol.STREAMS):
        return ()  # a share group has no commits, and a streams group's members have tasks
    commits = tuple(commits)
    written = [commit for commit in commits if commit.counts and commit.offset is not None]
    moved = _moves(commits, [step.log_offset for step in steps])
    by_partition: dict[TopicPartition, list[tuple[OwnerGone, int]]] = {}
    for tp, gone, until in _owners_gone(steps, topic_names):
        by_partition.setdefault(tp, []).append((gone, until))
    found = (_loop_at(tp, owners, moved.get(tp, ()), now_ms) for tp, owners in by_partition.items())
    loops = [replace(loop, uncommitted_ms=_uncommitted_ms(loop, written)) for loop in found if loop is not None]
    return tuple(sorted(loops, key=lambda loop: (-len(loop.gone), loop.tp)))


def _uncommitted_ms(loop: CrashLoop, commits: Sequence[CommitWritten]) -> int | None:
    """The longest life of a loop without any commit, unless it had time for two as the group committed before.

    The first owner is left out: it committed up to the offset of the loop. Without a commit before, any life may be
    too short.
    """
    first, *others = loop.gone
    lives = [(one.at_ms - one.came_ms, one.waited_ms) for one in others if one.came_ms is not None]
    least_ms = [most - waited for most, waited in lives if waited is not None]
    if len(least_ms) < len(others) or any(first.log_offset < one.log_offset < others[-1].log_offset for one in commits):
        return None
    moments_ms = sorted({commit.at_ms for commit in commits if commit.log_offset < first.log_offset})
    pauses_ms = sorted(later - earlier for earlier, later in pairwise(moments_ms))
    if pauses_ms and max(least_ms) >= _COMMITS_IN_A_LIFE * pauses_ms[len(pauses_ms) // 2]:
        return None
    return max(most for most, _ in lives)


def _moves(commits: Iterable[CommitWritten], steps: Sequence[int]) -> dict[TopicPartition, list[tuple[int, int]]]:
    """The last moves of each partition's offset, as log offset and offset, of which the last is the present one.

    From one to the next it moved by one record, and at most once between two steps.
    """
    moved: dict[TopicPartition, list[tuple[int, int]]] = {}
    for commit in commits:
        if not commit.counts:
            continue
        if commit.offset is None:
            moved.pop(commit.tp, None)
            continue
        moves = moved.setdefault(commit.tp, [])
        if moves and moves[-1][1] == commit.offset:
            continue
        if moves and (
            commit.offset != moves[-1][1] + 1
            or (len(moves) > 1 and bisect_left(steps, moves[-1][0]) == bisect_left(steps, commit.log_offset))
        ):
            moves.clear()
        moves.append((commit.log_offset, commit.offset))
    return moved


def _loop_at(
    tp: TopicPartition, owners: Sequence[tuple[OwnerGone, int]], moves: Sequence[tuple[int, int]], now_ms: int
) -> CrashLoop | None:
    """The loop of these owners, each with the log offset until which it owned the partition; None if it is none."""
    if not moves:
        return CrashLoop(*tp, None, _recent([gone for gone, _ in owners], now_ms)).since(None)
    moved_at, offset = moves[-1]
    recent = _recent([gone for gone, until in owners if until > moved_at], now_ms)
    if loop := CrashLoop(*tp, offset, recent).since(None):
        return loop
    creeping, lowest = [], {}
    later = offset
    for gone, until in reversed(owners):
        then = moves[bisect_left(moves, (until, 0)) - 1][1]
        if until > moves[0][0] and later - then <= 1:
            creeping.append(gone)
            later = lowest[gone] = min(later, then)
    recent = _recent(creeping[::-1], now_ms)
    return CrashLoop(*tp, offset, recent, offset - lowest[recent[0]]).since(None) if recent else None


def _owners_gone(
    steps: Sequence[HistoryStep], names: Mapping[str, str]
) -> Iterator[tuple[TopicPartition, OwnerGone, int]]:
    """Each member that is gone, with each partition that it owned, and the log offset of the step until which it did.

    The coordinator may give a partition to the next member before it notices that the owner is dead.
    """
    orderly = [one for one in rollouts(steps) if is_orderly(steps, one)]
    came_ms: dict[str, int] = {}
    owned: dict[str, dict[TopicPartition, int]] = {}
    for before, step in pairwise(steps):
        if step.kind is StepKind.DELETED:
            came_ms.clear()
            owned.clear()
            continue
        for present in before.members:
            came_ms.setdefault(present.member_id, before.at_ms)
            here = (TopicPartition(names.get(tp.topic, tp.topic), tp.partition) for tp in present.partitions or ())
            owned.setdefault(present.member_id, {}).update(dict.fromkeys(here, step.log_offset))
        remaining = {present.member_id for present in step.members}
        attempt = next((one.first for one in orderly if one.first <= step.log_offset <= one.last), step.log_offset)
        for present in before.members:
            if present.member_id in remaining or _was_slow(present, step, came_ms[present.member_id]):
                continue
            came, waited = came_ms[present.member_id], _waited_ms(present, step)
            gone = OwnerGone(step.at_ms, step.log_offset, attempt, present.name, came, waited)
            for tp, until in owned.pop(present.member_id, {}).items():
                yield tp, gone, until


def _was_slow(present: PresentMember, step: HistoryStep, came_ms: int) -> bool:
    """Whether the member exceeded its poll interval, or may have: the log does not show how it went."""
    causes = {reason.cause for reason in step.reasons if present.name in reason.members}
    if Cause.POLL_EXCEEDED in causes:
        return True
    lived_ms = step.at_ms - came_ms
    return Cause.GONE in causes and present.poll_ms is not None and lived_ms >= present.poll_ms - POLL_EARLY_MS


def _waited_ms(present: PresentMember, step: HistoryStep) -> int | None:
    """None too where there are epochs: these sessions are not in the log, so not every reader knows them."""
    if step.protocol is RebalanceProtocol.CONSUMER:
        return None
    left = any(reason.cause is Cause.LEAVE and present.name in reason.members for reason in step.reasons)
    return 0 if left else present.session_ms


def _recent(owners: Sequence[OwnerGone], now_ms: int) -> tuple[OwnerGone, ...]:
    """The last of these without a longer pause; empty if the loop is over."""
    recent: list[OwnerGone] = []
    later_ms = now_ms
    for one in reversed(owners):
        if later_ms - one.at_ms > LOOP_GAP_MS:
            break
        recent.append(one)
        later_ms = one.at_ms
    return tuple(recent[::-1])


def crash_loop_words(loops: Sequence[CrashLoop], now_ms: int) -> str:
    """``crash loop at orders:1 offset 10: 13 members came and went in 4m, the last 9s ago, none committed past it``."""
    gone = loops[0].gone
    span = format_duration((gone[-1].at_ms - gone[0].at_ms) // 1000)
    ago = format_duration(max(0, now_ms - gone[-1].at_ms) // 1000)
    return (
        f"crash loop at {_place(loops)}: {len(gone)} members came and went in {span}, the last {ago} ago, "
        f"and {_progress(loops)}{_uncommitted(loops[0])}"
    )


def _uncommitted(loop: CrashLoop) -> str:
    if loop.uncommitted_ms is None:
        return ""
    return (
        f"; none committed anything, and each ended within {format_duration(loop.uncommitted_ms / 1000)}: at a record "
        "there, or whatever the record, before its first commit, the log does not show which"
    )


def _progress(loops: Sequence[CrashLoop]) -> str:
    return "none committed more than one record" if loops[0].crept else "none committed past it"


def _place(loops: Sequence[CrashLoop]) -> str:
    """``orders:1 offset 10``; of several it is not known which: ``orders:1 offset 10, orders:2 offset 7 or ...``."""
    *rest, last = [f"{loop.tp}{'' if loop.offset is None else f' offset {loop.offset}'}" for loop in loops[:_NAMED]]
    if len(loops) > _NAMED:
        rest, last = [*rest, last], plural(len(loops) - _NAMED, "more partition")
    return f"{', '.join(rest)} or {last}" if rest else last


def with_crash_loops(
    signatures: Sequence[Signature], loops: Sequence[CrashLoop], steps: Sequence[HistoryStep]
) -> tuple[Signature, ...]:
    """The signatures, with these loops as one of them; it replaces those of the same steps, which are its parts."""
    if not loops:
        return tuple(signatures)
    gone = sorted((one for loop in loops for one in loop.gone), key=lambda one: one.log_offset)
    first, last = gone[0], gone[-1]
    loop = Signature(
        SignatureKind.CRASH_LOOP,
        first.at_ms,
        last.at_ms,
        first.log_offset,
        last.log_offset,
        sum(step.rebalances for step in steps if first.log_offset <= step.log_offset <= last.log_offset),
        tuple(sorted({one.name for one in gone})),
        f"{_place(loops)}: {plural(len(loops[0].gone), 'member')} came and went, and {_progress(loops)}",
    )
    others = [one for one in signatures if one.last < loop.first or one.first > loop.last]
    return tuple(sorted((*others, loop), key=lambda one: (one.first, one.last)))
