"""Reading ``__consumer_offsets`` backwards from its end, within a time budget.

The generation and the leader of a classic group are in no answer of the coordinator, only in the last record
that it wrote of the group. Windows of 64 offsets, then four times as many, are read from the end of the
group's partition; all partitions side by side, one scan for all groups. The topic is read *uncommitted*: group
records are never part of a transaction, and a hanging one would hide them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.errors import KafkaError
from kafka.protocol.consumer import FetchRequest
from kafka.record.memory_records import MemoryRecords

from kgroup.cluster.broker_errors import NONE, of_topic
from kgroup.cluster.coordinator.client import Client
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.logs import TopicLayout, TopicPartition, log_ranges
from kgroup.cluster.offsets_log.partition import OFFSETS_TOPIC, partition_of
from kgroup.cluster.offsets_log.records import (
    GroupMetadata,
    RecordType,
    decode,
    key_prefix,
)
from kgroup.cluster.wire import MalformedRecord
from kgroup.errors import KgroupError, Unreachable
from kgroup.model import LogRange

_FIRST_WINDOW = 64
_WINDOW_GROWTH = 4
_FETCH_BYTES = 1024 * 1024
_FETCH_WAIT_MS = 100
_READ_UNCOMMITTED = 0


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record as it lies in the log; ``value`` None is a tombstone."""

    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Generation:
    """The newest generation that the log holds of a classic group; ``leader`` is None while it is empty."""

    number: int
    leader: str | None


@dataclass(frozen=True, slots=True)
class Generations:
    """What the log told about many groups; ``note`` says why some are missing, None if none is."""

    found: Mapping[str, Generation]
    note: str | None


async def latest_generations(
    client: Client, layout: TopicLayout | KgroupError, groups: Iterable[str], budget: Deadline
) -> Generations:
    """The generation and leader of each classic group, as far as they are found before ``budget`` ends."""
    wanted = set(groups)
    if not wanted:
        return Generations({}, None)
    if isinstance(layout, KgroupError):
        return Generations({}, f"generation unknown: {OFFSETS_TOPIC} {layout.message}")
    by_partition: dict[int, set[str]] = {}
    for group in wanted:
        by_partition.setdefault(partition_of(group, len(layout.leaders)), set()).add(group)
    places = [(OFFSETS_TOPIC, number) for number in by_partition]
    ranges = await log_ranges(client, {OFFSETS_TOPIC: layout}, places, budget)
    scans = [
        _scan(client, layout.leaders[number], number, ranges[OFFSETS_TOPIC, number], names, budget)
        for number, names in by_partition.items()
    ]
    found: dict[str, Generation] = {}
    notes: dict[str, None] = {}
    for generations, note in await client.gather(scans):
        found |= generations
        if note:
            notes[note] = None
    missing = len(wanted) - len(found)
    reason = "; ".join(notes) or f"no record in {OFFSETS_TOPIC}"
    note = f"generation unknown for {missing} of {len(wanted)} classic groups: {reason}" if missing else None
    return Generations(found, note)


async def _scan(
    client: Client,
    leader: int | None,
    partition: int,
    log: LogRange | KgroupError,
    groups: set[str],
    budget: Deadline,
) -> tuple[dict[str, Generation], str | None]:
    """(what was found, why the rest was not) in one partition, window by window towards its start."""
    if isinstance(log, KgroupError):
        return {}, f"{OFFSETS_TOPIC}:{partition} {log.message}"
    wanted = {key_prefix(RecordType.GROUP_METADATA, group): group for group in groups}
    found: dict[str, Generation] = {}
    seen: set[str] = set()
    end, size = log.end, _FIRST_WINDOW
    while end > log.start and len(seen) < len(groups):
        start = max(log.start, end - size)
        try:
            window = await _newest_in_window(client, leader, partition, LogRange(start, end), wanted, budget)
        except KgroupError as error:
            if not budget.passed:
                return found, f"{OFFSETS_TOPIC}:{partition} {error.message}"
            window = None
        if window is None:
            return found, "not found within the time for it (--generation-budget)"
        for group, value in window.items():
            if group not in seen:
                seen.add(group)
                if generation := _generation(value):
                    found[group] = generation
        end, size = start, size * _WINDOW_GROWTH
    return found, None


async def _newest_in_window(
    client: Client,
    leader: int | None,
    partition: int,
    window: LogRange,
    wanted: Mapping[bytes, str],
    budget: Deadline,
) -> dict[str, RawRecord] | None:
    """The newest wanted record of each group in the window; None when the time is over."""
    newest: dict[str, RawRecord] = {}
    position = window.start
    while position < window.end:
        if budget.passed:
            return None
        rest = LogRange(position, window.end)
        records, following = await _fetch(client, leader, (OFFSETS_TOPIC, partition), rest, wanted, budget)
        newest |= {wanted[record.key]: record for record in records}
        if following <= position:
            raise Unreachable("ended before its log end", code="no-leader")
        position = following
    return newest


def _generation(record: RawRecord) -> Generation | None:
    """None for a tombstone (the group was deleted or became a consumer group) and for an unknown layout."""
    try:
        match decode(record.key, record.value):
            case GroupMetadata(value=value) if value is not None:
                return Generation(value.generation, value.leader)
    except MalformedRecord:
        pass
    return None


async def _fetch(
    client: Client,
    leader: int | None,
    partition: TopicPartition,
    window: LogRange,
    wanted: Container[bytes],
    budget: Deadline,
) -> tuple[list[RawRecord], int]:
    """(records with a wanted key, the offset behind the last record) of what one answer holds of the window.

    Raises KgroupError where the partition can't be read, or not in time.
    """
    topic, number = partition
    if leader is None:
        raise Unreachable("has no leader now")
    answer = await client.send(_fetch_request(topic, number, window.start), leader, budget.left_ms)
    if isinstance(answer, BaseException):
        raise client.failure(answer, leader)
    row = answer.responses[0].partitions[0]
    if row.error_code != NONE:
        raise of_topic(row.error_code, topic, operation="Read")
    records: list[RawRecord] = []
    following = window.start
    try:
        for batch in MemoryRecords(row.records or b""):
            if following >= window.end or budget.passed:
                break
            following = batch.next_offset
            if not batch.is_control_batch:
                records.extend(_wanted_of(batch, window, wanted))
    except KafkaError as error:  # a compressed batch whose codec is not installed
        raise KgroupError(f"could not be decoded: {error}") from error
    return records, following


def _wanted_of(batch: Any, window: LogRange, wanted: Container[bytes]) -> Iterator[RawRecord]:
    for record in batch:
        if window.start <= record.offset < window.end and record.key in wanted:
            value = None if record.value is None else bytes(record.value)
            yield RawRecord(record.offset, record.timestamp, bytes(record.key), value)


def _fetch_request(topic: str, partition: int, offset: int) -> Any:
    row = FetchRequest.FetchTopic.FetchPartition(
        partition=partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=_FETCH_BYTES,
    )
    # From version 13 on, topics are named by id.
    return FetchRequest(
        max_wait_ms=_FETCH_WAIT_MS,
        min_bytes=1,
        max_bytes=_FETCH_BYTES,
        isolation_level=_READ_UNCOMMITTED,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[row])],
        max_version=12,
    )
