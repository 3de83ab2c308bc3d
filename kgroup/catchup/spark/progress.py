"""Progress of a replay for display, from the ledger. Pure.

The time left is computed from offsets: the number of records in a gap is unknown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kgroup.groups.catchup.model import Chunk, ChunkProgress
from kgroup.groups.catchup.time_left import time_left_s

WINDOW_S = 30.0
"""Rates are averages over this time: a task commits every few seconds."""

_SHORTEST_S = 0.9
_SAMPLE_EVERY_S = 0.2


class TopicTotals(msgspec.Struct, frozen=True):
    """``done`` and ``total`` offsets of one topic."""

    topic: str
    done: int
    total: int


class ProgressTotals(msgspec.Struct, frozen=True):
    """Progress of all tasks. Offsets are those of the ranges; records are the visible ones in them.

    ``records`` includes ``filtered`` and ``dead``; ``size`` is in bytes. Rates are of the last half minute, None until
    one second has passed. ``left_s`` is until the slowest task ends, None if nothing moves; ``left_of_tasks`` are the
    offsets of each. ``moved`` is whether anything was committed since the start.
    """

    offsets: int
    offsets_total: int
    chunks: int
    chunks_total: int
    records: int
    filtered: int
    dead: int
    size: int
    records_per_s: float | None
    bytes_per_s: float | None
    left_s: float | None
    moved: bool
    topics: tuple[TopicTotals, ...]
    left_of_tasks: tuple[int, ...] = ()


class ProgressBoard:
    """The progress of tasks, by number. All ``now_s`` come from one monotonic clock."""

    def __init__(
        self, tasks: Mapping[int, Sequence[Chunk]], ledger: Mapping[int, ChunkProgress] | None = None, *, now_s: float
    ) -> None:
        self._tasks = {number: tuple(chunks) for number, chunks in tasks.items()}
        self._ledger: dict[int, ChunkProgress] = dict(ledger or {})
        self._begun = 0
        first = self._summed()
        self._begun = first.offsets
        self._samples = deque([(now_s, first)])

    def ledger(self, progress: Mapping[int, ChunkProgress]) -> None:
        """Store the ledger's progress of chunks; progress never moves backwards."""
        for number, chunk in progress.items():
            before = self._ledger.get(number)
            if before is None or chunk.delivered_to >= before.delivered_to:
                self._ledger[number] = chunk

    def totals(self, now_s: float) -> ProgressTotals:
        """The totals at this moment. Call it regularly: rates are computed between calls."""
        now = self._summed()
        if now_s - self._samples[-1][0] >= _SAMPLE_EVERY_S:
            self._samples.append((now_s, now))
        while len(self._samples) > 2 and now_s - self._samples[1][0] >= WINDOW_S:
            self._samples.popleft()
        first_s, first = self._samples[0]
        return _rated(now, first, now_s - first_s)

    def _summed(self) -> ProgressTotals:
        by_topic: dict[str, list[int]] = {}
        offsets = chunks = chunks_total = records = filtered = dead = size = 0
        left_of_tasks: list[int] = []
        for task in self._tasks.values():
            left = 0
            for chunk in task:
                written = self._ledger.get(chunk.number)
                done = 0
                if written is not None:
                    done = max(0, min(written.delivered_to - chunk.start, chunk.offsets))
                    records, filtered = records + written.records, filtered + written.filtered
                    dead, size = dead + written.dead, size + written.size
                left += chunk.offsets - done
                offsets += done
                chunks_total += 1
                chunks += done == chunk.offsets
                topic = by_topic.setdefault(chunk.topic, [0, 0])
                topic[0] += done
                topic[1] += chunk.offsets
            left_of_tasks.append(left)
        return ProgressTotals(
            offsets=offsets,
            offsets_total=sum(total for _, total in by_topic.values()),
            chunks=chunks,
            chunks_total=chunks_total,
            records=records,
            filtered=filtered,
            dead=dead,
            size=size,
            records_per_s=None,
            bytes_per_s=None,
            left_s=None,
            moved=offsets > self._begun,
            topics=tuple(TopicTotals(topic, *by_topic[topic]) for topic in sorted(by_topic)),
            left_of_tasks=tuple(left_of_tasks),
        )


def _rated(now: ProgressTotals, first: ProgressTotals, elapsed_s: float) -> ProgressTotals:
    if elapsed_s < _SHORTEST_S:
        return replace(now, left_s=0.0 if now.offsets == now.offsets_total else None)
    lefts = zip(now.left_of_tasks, first.left_of_tasks, strict=True)
    return replace(
        now,
        records_per_s=max(0.0, (now.records - first.records) / elapsed_s),
        bytes_per_s=max(0.0, (now.size - first.size) / elapsed_s),
        left_s=time_left_s((left, max(0.0, (before - left) / elapsed_s)) for left, before in lefts),
    )
