"""Which offsets of a plan are delivered and which are not yet, from the progress of its chunks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kgroup.groups.catchup.dead_letters import TO_SOURCE
from kgroup.groups.catchup.model import CatchupPlan, Chunk, ChunkProgress, PlanSnapshot
from kgroup.model.records import OffsetRange, merged
from kgroup.model.topic_partition import TopicPartition


def is_exactly_once(sink: str, options: Mapping[str, str]) -> bool:
    """Whether a sink never delivers a record twice. Delta and Iceberg remember which groups of chunks they have."""
    return sink in ("topic", TO_SOURCE, "files") or (
        sink == "spark" and options["format"].lower() in ("delta", "iceberg")
    )


def delivered_to(chunk: Chunk, progress: Mapping[int, ChunkProgress]) -> int:
    """The offset of the chunk below which everything is delivered; its start if nothing is."""
    known = progress.get(chunk.number)
    return chunk.start if known is None else min(max(known.delivered_to, chunk.start), chunk.end)


def unfinished(plan: CatchupPlan, progress: Mapping[int, ChunkProgress]) -> tuple[Chunk, ...]:
    """The chunks that are not delivered to their end, in their order."""
    return tuple(chunk for chunk in plan.chunks if delivered_to(chunk, progress) < chunk.end)


def undelivered(plan: CatchupPlan, progress: Mapping[int, ChunkProgress]) -> tuple[OffsetRange, ...]:
    """The undelivered offsets, in as few ranges as possible; lost offsets count as finished."""
    return tuple(merged(undelivered_range(chunk, progress) for chunk in unfinished(plan, progress)))


def undelivered_range(chunk: Chunk, progress: Mapping[int, ChunkProgress]) -> OffsetRange:
    """The undelivered offsets of a chunk: all from ``delivered_to`` on; empty if it is delivered to its end."""
    return OffsetRange(chunk.topic, chunk.partition, delivered_to(chunk, progress), chunk.end)


def delivered(plan: CatchupPlan, progress: Mapping[int, ChunkProgress]) -> tuple[OffsetRange, ...]:
    """The delivered offsets, in as few ranges as possible."""
    done = (
        OffsetRange(chunk.topic, chunk.partition, chunk.start, delivered_to(chunk, progress)) for chunk in plan.chunks
    )
    return tuple(merged(done))


def lowest_undelivered(plan: CatchupPlan, progress: Mapping[int, ChunkProgress]) -> dict[TopicPartition, int]:
    """The first undelivered offset of each partition; completely delivered partitions are not included."""
    lowest: dict[TopicPartition, int] = {}
    for pending in undelivered(plan, progress):
        lowest.setdefault(pending.tp, pending.start)
    return lowest


def started_chunks(plan: CatchupPlan, progress: Mapping[int, ChunkProgress]) -> Iterator[Chunk]:
    """The chunks of which records were, or may have been, handed to the sink.

    A sink that does not write its progress in one transaction with its records must write ``may_repeat`` before it
    delivers the first record of a chunk. So a chunk without progress is untouched for every sink.
    """
    for chunk in plan.chunks:
        known = progress.get(chunk.number)
        if known is not None and (known.delivered_to > chunk.start or known.records or known.may_repeat):
            yield chunk


def next_deadline_ms(ledgered: PlanSnapshot) -> int | None:
    """When retention may delete the first undelivered record, as known when the plan was made.

    None if everything is delivered or no deadline is known. ``catchup list`` sorts by it, earliest first.
    """
    pending = lowest_undelivered(ledgered.plan, ledgered.progress)
    deadlines = (item.retention_deadline_ms for item in ledgered.plan.ranges if item.tp in pending)
    return min((deadline for deadline in deadlines if deadline is not None), default=None)
