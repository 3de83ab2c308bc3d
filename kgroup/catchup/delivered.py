"""What of a plan is delivered and what is still owed, from the progress of its chunks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kgroup.catchup.model import CatchupPlan, Chunk, ChunkProgress, Place
from kgroup.model.records import OffsetRange, merged


def delivered_to(chunk: Chunk, progress: Mapping[int, ChunkProgress]) -> int:
    """All of the chunk below this offset is delivered; its start where nothing is."""
    known = progress.get(chunk.number)
    return chunk.start if known is None else min(max(known.delivered_to, chunk.start), chunk.end)


def unfinished(plan: CatchupPlan, progress: Mapping[int, ChunkProgress]) -> tuple[Chunk, ...]:
    """The chunks that are not delivered to their end, in their order."""
    return tuple(chunk for chunk in plan.chunks if delivered_to(chunk, progress) < chunk.end)


def undelivered(plan: CatchupPlan, progress: Mapping[int, ChunkProgress]) -> tuple[OffsetRange, ...]:
    """What is still owed, in as few ranges as can be; what was found lost is not: it is over with."""
    return tuple(merged(row for chunk in unfinished(plan, progress) for row in undelivered_of(chunk, progress)))


def undelivered_of(chunk: Chunk, progress: Mapping[int, ChunkProgress]) -> Iterator[OffsetRange]:
    """What is still owed of a chunk, in order: all above ``delivered_to`` but what the target topic has kept."""
    start, known = delivered_to(chunk, progress), progress.get(chunk.number)
    for kept_start, kept_end in () if known is None else known.kept:
        if start < kept_start:
            yield OffsetRange(chunk.topic, chunk.partition, start, kept_start)
        start = max(start, kept_end)
    if start < chunk.end:
        yield OffsetRange(chunk.topic, chunk.partition, start, chunk.end)


def delivered(plan: CatchupPlan, progress: Mapping[int, ChunkProgress]) -> tuple[OffsetRange, ...]:
    """What is delivered, in as few ranges as can be."""
    done = (
        OffsetRange(chunk.topic, chunk.partition, chunk.start, delivered_to(chunk, progress)) for chunk in plan.chunks
    )
    return tuple(merged(done))


def lowest_undelivered(plan: CatchupPlan, progress: Mapping[int, ChunkProgress]) -> dict[Place, int]:
    """The first offset of each partition that is still owed; one that is delivered whole is not in it."""
    lowest: dict[Place, int] = {}
    for owed in undelivered(plan, progress):
        lowest.setdefault((owed.topic, owed.partition), owed.start)
    return lowest


def touched(plan: CatchupPlan, progress: Mapping[int, ChunkProgress]) -> Iterator[Chunk]:
    """The chunks of which something was, or may have been, handed over.

    A sink whose progress is not written in one transaction with its records has to write one with ``may_repeat`` before
    it hands over the first record of a chunk; so a chunk without any is untouched in all of them.
    """
    for chunk in plan.chunks:
        known = progress.get(chunk.number)
        if known is not None and (
            known.delivered_to > chunk.start or known.records or known.may_repeat or known.again or known.kept
        ):
            yield chunk
