"""Progress of a replay for display: combines reports of tasks with the ledger. Pure and thread-safe.

Record counts are known only from reports. The rest is computed from offsets: the number of records in a gap is unknown.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kgroup.catchup.worker.task_progress import TaskProgress
from kgroup.groups.catchup.time_left import time_left_s

if TYPE_CHECKING:  # in_worker imports this module: a worker may lack msgspec
    from kgroup.groups.catchup.model import Chunk, ChunkProgress

WINDOW_S = 10.0
"""Rates are averages over this time."""

_SHORTEST_S = 0.9
_SAMPLE_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class TopicTotals:
    """``done`` and ``total`` offsets of one topic."""

    topic: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class ProgressTotals:
    """Progress of all tasks. Offsets are those of the ranges; records are the visible ones in them.

    ``records`` includes ``filtered`` and ``dead``; ``size`` is in bytes. Rates are of the last ten seconds, None until
    one second has passed. ``left_s`` is until the slowest task ends, None if nothing moves; ``left_of_tasks`` are the
    offsets of each. ``heard_s`` is the time since the last report, or None.
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
    heard_s: float | None
    topics: tuple[TopicTotals, ...]
    left_of_tasks: tuple[int, ...] = ()


@dataclass(slots=True)
class _Task:
    chunks: tuple[Chunk, ...]
    attempt: int = -1
    told: TaskProgress | None = None


class ProgressBoard:
    """Collects the reports of tasks, by number. All ``now_s`` come from one monotonic clock."""

    def __init__(
        self, tasks: Mapping[int, Sequence[Chunk]], ledger: Mapping[int, ChunkProgress] | None = None, *, now_s: float
    ) -> None:
        self._lock = threading.Lock()
        self._tasks = {number: _Task(tuple(chunks)) for number, chunks in tasks.items()}
        self._ledger: dict[int, ChunkProgress] = dict(ledger or {})
        self._heard_s: float | None = None
        self._samples = deque([(now_s, self._summed(now_s))])

    def update(self, task: int, attempt: int, told: TaskProgress, now_s: float) -> bool:
        """Store a report of a task's ``attempt`` (a rising number); False if it does not fit the task's chunks."""
        with self._lock:
            run = self._tasks.get(task)
            if run is None or not any(
                chunk.number == told.chunk and chunk.start <= told.position <= chunk.end for chunk in run.chunks
            ):
                return False
            self._heard_s = now_s
            # A superseded worker may still be reporting.
            if attempt >= run.attempt:
                run.attempt, run.told = attempt, told
            return True

    def alive(self, now_s: float) -> None:
        """A task has reported that it is running, but not begun."""
        with self._lock:
            self._heard_s = now_s

    def ledger(self, progress: Mapping[int, ChunkProgress]) -> None:
        """Store the ledger's progress of chunks; progress never moves backwards."""
        with self._lock:
            for number, chunk in progress.items():
                before = self._ledger.get(number)
                if before is None or chunk.delivered_to >= before.delivered_to:
                    self._ledger[number] = chunk

    def silent_s(self, now_s: float) -> float:
        """Seconds since the last report of any task, or since the start if there was none."""
        with self._lock:
            return now_s - (self._samples[0][0] if self._heard_s is None else self._heard_s)

    def totals(self, now_s: float) -> ProgressTotals:
        """The totals at this moment. Call it regularly: rates are computed between calls."""
        with self._lock:
            now = self._summed(now_s)
            if now_s - self._samples[-1][0] >= _SAMPLE_EVERY_S:
                self._samples.append((now_s, now))
            while len(self._samples) > 2 and now_s - self._samples[1][0] >= WINDOW_S:
                self._samples.popleft()
            first_s, first = self._samples[0]
            return _rated(now, first, now_s - first_s)

    def _summed(self, now_s: float) -> ProgressTotals:
        by_topic: dict[str, list[int]] = {}
        offsets = chunks = chunks_total = records = filtered = dead = size = 0
        left_of_tasks: list[int] = []
        for task in self._tasks.values():
            done_of_chunks = self._done(task)
            left_of_tasks.append(sum(chunk.offsets for chunk in task.chunks) - sum(done_of_chunks))
            for chunk, done in zip(task.chunks, done_of_chunks, strict=True):
                offsets += done
                chunks_total += 1
                chunks += done == chunk.offsets
                topic = by_topic.setdefault(chunk.topic, [0, 0])
                topic[0] += done
                topic[1] += chunk.offsets
            written = [self._ledger[c.number] for c in task.chunks if c.number in self._ledger]
            counts = [(p.records, p.filtered, p.dead, p.size) for p in written]
            known = tuple(map(sum, zip(*counts, strict=True))) or (0, 0, 0, 0)
            if (told := task.told) is not None:
                known = max(known, (told.records, told.filtered, told.dead, told.size))
            records, filtered, dead, size = records + known[0], filtered + known[1], dead + known[2], size + known[3]
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
            heard_s=None if self._heard_s is None else now_s - self._heard_s,
            topics=tuple(TopicTotals(topic, *by_topic[topic]) for topic in sorted(by_topic)),
            left_of_tasks=tuple(left_of_tasks),
        )

    def _done(self, task: _Task) -> list[int]:
        """Delivered offsets of each chunk. A task works in order, so chunks before its current one are finished."""
        done = []
        passed = task.told is not None
        for chunk in task.chunks:
            offsets = 0
            if (written := self._ledger.get(chunk.number)) is not None:
                offsets = written.delivered_to - chunk.start
            if task.told is not None and task.told.chunk == chunk.number:
                offsets, passed = max(offsets, task.told.position - chunk.start), False
            elif passed:
                offsets = chunk.offsets
            done.append(max(0, min(offsets, chunk.offsets)))
        return done


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
