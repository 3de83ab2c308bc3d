"""All commits of a group since a position in ``__consumer_offsets``, with their metadata, in log order.

A transactional commit counts only if its transaction was committed. If two commits are for the same partition, the
later one in the log wins, whenever its transaction ended (seen).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_partition import OFFSETS_TOPIC, partition_of
from kgroup.cluster.offsets_topic.record_batches import Marker, RawRecord
from kgroup.cluster.offsets_topic.records import OffsetCommit, RecordType, UnknownVersion, decode, key_prefix
from kgroup.cluster.offsets_topic.scan import OUT_OF_TIME, LogPartition, Window, scan_backwards
from kgroup.cluster.primitives import MalformedRecord
from kgroup.cluster.topics import TopicLayout, log_ranges
from kgroup.model.groups import Commit, LogRange
from kgroup.support.errors import KgroupError, Unreachable

_NEWER = f"{OFFSETS_TOPIC} holds records of a newer kind"


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One commit; ``commit`` is None if it was deleted or expired.

    ``timestamp_ms`` is by the broker's clock. ``log_offset`` is the record's offset in its ``__consumer_offsets``
    partition.
    """

    topic: str
    partition: int
    commit: Commit | None
    timestamp_ms: int
    log_offset: int


@dataclass(frozen=True, slots=True)
class CommitHistory:
    """The commits from a position to ``end``, in log order; ``open`` are those of unfinished transactions.

    ``compacted`` is whether compaction removed records in between: older commits of a partition may be missing then,
    never its newest one. ``unread`` is why the log could not be read back to the position; None: it was.
    """

    commits: tuple[CommitRecord, ...]
    open: tuple[CommitRecord, ...]
    end: int | None
    compacted: bool
    unread: str | None

    @classmethod
    def unreadable(cls, why: str) -> CommitHistory:
        """A history of which nothing is known, because of ``why``."""
        return cls((), (), None, False, why)


async def end_of_log(client: CoordinatorClient, layout: TopicLayout | KgroupError, group: str) -> int:
    """End of the group's ``__consumer_offsets`` partition: its next record comes there or later. Raises KgroupError."""
    place = await _place_of(client, layout, group, client.deadline)
    return _log_of(place).end


async def commits_since(
    client: CoordinatorClient, layout: TopicLayout | KgroupError, group: str, position: int, budget: Deadline
) -> CommitHistory:
    """The group's commits since ``position``, as far as they are read before ``budget`` ends."""
    try:
        place = await _place_of(client, layout, group, budget)
        log = _log_of(place)
    except KgroupError as error:
        return CommitHistory.unreadable(error.message)
    if log.end < position:
        return CommitHistory.unreadable(
            f"{OFFSETS_TOPIC}:{place.number} ends at {log.end}, below the position {position} that was noted: it was "
            "made anew, or has lost records"
        )
    start = max(log.start, position)
    trace = _Trace()
    wanted = LogPartition(place.number, place.leader, LogRange(start, log.end), place.groups)
    head = key_prefix(RecordType.OFFSET_COMMIT, group)
    stopped = await scan_backwards(client, wanted, {head}, budget, trace.add)
    unread = f"too much of {OFFSETS_TOPIC} to read in the time for it" if stopped is OUT_OF_TIME else stopped
    unread = unread or (_NEWER if trace.unknown else None)
    # Each offset is that of a record or a marker, unless compaction removed it.
    compacted = start > position or (stopped is None and trace.records < log.end - start)
    return CommitHistory(_in_order(trace.commits), _in_order(trace.open), log.end, compacted, unread)


async def _place_of(
    client: CoordinatorClient, layout: TopicLayout | KgroupError, group: str, budget: Deadline
) -> LogPartition:
    if isinstance(layout, KgroupError):
        raise Unreachable(f"{OFFSETS_TOPIC} {layout.message}", hint=layout.hint)
    number = partition_of(group, len(layout.leaders))
    asked = (OFFSETS_TOPIC, number)
    log = (await log_ranges(client, {OFFSETS_TOPIC: layout}, [asked], budget))[asked]
    return LogPartition(number, layout.leaders[number], log, (group,))


def _log_of(place: LogPartition) -> LogRange:
    if isinstance(place.log, KgroupError):
        raise Unreachable(f"{OFFSETS_TOPIC}:{place.number} {place.log.message}", hint=place.log.hint)
    return place.log


def _in_order(records: Sequence[CommitRecord]) -> tuple[CommitRecord, ...]:
    return tuple(sorted(records, key=lambda record: record.log_offset))


class _Trace:
    """What a scan has found, from the log end backwards."""

    def __init__(self) -> None:
        self.commits: list[CommitRecord] = []
        self.open: list[CommitRecord] = []
        self.records = 0
        self.unknown = False
        self._aborted: dict[int, bool] = {}

    def add(self, window: Window) -> bool:
        """Add the next older window; returns True, since the scan always continues."""
        self.records += window.records
        for entry in reversed(window.entries):
            if isinstance(entry, Marker):
                self._aborted[entry.producer_id] = entry.aborted
            else:
                self._add(entry)
        return True

    def _add(self, raw: RawRecord) -> None:
        ended = raw.producer_id is None or raw.producer_id in self._aborted
        if raw.producer_id is not None and self._aborted.get(raw.producer_id):
            return
        try:
            match decode(raw.key, raw.value):
                case OffsetCommit(topic=topic, partition=partition, value=value):
                    commit = None if value is None else Commit(value.offset, value.leader_epoch, value.metadata)
                    record = CommitRecord(topic, partition, commit, raw.timestamp_ms, raw.offset)
                    (self.commits if ended else self.open).append(record)
                case UnknownVersion() | None:
                    self.unknown = True
        except MalformedRecord:
            self.unknown = True
