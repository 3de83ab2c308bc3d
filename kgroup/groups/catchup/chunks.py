"""Cuts ranges into chunks and puts chunks into tasks, deterministically: the same input, the same result. Pure."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kgroup.groups.catchup.model import Chunk, GapRange, Order, Task
from kgroup.model.topic_partition import TopicPartition

CHUNK_RECORDS = 250_000
CHUNK_BYTES = 100_000_000
"""Begin and commit of a transaction take 0.1 to 0.3 s: with much smaller chunks this would dominate."""

TRANSACTION_S = 30.0
"""The longest duration of a transaction, in seconds."""

MOST_CHUNKS = 40_000
"""A limit, because the plan's record names all chunks and must fit into one message."""

_LEAST_RECORDS = 10_000
_CHUNKS_A_TASK = 4
_TASKS_PER_SLOT = 4
"""A task costs about 0.3 s of CPU whatever it delivers; several per slot even out partitions that are slower."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """``--rate``, for the whole job: records or bytes per second; None: no limit of that kind."""

    records_per_s: float | None = None
    bytes_per_s: float | None = None


def cut_into_chunks(
    ranges: Sequence[GapRange], *, parallelism: int = 1, rate: RateLimit | None = None
) -> tuple[Chunk, ...]:
    """Chunks that cover the ranges exactly, in the order of the ranges, numbered from 0; an empty range has none.

    A chunk is about ``CHUNK_RECORDS`` records or ``CHUNK_BYTES``, whichever is smaller. It is smaller if there would be
    too few chunks for ``parallelism`` workers, or if it could not be read in ``TRANSACTION_S`` at the rate. It is
    larger if there would be more than ``MOST_CHUNKS``, except one per range. Chunks of a range differ by at most one
    offset, because the record distribution is unknown. 1,000,000 records of 100 bytes in one partition: 4 chunks.
    """
    records, size = chunk_limits(ranges, parallelism, rate)
    wanted = [_pieces(item, records, size) for item in ranges]
    surplus = sum(wanted) / MOST_CHUNKS
    chunks: list[Chunk] = []
    for item, pieces in zip(ranges, wanted, strict=True):
        count = pieces if surplus <= 1 else min(pieces, max(1, int(pieces / surplus)))
        edges = [item.start + item.offsets * edge // count for edge in range(count + 1)] if count else []
        for start, end in pairwise(edges):
            chunks.append(Chunk(item.topic, item.partition, start, end, len(chunks)))
    return tuple(chunks)


def chunk_limits(ranges: Sequence[GapRange], parallelism: int, rate: RateLimit | None) -> tuple[float, float]:
    """(records, bytes): the upper bounds for a chunk, and for a transaction."""
    records, size, parallelism = float(CHUNK_RECORDS), float(CHUNK_BYTES), max(1, parallelism)
    if parallelism > 1:
        everything = sum(_records(item) for item in ranges)
        records = min(records, max(_LEAST_RECORDS, everything / (parallelism * _CHUNKS_A_TASK)))
    share_s = TRANSACTION_S / parallelism  # each worker has its share of the rate
    if rate is not None and rate.records_per_s is not None:
        records = min(records, max(1.0, rate.records_per_s * share_s))
    if rate is not None and rate.bytes_per_s is not None:
        size = min(size, max(1.0, rate.bytes_per_s * share_s))
    return records, size


def _pieces(item: GapRange, records: float, size: float) -> int:
    """The number of chunks of a range: never more than it has offsets."""
    if item.offsets == 0:
        return 0
    wanted = max(_records(item) / records, (item.size or 0) / size)
    return min(item.offsets, max(1, math.ceil(wanted)))


def _records(item: GapRange) -> int:
    return item.offsets if item.records is None else item.records


def assign_to_tasks(
    ranges: Sequence[GapRange], chunks: Sequence[Chunk], order: Order, parallelism: int
) -> tuple[Task, ...]:
    """The tasks of a plan: every chunk is in exactly one task, and no task is empty.

    With order by partition or by key, a task has all chunks of one partition or of several, each by offset: there are
    as many tasks as partitions, at most 4 for each of ``parallelism`` workers. The largest task comes first, or it
    would finish long after the others. Without order, chunks are spread over ``parallelism`` similar tasks. 1,000
    partitions and 2 workers: 8 tasks of about 125 partitions.
    """
    weights = _weights(ranges, chunks)
    if order is Order.NONE:
        lists = _evenly([[chunk.number] for chunk in chunks], weights, parallelism)
    else:
        lists = _evenly(_by_partition(chunks), weights, max(1, parallelism) * _TASKS_PER_SLOT)
    heaviest_first = sorted(lists, key=lambda numbers: (-sum(weights[number] for number in numbers), numbers))
    return tuple(Task(number, tuple(numbers)) for number, numbers in enumerate(heaviest_first))


def group_chunks(chunks: Sequence[Chunk], size: int) -> tuple[Task, ...]:
    """Groups of ``size`` chunks, each a task that one write delivers; a group must be delivered before the next.

    The first chunk of every partition comes before the second of any: a group is read from many brokers, and has
    records of about one time.
    """
    turns = [(turn, number) for some in _by_partition(chunks) for turn, number in enumerate(some)]
    numbers = [number for _, number in sorted(turns)]
    groups = range(0, len(numbers), size)
    return tuple(Task(count, tuple(numbers[first : first + size])) for count, first in enumerate(groups))


def _by_partition(chunks: Sequence[Chunk]) -> list[list[int]]:
    by_partition: dict[TopicPartition, list[Chunk]] = {}
    for chunk in chunks:
        by_partition.setdefault(chunk.tp, []).append(chunk)
    return [[chunk.number for chunk in sorted(some, key=lambda one: one.start)] for some in by_partition.values()]


def _evenly(parts: Sequence[list[int]], weights: Mapping[int, float], tasks: int) -> list[list[int]]:
    """Each part, the numbers of its chunks, goes to the task with the smallest load so far, the heaviest part first."""
    lists: list[list[list[int]]] = [[] for _ in range(max(1, tasks))]
    loads = [(0.0, 0, number) for number in range(len(lists))]
    load_of = {part[0]: sum(weights[number] for number in part) for part in parts}
    for part in sorted(parts, key=lambda one: (-load_of[one[0]], one[0])):
        load, count, number = heapq.heappop(loads)
        lists[number].append(part)
        heapq.heappush(loads, (load + load_of[part[0]], count + 1, number))
    return [[number for part in sorted(parts) for number in part] for parts in lists if parts]


def _weights(ranges: Sequence[GapRange], chunks: Sequence[Chunk]) -> dict[int, float]:
    """The size of each chunk by its number: in bytes if the sizes of all ranges are known, else in records."""
    in_bytes = all(item.size is not None for item in ranges)
    by_partition: dict[TopicPartition, list[GapRange]] = {}
    for item in ranges:
        by_partition.setdefault(item.tp, []).append(item)
    weights: dict[int, float] = {}
    for chunk in chunks:
        own = next(item for item in by_partition[chunk.tp] if item.start <= chunk.start < item.end)
        whole = float(own.size or 0) if in_bytes else float(_records(own))
        # Never 0: chunks without bytes take time too.
        weights[chunk.number] = max(1.0, whole * chunk.offsets / own.offsets)
    return weights
