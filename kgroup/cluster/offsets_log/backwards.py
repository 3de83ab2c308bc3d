"""A partition of ``__consumer_offsets`` read backwards from its end: windows that grow, within a time budget.

Windows of 64 offsets, then four times as many, until the reader has what it wants. The topic is read
*uncommitted*: group records are never part of a transaction, and a hanging one would hide them. Commits may be
part of one, so a window also tells how transactions ended.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.errors import KafkaError
from kafka.record.memory_records import MemoryRecords

from kgroup.cluster.broker_errors import NONE, of_topic
from kgroup.cluster.coordinator.client import Client
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.fetch import fetch_request
from kgroup.cluster.logs import TopicLayout, log_ranges
from kgroup.cluster.offsets_log.partition import OFFSETS_TOPIC, partition_of
from kgroup.errors import KgroupError, Unreachable
from kgroup.model import LogRange

_FIRST_WINDOW = 64
_WINDOW_GROWTH = 4
_FETCH_BYTES = 1024 * 1024
_KEY_HEAD_BYTES = 4


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record as it lies in the log; ``value`` None is a tombstone.

    ``producer_id`` is whose transaction it belongs to, None outside of one.
    """

    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None
    producer_id: int | None


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of a producer's transaction."""

    offset: int
    producer_id: int
    aborted: bool


@dataclass(slots=True)
class Window:
    """The wanted records of a range of offsets and the ends of transactions there, in the log's order.

    ``oldest_ms`` is the time of the first batch; None where the range holds none (it was compacted away). ``records``
    are all that it holds, wanted or not, and markers too: fewer than its offsets where it was compacted.
    """

    entries: list[RawRecord | Marker] = field(default_factory=list)
    oldest_ms: int | None = None
    records: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """A partition of the topic and the groups in it that are looked for; ``leader`` None: it has none now."""

    number: int
    leader: int | None
    log: LogRange | KgroupError
    groups: tuple[str, ...]


OUT_OF_TIME: Final = "out of time"
"""What ``scan_backwards`` returns when the budget ended first."""


async def places_of(client: Client, layout: TopicLayout, groups: Iterable[str], budget: Deadline) -> list[Place]:
    """Where the groups are kept, as the topic is laid out now."""
    by_partition: dict[int, list[str]] = {}
    for group in groups:
        by_partition.setdefault(partition_of(group, len(layout.leaders)), []).append(group)
    wanted = [(OFFSETS_TOPIC, number) for number in by_partition]
    ranges = await log_ranges(client, {OFFSETS_TOPIC: layout}, wanted, budget)
    return [
        Place(number, layout.leaders[number], ranges[OFFSETS_TOPIC, number], tuple(names))
        for number, names in by_partition.items()
    ]


async def scan_backwards(
    client: Client, place: Place, wanted: Container[bytes], budget: Deadline, visit: Callable[[Window], bool]
) -> str | None:
    """Show ``visit`` one window after the other, the newest first, until it returns False or the log's start.

    ``wanted`` are heads of keys, as of ``key_prefix``: type and group. Returns None at such an end, else why it
    ended before: OUT_OF_TIME, or what the broker said. A window that could not be read whole is not shown.
    """
    log = place.log
    if isinstance(log, KgroupError):
        return f"{OFFSETS_TOPIC}:{place.number} {log.message}"
    end, size = log.end, _FIRST_WINDOW
    while end > log.start:
        start = max(log.start, end - size)
        try:
            window = await _read_window(client, place, LogRange(start, end), wanted, budget)
        except KgroupError as error:
            return OUT_OF_TIME if budget.passed else f"{OFFSETS_TOPIC}:{place.number} {error.message}"
        if window is None:
            return OUT_OF_TIME
        if not visit(window):
            return None
        end, size = start, size * _WINDOW_GROWTH
    return None


async def _read_window(
    client: Client, place: Place, offsets: LogRange, wanted: Container[bytes], budget: Deadline
) -> Window | None:
    """None when the time is over before its end."""
    window = Window()
    position = offsets.start
    while position < offsets.end:
        if budget.passed:
            return None
        following = await _fetch(client, place, LogRange(position, offsets.end), wanted, budget, window)
        if following <= position:
            raise Unreachable("ended before its log end", code="no-leader")
        position = following
    return window


async def _fetch(
    client: Client, place: Place, offsets: LogRange, wanted: Container[bytes], budget: Deadline, window: Window
) -> int:
    """Add to the window what one answer holds of it; returns the offset behind the last record.

    Raises KgroupError where the partition can't be read, or not in time.
    """
    if place.leader is None:
        raise Unreachable("has no leader now")
    request = fetch_request({(OFFSETS_TOPIC, place.number): offsets.start}, _FETCH_BYTES)
    answer = await client.send(request, place.leader, budget.left_ms)
    if isinstance(answer, BaseException):
        raise client.failure(answer, place.leader)
    row = answer.responses[0].partitions[0]
    if row.error_code != NONE:
        raise of_topic(row.error_code, OFFSETS_TOPIC, operation="Read")
    following = offsets.start
    try:
        for batch in MemoryRecords(row.records or b""):
            if following >= offsets.end or budget.passed:
                break
            following = batch.next_offset
            if window.oldest_ms is None:
                window.oldest_ms = batch.max_timestamp
            _add(window, batch, offsets, wanted)
    except KafkaError as error:  # a compressed batch whose codec is not installed
        raise KgroupError(f"could not be decoded: {error}") from error
    return following


def key_head(key: bytes) -> bytes:
    """The type and the group that a key begins with: what ``key_prefix`` makes of them."""
    return key[: _KEY_HEAD_BYTES + int.from_bytes(key[2:_KEY_HEAD_BYTES])]


def _add(window: Window, batch: Any, offsets: LogRange, wanted: Container[bytes]) -> None:
    producer_id = batch.producer_id if batch.is_transactional else None
    control = batch.is_control_batch
    for record in batch:
        if not offsets.start <= record.offset < offsets.end:
            continue
        window.records += 1
        if control:
            if record.abort or record.commit:
                window.entries.append(Marker(record.offset, batch.producer_id, record.abort))
        elif (key := record.key) is not None and key_head(key) in wanted:
            window.entries.append(RawRecord(record.offset, record.timestamp, key, record.value, producer_id))
