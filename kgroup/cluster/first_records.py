"""The first record of ranges of partitions: what a consumer would get at their start, and when it was written.

One small fetch per leader covers many partitions. Partitions without a result are fetched alone, with more bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from kgroup.cluster.broker_errors import NONE, topic_error
from kgroup.cluster.byte_reader import MalformedRecord
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.offsets_topic.record_batches import RecordBatch, batches, fetch_request, first_at
from kgroup.cluster.topics import Layouts, TopicLayout
from kgroup.model.groups import LogRange
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, Unreachable

_SMALL_FETCH_BYTES = 16 * 1024
_LARGEST_FETCH_BYTES = 4 * 1024 * 1024
_GROWTH = 16
_PARTITIONS_PER_REQUEST = 500

Span = tuple[TopicPartition, LogRange]


class FirstRecord(msgspec.Struct, frozen=True):
    """The first data record of a range. ``timestamp_ms`` (since 1970, the record's own) is None if it has none."""

    offset: int
    timestamp_ms: int | None


First = FirstRecord | KgroupError | None
"""None: the range holds no record, only markers, aborted records, or gaps left by compaction."""


async def first_timestamps(
    client: CoordinatorClient, layouts: Layouts, ranges: Iterable[Span]
) -> dict[Span, int | KgroupError | None]:
    """When the first record of each range was written, in ms since 1970, by the record's own timestamp.

    None: the range holds no record, only transaction markers or gaps left by compaction. If a batch uses a codec that
    is not installed, the result is the timestamp of the batch's first record, which may be slightly before the range. A
    KgroupError: the partition could not be read, or its records have no timestamp.
    """
    return {span: _time(first) for span, first in (await first_records(client, layouts, ranges)).items()}


def _time(first: First) -> int | KgroupError | None:
    if not isinstance(first, FirstRecord):
        return first
    return KgroupError("its records have no timestamp") if first.timestamp_ms is None else first.timestamp_ms


async def first_records(
    client: CoordinatorClient, layouts: Layouts, ranges: Iterable[Span], *, read_committed: bool = False
) -> dict[Span, First]:
    """The first record of each range. A partition may have several ranges, one for each group's offset.

    With ``read_committed`` records of aborted transactions do not count; a range must then end at the last stable
    offset.
    """
    results: dict[Span, First] = {}
    rounds: dict[tuple[int, int], list[Span]] = {}
    nth_of: dict[TopicPartition, int] = {}
    for span in dict.fromkeys(ranges):
        tp = span[0]
        leader = _leader(layouts.get(tp.topic), tp)
        if isinstance(leader, KgroupError):
            results[span] = leader
            continue
        # A Fetch cannot name a partition twice.
        nth_of[tp] = nth = nth_of.get(tp, -1) + 1
        rounds.setdefault((leader, nth), []).append(span)
    requests = [
        (leader, part) for (leader, _), spans in rounds.items() for part in _parts(spans, _PARTITIONS_PER_REQUEST)
    ]
    for firsts in await client.gather(
        _first_of_leader(client, leader, part, read_committed) for leader, part in requests
    ):
        results |= firsts
    return results


def _leader(layout: TopicLayout | KgroupError | None, tp: TopicPartition) -> int | KgroupError:
    if isinstance(layout, KgroupError):
        return layout
    leader = layout.leaders.get(tp.partition) if layout else None
    return Unreachable("has no leader that answers", code="no-leader") if leader is None else leader


async def _first_of_leader(
    client: CoordinatorClient, leader: int, spans: Collection[Span], read_committed: bool
) -> dict[Span, First]:
    """Fetch all partitions in one small request, then those without a result one by one with growing size."""
    results: dict[Span, First] = {}
    pending = {span: span[1].start for span in spans}
    size, alone = _SMALL_FETCH_BYTES, len(pending) == 1
    while pending:
        groups = [[span] for span in pending] if alone else [list(pending)]
        requests = [
            (leader, fetch_request({span[0]: pending[span] for span in group}, size, read_committed=read_committed))
            for group in groups
        ]
        answers = await client.send_all(requests, client.deadline.left_ms)
        retried: dict[Span, int] = {}
        for group, answer in zip(groups, answers, strict=True):
            if isinstance(answer, BaseException):
                results |= dict.fromkeys(group, client.failure(answer, leader))
                continue
            rows = {(topic.topic, row.partition_index): row for topic in answer.responses for row in topic.partitions}
            for span in group:
                result = _result(rows.get(span[0]), span, pending[span])
                if not isinstance(result, int):
                    results[span] = result
                elif alone and (result == pending[span] or client.deadline.passed):
                    results[span] = Unreachable("returned no record within the timeout", code="timed-out")
                else:
                    retried[span] = result
        # No result from a small fetch: the batch is long, or many batches that hold no record come first.
        size = min(_LARGEST_FETCH_BYTES, size * _GROWTH) if alone else size
        pending, alone = retried, True
    return results


def _result(row: Any, span: Span, start: int) -> First | int:
    """The result of one partition's response from ``start`` on; a number is the offset at which to read on."""
    (topic, _), log = span
    if row is None:
        return Unreachable("was left out of the answer")
    if row.error_code != NONE:
        return topic_error(row.error_code, topic, operation="Read")
    position, aborted = start, _Aborted(row.aborted_transactions or ())
    try:
        for batch in batches(bytes(row.records or b"")):
            if not aborted.skips(batch) and (first := _first_of(batch, log.start)) is not None:
                return first if first.offset < log.end else None
            position = max(position, batch.end)
    except MalformedRecord as error:
        return KgroupError(f"could not be decoded: {error}")
    return position if position < log.end else None


class _Aborted:
    """Recognizes batches that hold no visible record: transaction markers and batches of aborted transactions."""

    def __init__(self, transactions: Sequence[Any]) -> None:
        self._begins = sorted((row.first_offset, row.producer_id) for row in transactions)
        self._aborted: set[int] = set()

    def skips(self, batch: RecordBatch) -> bool:
        """Whether to skip this batch. Must be called for each batch in log order."""
        if batch.control:
            # A marker ends the producer's transaction, committed or aborted.
            self._aborted.discard(batch.producer_id)
            return True
        while self._begins and self._begins[0][0] < batch.end:
            self._aborted.add(self._begins.pop(0)[1])
        return batch.transactional and batch.producer_id in self._aborted


def _first_of(batch: RecordBatch, start: int) -> FirstRecord | None:
    """The batch's first record from ``start`` on. Without the batch's codec, the offset is the range's start."""
    try:
        first = first_at(batch, start)
    except MalformedRecord:
        raise
    except KgroupError:  # a codec that is not installed
        time_ms = batch.first_ms if batch.append_ms is None else batch.append_ms
        first = (max(batch.base, start), time_ms) if batch.end > start else None
    return None if first is None else FirstRecord(first[0], first[1] if first[1] >= 0 else None)


def _parts(items: list[Span], size: int) -> Iterator[list[Span]]:
    return (items[at : at + size] for at in range(0, len(items), size))
