"""How far a chunk is and its counts, from one commit to the next. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, replace
from typing import Protocol

from kgroup.groups.catchup.model import Chunk, ChunkProgress
from kgroup.groups.catchup.verification import ChunkResult
from kgroup.model.records import LostOffsets


@dataclass(frozen=True, slots=True)
class ChunkCount:
    """The counts of a chunk up to ``position``, as they will be once the open transaction is committed."""

    chunk: Chunk
    before: ChunkProgress
    """The ledger's progress before this run."""

    run: ChunkResult
    """This run alone. The reader counts ``visible`` and ``filtered``, the sink ``delivered`` and ``dead``."""

    size: int = 0
    """Bytes that this run has delivered."""

    lost: tuple[LostOffsets, ...] = ()
    repeated: int = 0
    """How many records a handler may have received twice so far."""

    @classmethod
    def of(cls, chunk: Chunk, known: ChunkProgress | None) -> ChunkCount:
        """The counts of the ledger, before this run has delivered anything. ``known`` None: the chunk has not begun."""
        before = known or ChunkProgress(chunk.number, chunk.start, 0, 0, 0, 0, 0, 0)
        position = min(max(before.delivered_to, chunk.start), chunk.end)
        run = ChunkResult(chunk.number, position, position, 0, 0, 0, 0)
        return cls(chunk, before, run, lost=before.lost, repeated=before.may_repeat)

    @property
    def position(self) -> int:
        """All below this offset is counted."""
        return self.run.position

    @property
    def finished(self) -> bool:
        """Whether the position has reached the end of the chunk."""
        return self.position >= self.chunk.end

    def moved(self, position: int) -> ChunkCount:
        """A copy with the position moved up to this offset, at most to the chunk's end: all below is read."""
        return replace(self, run=replace(self.run, position=max(self.position, min(position, self.chunk.end))))

    def with_records(
        self, position: int, visible: int, delivered: int, size: int, dead: int = 0, filtered: int = 0
    ) -> ChunkCount:
        """A copy with these counts added, and the position moved forward."""
        run = self.run
        added = ChunkResult(
            run.chunk,
            run.start,
            max(run.position, position),
            run.visible + visible,
            run.delivered + delivered,
            run.filtered + filtered,
            run.dead + dead,
        )
        return replace(self, run=added, size=self.size + size)

    def read(self, visible: int, filtered: int) -> ChunkCount:
        """A copy with what was read and filtered out in this run up to the position, as counted where it was read."""
        return replace(self, run=replace(self.run, visible=visible, filtered=filtered))

    def with_repeated(self, records: int) -> ChunkCount:
        """A copy that counts ``records`` more as possibly received twice."""
        return replace(self, repeated=self.repeated + records)

    def with_lost(self, lost: LostOffsets) -> ChunkCount:
        """A copy with these lost offsets added. They count once the position has passed them."""
        return replace(self, lost=(*self.lost, lost))

    def progress(self, epoch: int, now_ms: int, may_repeat: int = 0) -> ChunkProgress:
        """The progress for the ledger. ``may_repeat`` records may be received again, in addition to ``repeated``."""
        return ChunkProgress(
            self.chunk.number,
            self.position,
            self.before.records + self.run.visible,
            self.before.filtered + self.run.filtered,
            self.before.dead + self.run.dead,
            self.before.size + self.size,
            now_ms,
            epoch,
            tuple(one for one in self.lost if one.end <= self.position),
            self.repeated + may_repeat,
        )


class VisibleRecords(Protocol):
    """Records from a reader in offset order; all offsets are below ``position``."""

    @property
    def position(self) -> int: ...

    def __len__(self) -> int: ...

    def offsets(self) -> list[int]:
        """The offsets, in ascending order."""


class RecordTally:
    """Counts records by offset where they are read, independently of how a sink batches them.

    ``visible`` is how many were read before. ``at`` forgets what is below its offset: call it with ascending ones.
    """

    def __init__(self, visible: int = 0) -> None:
        self._below = visible
        self._items: deque[VisibleRecords] = deque()

    def add(self, item: VisibleRecords, done: int) -> None:
        """Add a batch that was read. Everything below offset ``done`` is delivered."""
        self.at(done)
        if self._items:
            # Keep only the offsets of batches that wait for longer, not their records.
            newest = self._items.pop()
            self._items.append(OffsetBatch(newest.offsets(), newest.position))
        self._items.append(item)

    def at(self, position: int) -> int:
        """How many records have an offset below this one."""
        while self._items and self._items[0].position <= position:
            self._below += len(self._items.popleft())
        return self._below + sum(bisect_left(one.offsets(), position) for one in self._items)


class OffsetBatch:
    """A batch of which only the offsets are left."""

    def __init__(self, offsets: list[int], position: int) -> None:
        self.position = position
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets)

    def offsets(self) -> list[int]:
        """The offsets, in ascending order."""
        return self._offsets


class FilteredOut(OffsetBatch):
    """Records that were read and are not wanted."""
