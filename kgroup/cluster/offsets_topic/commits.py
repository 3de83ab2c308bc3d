"""All commits of a group since a position in ``__consumer_offsets``, with their metadata, in log order.

A transactional commit counts only if its transaction was committed. If two commits are for the same partition, the
later one in the log wins, whenever its transaction ended (seen).
"""

from __future__ import annotations

import msgspec

from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.offsets_topic.events import ending_of, event_of
from kgroup.cluster.offsets_topic.records import RecordType
from kgroup.cluster.offsets_topic.scan import (
    NEWER_RECORDS,
    OUT_OF_TIME,
    TOO_MUCH,
    Entry,
    Visitor,
    partition_scans,
    scan_groups,
)
from kgroup.cluster.topics import TopicLayout
from kgroup.model.group_log import CommitWritten, TransactionEnd
from kgroup.model.groups import LogRange
from kgroup.support.errors import KgroupError, Unreachable


class CommitHistory(msgspec.Struct, frozen=True):
    """The commits from a position to ``end``, in log order; ``open`` are those of unfinished transactions.

    ``compacted`` is whether compaction removed records in between: older commits of a partition may be missing then,
    never its newest one. ``unread`` is why the log could not be read back to the position; None: it was.
    """

    commits: tuple[CommitWritten, ...]
    open: tuple[CommitWritten, ...]
    end: int | None
    compacted: bool
    unread: str | None

    @classmethod
    def unreadable(cls, reason: str) -> CommitHistory:
        return cls((), (), None, False, reason)


async def end_of_log(client: CoordinatorClient, layout: TopicLayout | KgroupError, group: str) -> int:
    """End of the group's ``__consumer_offsets`` partition: its next record comes there or later. Raises KgroupError."""
    (scan,) = await partition_scans(client, layout, [group], client.deadline)
    if isinstance(scan.log, KgroupError):
        raise Unreachable(f"{scan.name} {scan.log.message}", hint=scan.log.hint)
    return scan.log.end


async def commits_since(
    client: CoordinatorClient, layout: TopicLayout | KgroupError, group: str, position: int, budget: Deadline
) -> CommitHistory:
    """The group's commits since ``position``, as far as they are read before ``budget`` ends."""
    visitor = _AllCommits(position)
    try:
        (scan,) = await scan_groups(client, layout, {group: visitor}, budget)
    except KgroupError as error:
        return CommitHistory.unreadable(error.message)
    log = scan.log
    if isinstance(log, KgroupError):
        return CommitHistory.unreadable(f"{scan.name} {log.message}")
    if log.end < position:
        return CommitHistory.unreadable(
            f"{scan.name} ends at {log.end}, below the position {position} that was read before: "
            "the topic was recreated, or has lost records"
        )
    unread = TOO_MUCH if scan.stopped is OUT_OF_TIME else scan.stopped
    unread = unread or (NEWER_RECORDS if visitor.unknown else None)
    compacted = log.start > position or (scan.stopped is None and scan.compacted)
    return CommitHistory(tuple(reversed(visitor.commits)), tuple(reversed(visitor.open)), log.end, compacted, unread)


class _AllCommits(Visitor):
    """Keeps all commits of a group since a position, but those of aborted transactions."""

    types = (RecordType.OFFSET_COMMIT,)

    def __init__(self, position: int) -> None:
        self.commits: list[CommitWritten] = []
        self.open: list[CommitWritten] = []
        self.unknown = False
        self._position = position

    def floor(self, log: LogRange) -> int:
        return max(log.start, self._position)

    def add(self, entry: Entry) -> None:
        raw, ending = entry[0], ending_of(*entry)
        if ending is TransactionEnd.ABORTED:
            return
        event = event_of(raw, ending, {})
        if isinstance(event, CommitWritten):
            (self.open if ending is TransactionEnd.OPEN else self.commits).append(event)
        else:
            self.unknown = True
