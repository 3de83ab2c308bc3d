"""Commits of a partition that fall back and return again and again: no resets, and none is worth an undo. Pure.

A client that tries a record or a batch again commits so, and so do two writers of one partition: its owner, and a
member that has lost it and keeps committing where it stood. An undo would give one of the two its way for a moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from kgroup.groups import thresholds
from kgroup.model.groups import LoggedCommit
from kgroup.support.json_types import ExplainedEnum

_FEW = thresholds.FEW_COMMITS.value
_APART_MS = thresholds.REWIND_SHOWN.value
_MUCH_FURTHER = 2
_JUDGED = 20
_TIMES_THE_GAIN = 10
_LONGEST_HOP = 2


class Writers(ExplainedEnum):
    """Who commits back and forth."""

    ONE = "one", "one client, which tries again: it commits the offsets between, or only the next one"
    TWO = "two", "two members, or two parts of one: at least one of them moves on, far from the other"
    UNKNOWN = "unknown", "one client that tries again, or two: both commit so"


class RepeatedFalls(msgspec.Struct, frozen=True):
    """At least FEW_COMMITS falls. ``indices`` are those of the commits after a fall.

    ``highs`` are the offsets that they fell from, ``lows`` those that they fell to. The last 20 show the ``writers``.
    """

    indices: tuple[int, ...]
    highs: tuple[int, ...]
    lows: tuple[int, ...]
    writers: Writers


def repeated_falls(commits: Sequence[LoggedCommit]) -> Iterator[RepeatedFalls]:
    """The times in which the offset fell back and returned, oldest first; ``commits`` are in the order of the log.

    Falls that are ten minutes apart, or have a commit of a tool between them, are separate. A fall counts if the offset
    came back to where it was. The last one may not have yet, if it is not much further than the others.
    """
    for falls, end in _runs(commits):
        counted = _returning(commits, falls, end)
        if len(counted) >= _FEW:
            highs = tuple(commits[index - 1].offset for index in counted)
            lows = tuple(commits[index].offset for index in counted)
            yield RepeatedFalls(tuple(counted), highs, lows, _writers(commits, counted[-_JUDGED:]))


class Hop(msgspec.Struct, frozen=True):
    """One or two commits that the next one took back. ``indices`` are theirs, ``back`` that of the next one."""

    indices: tuple[int, ...]
    back: int


def hops(commits: Sequence[LoggedCommit]) -> Iterator[Hop]:
    """Commits from which the offset returned at once to where it stood for at least two commits, oldest first.

    Java's client of the consumer protocol commits so where its application tries a record again: now and then it
    commits all that it has fetched, before the application seeks back. An undo would skip what was not processed.
    """
    kept: list[int] = []
    for index, commit in enumerate(commits):
        if not kept or commit.offset >= commits[kept[-1]].offset:
            kept.append(index)
            continue
        for length in range(1, _LONGEST_HOP + 1):
            stood, gone = [commits[at] for at in kept[-length - 2 : -length]], kept[-length:]
            if (
                len(stood) == 2
                and all(one.offset == commit.offset for one in stood)
                and all(commits[at].offset > commit.offset and not commits[at].by_tool for at in gone)
                and not commit.by_tool
            ):
                yield Hop(tuple(gone), index)
                del kept[-length:]
                break
        kept.append(index)


def without_hops(commits: Sequence[LoggedCommit]) -> Sequence[LoggedCommit]:
    """The commits of one client without its hops; those of two writers are as they are."""
    gone = {index for hop in hops(commits) for index in hop.indices}
    if not gone or any(falls.writers is Writers.TWO for falls in repeated_falls(commits)):
        return commits
    return [commit for index, commit in enumerate(commits) if index not in gone]


def _runs(commits: Sequence[LoggedCommit]) -> Iterator[tuple[list[int], int]]:
    """Falls that belong together, and the index at which what follows them ends."""
    run: list[int] = []
    for index in range(1, len(commits)):
        before, after = commits[index - 1], commits[index]
        if run and (after.by_tool or after.timestamp_ms - commits[run[-1]].timestamp_ms > _APART_MS):
            yield run, index
            run = []
        if after.offset < before.offset and not before.by_tool and not after.by_tool:
            run.append(index)
    if run:
        yield run, len(commits)


def _returning(commits: Sequence[LoggedCommit], falls: Sequence[int], end: int) -> list[int]:
    highest, until = -1, end
    returned: list[int] = []
    for index in reversed(falls):
        highest = max(highest, *(commit.offset for commit in commits[index:until]))
        until = index
        if highest >= commits[index - 1].offset:
            returned.append(index)
    returned.reverse()
    last = falls[-1]
    if returned and returned[-1] != last:
        furthest = max(commits[index - 1].offset - commits[index].offset for index in returned)
        if commits[last - 1].offset - commits[last].offset <= _MUCH_FURTHER * furthest:
            returned.append(last)
    return returned


def _writers(commits: Sequence[LoggedCommit], falls: Sequence[int]) -> Writers:
    """Two stay apart: each only moves on, nothing is committed between them, and the gap is no gain of one round."""
    highs, lows = [commits[index - 1].offset for index in falls], [commits[index].offset for index in falls]
    if max(highs) - min(lows) <= 1:
        return Writers.ONE
    for earlier, later in pairwise(falls):
        # Above the middle: the lower writer may move on too, and there may be a third one.
        low, high = commits[later].offset, commits[earlier - 1].offset
        if any((low + high) / 2 < one.offset < high for one in commits[earlier + 1 : later]):
            return Writers.ONE
    gain = max(highs[-1] - highs[0], lows[-1] - lows[0]) / (len(falls) - 1)
    only_on = all(a <= b for a, b in (*pairwise(highs), *pairwise(lows)))
    apart = min(highs) - max(lows)
    return Writers.TWO if only_on and gain > 0 and apart > _TIMES_THE_GAIN * gain else Writers.UNKNOWN
