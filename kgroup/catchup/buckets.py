"""Buckets of keys for ``--latest-per-key``: which key is in which bucket, and the progress of chunks from them. Pure.

The newest record of a key is known only when the whole gap is read, so a chunk cannot be delivered alone. Instead keys
are distributed by their hash over buckets, whose number is frozen. A bucket is delivered completely or not at all. Its
progress has the counts for each chunk (``BucketShare``). When all buckets are delivered, so are all chunks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from zlib import crc32

from kgroup.catchup.chunks import RateLimit, assign_to_tasks, chunk_limits
from kgroup.catchup.model import (
    BucketShare,
    CatchupPlan,
    Chunk,
    ChunkProgress,
    Delivery,
    GapRange,
    LostOffsets,
    Order,
    Task,
)

MOST_BUCKETS = 1000
"""Each bucket costs a transaction or a file; a larger gap has larger buckets instead of more."""

MOST_TASKS = 64
"""Each task has a transactional id, which every takeover has to fence; with more buckets, a task has several."""

DONE = 1
"""``delivered_to`` of a delivered bucket."""


NO_TOPIC = "(buckets)"
"""The topic of a bucket that is passed as a Chunk: not a valid topic name."""


def bucket_count(ranges: Sequence[GapRange], *, parallelism: int = 1, rate: RateLimit | None = None) -> int:
    """The number of buckets, such that each fits into a transaction.

    It assumes that every record has a key of its own: 1,000,000 records of 1 KiB, 1 GB in all, are 11 buckets.
    """
    records, size = chunk_limits(ranges, parallelism, rate)
    wanted = max(
        sum(item.end - item.start if item.records is None else item.records for item in ranges) / records,
        sum(item.size or 0 for item in ranges) / size,
    )
    return min(MOST_BUCKETS, max(1, math.ceil(wanted)))


def first(plan: CatchupPlan) -> int:
    """The number of the first bucket in the ledger: buckets are numbered after the chunks."""
    return max((chunk.number + 1 for chunk in plan.chunks), default=0)


def numbers(plan: CatchupPlan, delivery: Delivery | None) -> range:
    """The numbers of all buckets; empty if every record is delivered (no ``--latest-per-key``)."""
    return range(first(plan), first(plan) + (0 if delivery is None else delivery.buckets))


def tasks(plan: CatchupPlan, buckets: int) -> tuple[Task, ...]:
    """The tasks that deliver the buckets: one per bucket, up to ``MOST_TASKS``."""
    count, start = min(buckets, MOST_TASKS), first(plan)
    return tuple(Task(task, tuple(range(start + task, start + buckets, count))) for task in range(count))


def unfinished(plan: CatchupPlan, delivery: Delivery, progress: Mapping[int, ChunkProgress]) -> tuple[int, ...]:
    """The numbers of the buckets that are not delivered."""
    return tuple(
        number for number in numbers(plan, delivery) if number not in progress or progress[number].delivered_to < DONE
    )


def bucket_of(key: bytes | None, partition: int, offset: int, buckets: int) -> int:
    """The bucket of a record, the same on every machine; without a key it is chosen by partition and offset."""
    return (crc32(key) if key is not None else partition + offset) % buckets


def as_chunk(number: int) -> Chunk:
    """A bucket as a Chunk, from 0 to ``DONE``."""
    return Chunk(number, NO_TOPIC, 0, 0, DONE)


def by_chunk(
    plan: CatchupPlan, delivery: Delivery | None, progress: Mapping[int, ChunkProgress]
) -> dict[int, ChunkProgress]:
    """The progress of a plan, with that of its chunks computed from its buckets.

    Chunks are delivered when all buckets are. Before that none is: which of their records are delivered is unknown.
    """
    own = numbers(plan, delivery)
    known = [progress[number] for number in own if number in progress]
    if not known:
        return dict(progress)
    whole = len(known) == len(own) and all(one.delivered_to >= DONE for one in known)
    newest = max(known, key=lambda one: one.at_ms)
    shares: dict[int, list[BucketShare]] = {}
    for share in chain.from_iterable(one.shares for one in known):
        shares.setdefault(share.chunk, []).append(share)
    found = {number: one for number, one in progress.items() if number in own}
    again = sum(one.redelivered for one in known)  # their chunks are unknown: the first chunk gets the count
    for chunk in plan.chunks:
        if whole or again or chunk.number in shares:
            summed = sum_shares(shares.get(chunk.number, ()), chunk.number)
            found[chunk.number] = ChunkProgress(
                chunk.number,
                chunk.end if whole else chunk.start,
                summed.records,
                summed.filtered,
                summed.dead,
                summed.size,
                newest.at_ms,
                newest.epoch,
                summed.lost,
                summed.may_repeat,
                redelivered=again,
            )
            again = 0
    return found


def sum_shares(shares: Iterable[BucketShare], chunk: int) -> BucketShare:
    """The sum of the shares of one chunk; equal lost ranges are kept once: buckets of one run repeat them."""
    summed, lost = BucketShare(chunk, 0, 0, 0, 0), dict[LostOffsets, None]()
    for share in shares:
        lost |= dict.fromkeys(share.lost)
        summed = BucketShare(
            chunk,
            summed.records + share.records,
            summed.filtered + share.filtered,
            summed.dead + share.dead,
            summed.size + share.size,
            summed.may_repeat + share.may_repeat,
        )
    return replace(summed, lost=tuple(sorted(lost, key=lambda one: (one.start, one.end))))


def progress_of(number: int, delivered_to: int, shares: Sequence[BucketShare], at_ms: int, epoch: int) -> ChunkProgress:
    """The progress of a bucket. Lost offsets are only in its shares, because a bucket has no offsets of a partition."""
    return ChunkProgress(
        number,
        delivered_to,
        sum(share.records for share in shares),
        sum(share.filtered for share in shares),
        sum(share.dead for share in shares),
        sum(share.size for share in shares),
        at_ms,
        epoch,
        (),
        sum(share.may_repeat for share in shares),
        tuple(shares),
    )


def delivered_buckets(plan: CatchupPlan, delivery: Delivery | None, progress: Mapping[int, ChunkProgress]) -> int:
    """How many buckets are delivered."""
    return sum(number in progress and progress[number].delivered_to >= DONE for number in numbers(plan, delivery))


def buckets_with_progress(plan: CatchupPlan, progress: Mapping[int, ChunkProgress]) -> Iterator[int]:
    """The buckets with a progress record, even if they were empty."""
    start = first(plan)
    return (number for number in progress if number >= start)


def with_buckets(
    plan: CatchupPlan, sink: str, options: dict[str, str], *, parallelism: int = 1, rate: RateLimit | None = None
) -> Delivery:
    """The delivery for ``--latest-per-key``. It has no order, because each key is delivered once."""
    buckets = bucket_count(plan.ranges, parallelism=parallelism, rate=rate)
    return Delivery(sink, Order.NONE, tasks(plan, buckets), options, buckets)


def assign_readers(plan: CatchupPlan, parallelism: int) -> tuple[tuple[Chunk, ...], ...]:
    """Which reader reads which chunks, in which order: by offset within a partition, so that later records are newer.

    This is not frozen: which record is the newest does not depend on it.
    """
    by_number = {chunk.number: chunk for chunk in plan.chunks}
    dealt = assign_to_tasks(plan.ranges, plan.chunks, Order.NONE, parallelism)
    lists = ([by_number[number] for number in task.chunks] for task in dealt)
    return tuple(tuple(sorted(some, key=lambda one: (one.topic, one.partition, one.start))) for some in lists)
