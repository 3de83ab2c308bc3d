"""How far a chunk is and what was counted on the way, from one commit to the next. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, replace
from typing import Protocol

from kgroup.catchup.model import Chunk, ChunkProgress, LostOffsets
from kgroup.catchup.verification import ChunkResult


@dataclass(frozen=True, slots=True)
class ChunkCount:
    """A chunk's, up to ``position``: as it is when what is under way will have been committed.

    ``visible``, ``filtered_now`` and ``delivered`` are of this run alone, from ``start`` on, and are counted in
    different places: when reading, and by the sink. ``repeated`` is how many records of a handler's may have come
    twice by now. ``delivered_again`` is ``ChunkProgress.again``, and ``kept`` is as there.
    """

    chunk: Chunk
    start: int
    position: int
    records: int = 0
    filtered: int = 0
    dead: int = 0
    size: int = 0
    lost: tuple[LostOffsets, ...] = ()
    repeated: int = 0
    visible: int = 0
    delivered: int = 0
    dead_now: int = 0
    filtered_now: int = 0
    delivered_again: int = 0
    kept: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, chunk: Chunk, known: ChunkProgress | None) -> ChunkCount:
        """As the ledger has it, before this run has done anything."""
        if known is None:
            return cls(chunk, chunk.start, chunk.start)
        position = min(max(known.delivered_to, chunk.start), chunk.end)
        return cls(
            chunk,
            position,
            position,
            known.records,
            known.filtered,
            known.dead,
            known.size,
            known.lost,
            known.may_repeat,
            delivered_again=known.again,
            kept=known.kept,
        )

    @property
    def finished(self) -> bool:
        """Whether the chunk is worked through."""
        return self.position >= self.chunk.end

    def moved(self, position: int) -> ChunkCount:
        """All below this offset is read."""
        return replace(self, position=max(self.position, min(position, self.chunk.end)))

    def with_records(
        self, position: int, visible: int, delivered: int, size: int, dead: int = 0, filtered: int = 0
    ) -> ChunkCount:
        """So many more were read, delivered, dead, and not wanted."""
        return replace(
            self,
            position=max(self.position, position),
            records=self.records + visible,
            filtered=self.filtered + filtered,
            filtered_now=self.filtered_now + filtered,
            dead=self.dead + dead,
            size=self.size + size,
            visible=self.visible + visible,
            delivered=self.delivered + delivered,
            dead_now=self.dead_now + dead,
        )

    def read(self, visible: int) -> ChunkCount:
        """With what was read of it in this run up to its position, whatever the sink says that it was given."""
        return replace(self, records=self.records + visible - self.visible, visible=visible)

    def sifted(self, records: int, visible: int, passed: int) -> ChunkCount:
        """With what the sink never saw: ``records`` were visible in all, ``visible`` in this run, of which so many have
        come through the filter to it.
        """
        wanted = self.records - self.filtered
        return replace(self, records=records, filtered=records - wanted, visible=visible, filtered_now=visible - passed)

    def again(self, records: int) -> ChunkCount:
        """So many more may have come twice."""
        return replace(self, repeated=self.repeated + records)

    def handled(self, since: ChunkCount) -> int:
        """How many records a handler has answered for since an earlier count of the same run."""
        return self.delivered - since.delivered + self.dead_now - since.dead_now

    def without(self, lost: LostOffsets) -> ChunkCount:
        """These offsets are lost: it counts once the position has passed them."""
        return replace(self, lost=(*self.lost, lost))

    def progress(self, epoch: int, now_ms: int, may_repeat: int = 0) -> ChunkProgress:
        """For the ledger; ``may_repeat`` records beside those that have been repeated may come again."""
        return ChunkProgress(
            self.chunk.number,
            self.position,
            self.records,
            self.filtered,
            self.dead,
            self.size,
            now_ms,
            epoch,
            tuple(one for one in self.lost if one.end <= self.position),
            self.repeated + may_repeat,
            again=self.delivered_again,
            kept=tuple(span for span in self.kept if span[1] > self.position),
        )

    def result(self) -> ChunkResult:
        """What this run has counted."""
        return ChunkResult(
            self.chunk.number,
            self.start,
            self.position,
            self.visible,
            self.delivered,
            self.filtered_now,
            self.dead_now,
        )


class VisibleRecords(Protocol):
    """What came from a reader: records in the order of their offsets, all below ``position``."""

    position: int

    def __len__(self) -> int: ...

    def offsets(self) -> list[int]:
        """Rising."""


class RecordTally:
    """How many records a reader gave, by offset: counted where they are read, before anybody cuts them up.

    ``visible`` were read below before. What was asked for once is forgotten below, so offsets are asked for as they
    rise.
    """

    def __init__(self, visible: int = 0) -> None:
        self._below = visible
        self._items: deque[VisibleRecords] = deque()

    def add(self, item: VisibleRecords, done: int) -> None:
        """These came, and all below ``done`` is delivered."""
        self.at(done)
        if self._items:
            # What waits longer than until the next came is kept by its offsets, and not by its records.
            self._items.append(_Offsets(self._items.pop()))
        self._items.append(item)

    def at(self, position: int) -> int:
        """How many have an offset below this one."""
        while self._items and self._items[0].position <= position:
            self._below += len(self._items.popleft())
        return self._below + sum(bisect_left(one.offsets(), position) for one in self._items)


class _Offsets:
    def __init__(self, item: VisibleRecords) -> None:
        self.position = item.position
        self._offsets = item.offsets()

    def __len__(self) -> int:
        return len(self._offsets)

    def offsets(self) -> list[int]:
        return self._offsets
