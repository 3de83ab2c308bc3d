"""Read a partition of ``__consumer_offsets`` backwards from its end, in growing windows, within a time budget.

The first window has 64 offsets. Each next one is four times as long while windows hold few records, because
compaction leaves few of billions of offsets. The read ends when the caller has what it needs. The topic is read
*uncommitted*: group records are never part of a transaction, and a hanging one would hide them. Commits may be part of
one, so a window also holds the markers that end transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from kgroup.cluster.broker_errors import NONE, topic_error
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.fetch import fetch_request
from kgroup.cluster.group_partition import OFFSETS_TOPIC, partition_of
from kgroup.cluster.offsets_topic.record_batches import BatchMatches, KeyFilter, Marker, RawRecord, batches, found_in
from kgroup.cluster.topics import TopicLayout, log_ranges
from kgroup.model.groups import LogRange
from kgroup.support.errors import KgroupError, Unreachable

_FIRST_WINDOW = 64
_WINDOW_GROWTH = 4
_FULL_WINDOW = 16_384
"""A window with this many records does not grow further: a window cut off by the budget is lost."""

_FETCH_BYTES = 1024 * 1024


@dataclass(slots=True)
class Window:
    """The wanted records in a range of offsets, and the ends of transactions there, in log order.

    ``oldest_ms`` is the time of the first batch; None if compaction removed all batches. ``records`` counts all
    records, wanted or not, and markers; compaction makes it less than the number of offsets. No record is missing from
    offset ``whole_from`` on. ``following`` is the offset after the last record that was read.
    """

    offsets: LogRange
    entries: list[RawRecord | Marker] = field(default_factory=list)
    oldest_ms: int | None = None
    records: int = 0
    whole_from: int = 0
    following: int = 0

    def __post_init__(self) -> None:
        self.whole_from = self.following = self.offsets.start

    def add(self, found: BatchMatches) -> None:
        """Add the matches of the next batch."""
        self.entries += found.entries
        self.records += found.records
        self.following = found.following
        if found.gap_until is not None:
            self.whole_from = found.gap_until


@dataclass(frozen=True, slots=True)
class LogPartition:
    """A partition of the topic and the groups to search in it; ``leader`` None: it has no leader now."""

    number: int
    leader: int | None
    log: LogRange | KgroupError
    groups: tuple[str, ...]


@dataclass(slots=True)
class ByteBudget:
    """The limit on fetched bytes (None: no limit) and the bytes fetched; shared by all partitions of one scan."""

    most: int | None = None
    fetched: int = 0

    @property
    def spent(self) -> bool:
        """Whether the limit is reached."""
        return self.most is not None and self.fetched >= self.most


OUT_OF_TIME: Final = "out of time"
"""What ``scan_backwards`` returns if the time budget ended first."""

OUT_OF_BYTES: Final = "out of bytes"
"""What ``read_backwards`` returns if the limit on bytes was reached."""


async def places_of(
    client: CoordinatorClient, layout: TopicLayout, groups: Iterable[str], budget: Deadline
) -> list[LogPartition]:
    """The partitions that hold the groups, with their present leaders and log bounds."""
    by_partition: dict[int, list[str]] = {}
    for group in groups:
        by_partition.setdefault(partition_of(group, len(layout.leaders)), []).append(group)
    wanted = [(OFFSETS_TOPIC, number) for number in by_partition]
    ranges = await log_ranges(client, {OFFSETS_TOPIC: layout}, wanted, budget)
    return [
        LogPartition(number, layout.leaders[number], ranges[OFFSETS_TOPIC, number], tuple(names))
        for number, names in by_partition.items()
    ]


async def scan_backwards(
    client: CoordinatorClient,
    place: LogPartition,
    wanted: Collection[bytes],
    budget: Deadline,
    visit: Callable[[Window], bool],
) -> str | None:
    """Pass one window after the other to ``visit``, newest first, until it returns False or to the log start.

    ``wanted`` are key heads as made by ``key_prefix``: type and group. Returns None if it ended that way, else the
    reason: OUT_OF_TIME, or the broker's error. A window that could not be read completely is not passed on.
    """
    if isinstance(place.log, KgroupError):
        return f"{OFFSETS_TOPIC}:{place.number} {place.log.message}"
    try:
        return await read_backwards(client, place, wanted, budget, visit)
    except KgroupError as error:
        return OUT_OF_TIME if budget.passed else f"{OFFSETS_TOPIC}:{place.number} {error.message}"


async def read_backwards(
    client: CoordinatorClient,
    place: LogPartition,
    wanted: Collection[bytes],
    budget: Deadline,
    visit: Callable[[Window], bool],
    allowed: ByteBudget | None = None,
) -> str | None:
    """The same, but raises KgroupError for the broker's error; OUT_OF_BYTES if ``allowed`` is used up."""
    log = place.log
    if isinstance(log, KgroupError):
        raise log
    end, size, looked_for = log.end, _FIRST_WINDOW, KeyFilter(wanted)
    while end > log.start:
        window = Window(LogRange(max(log.start, end - size), end))
        stopped = await _read_window(client, place, window, looked_for, budget, allowed)
        if stopped is not None:
            return stopped
        if not visit(window):
            return None
        end = window.offsets.start
        if window.records < _FULL_WINDOW:
            size *= _WINDOW_GROWTH
    return None


async def _read_window(
    client: CoordinatorClient,
    place: LogPartition,
    window: Window,
    wanted: KeyFilter,
    budget: Deadline,
    allowed: ByteBudget | None,
) -> str | None:
    """Read the window. Returns why it ended early; None: it did not."""
    position, end = window.offsets.start, window.offsets.end
    while position < end:
        if budget.passed:
            return OUT_OF_TIME
        if allowed is not None and allowed.spent:
            return OUT_OF_BYTES
        following = await _fetch(client, place, LogRange(position, end), wanted, budget, window, allowed)
        if following <= position:
            if budget.passed:
                return OUT_OF_TIME
            raise Unreachable("ended before its log end", code="no-leader")
        position = following
    if window.following < end:
        window.whole_from = end
    return None


async def _fetch(
    client: CoordinatorClient,
    place: LogPartition,
    offsets: LogRange,
    wanted: KeyFilter,
    budget: Deadline,
    window: Window,
    allowed: ByteBudget | None,
) -> int:
    """Add one response's records to the window; returns the offset after the last record.

    Raises KgroupError if the partition can't be read, or not in time.
    """
    if place.leader is None:
        raise Unreachable("has no leader now")
    request = fetch_request({(OFFSETS_TOPIC, place.number): offsets.start}, _FETCH_BYTES)
    answer = await client.send(request, place.leader, budget.left_ms)
    if isinstance(answer, BaseException):
        raise client.failure(answer, place.leader)
    row = answer.responses[0].partitions[0]
    if row.error_code != NONE:
        raise topic_error(row.error_code, OFFSETS_TOPIC, operation="Read")
    raw = row.records or b""
    if allowed is not None:
        allowed.fetched += len(raw)
    following = offsets.start
    for batch in batches(raw):
        if following >= offsets.end or budget.passed:
            break
        following = batch.end
        if window.oldest_ms is None and batch.base < offsets.end:
            window.oldest_ms = batch.newest_ms
        window.add(found_in(batch, offsets, wanted, window.following))
    return following
