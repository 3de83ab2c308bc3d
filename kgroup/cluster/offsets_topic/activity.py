"""Which clients use a group: its latest commits and group records in ``__consumer_offsets``, read backwards.

A consumer with ``assign()``, or a transactional producer, commits without being a member, so no response of the
coordinator shows it. Its commits come after the record that made the group Empty. The commits that members made when
they closed come before it. A group that never had members has no such record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.offsets_topic.events import ending_of, event_of
from kgroup.cluster.offsets_topic.records import RecordType
from kgroup.cluster.offsets_topic.scan import Entry, PartitionScan, Visitor, scan_groups, why_incomplete
from kgroup.cluster.topics import TopicLayout
from kgroup.model.group_log import CommitWritten, EpochWritten, GenerationWritten, GroupDeleted, TransactionEnd
from kgroup.model.groups import Activities, Activity, Group, LastActivities, LoggedCommit
from kgroup.support.errors import KgroupError
from kgroup.support.units import plural

SPAN_MS = 3_600_000
"""How far back to read for a group that has had members."""

SIMPLE_SPAN_MS = 600_000
"""How far back for a group that never had members: there a rhythm of commits matters, not a single commit."""

_TYPES = (RecordType.OFFSET_COMMIT, RecordType.GROUP_METADATA, RecordType.CONSUMER_GROUP_METADATA)


def reading_since(groups: Iterable[Group], now_ms: int) -> dict[str, int]:
    """The time in ms since which each Empty group is read. Other groups are left out: members commit to them."""
    return {
        group.name: now_ms - (SIMPLE_SPAN_MS if group.is_simple else SPAN_MS)
        for group in groups
        if group.state == "Empty"
    }


async def recent_activity(
    client: CoordinatorClient, layout: TopicLayout | KgroupError, since_ms: Mapping[str, int], budget: Deadline
) -> Activities:
    """The activity of each group since its time, as far as it is read before ``budget`` ends; one shared scan.

    No group has one if the topic cannot be read at all.
    """
    visitors = {group: _SinceEmpty(since) for group, since in since_ms.items()}
    scans = await scan_groups(client, layout, visitors, budget)
    activities = {group: visitors[group].activity(scan) for scan in scans for group in scan.groups}
    incomplete = {group for group, activity in activities.items() if not activity.complete}
    if not incomplete:
        return Activities(activities, None)
    of = "" if len(activities) == 1 else f" to {len(incomplete)} of {plural(len(activities), 'group')}"
    reason = why_incomplete(scans, incomplete, "more partition")
    known = {} if isinstance(layout, KgroupError) else activities
    return Activities(known, f"it is unknown whether another client is committing{of}: {reason}")


class _SinceEmpty(Visitor):
    """Keeps the commits of a group since a time, or since it became Empty."""

    types = _TYPES

    def __init__(self, since_ms: int) -> None:
        self._since_ms = since_ms
        self._unreadable = False
        self._emptied_at_ms: int | None = None
        self._commits: list[LoggedCommit] = []
        """The commits, newest first."""

    def activity(self, scan: PartitionScan) -> Activity:
        complete = (self.complete or scan.stopped is None) and not self._unreadable
        return Activity(self._emptied_at_ms, tuple(reversed(self._commits)), complete)

    def add(self, entry: Entry) -> None:
        if self.complete or (ending := ending_of(*entry)) is TransactionEnd.ABORTED:
            return
        match event_of(entry[0], ending, {}):
            case CommitWritten() as commit:
                self._add_commits([commit])
            case GenerationWritten(members=members) if members:
                # The log is a moment older or newer than the coordinator's answer: members made these commits.
                self.complete = True
                self._commits.clear()
            case GenerationWritten(at_ms=at_ms) | EpochWritten(at_ms=at_ms):
                # Each member that joins or leaves raises the epoch, and the group is Empty: here the last one left.
                self.complete, self._emptied_at_ms = True, at_ms
            case GroupDeleted():
                # The group was deleted here; this is a new group of the same name. (If it had changed its type, a
                # record of the new type would follow this one.)
                self.complete = True
            case _:
                # This may be the record that made the group Empty: older commits prove nothing.
                self.complete = self._unreadable = True

    def add_run(self, commits: list[CommitWritten]) -> None:
        if not self.complete:
            self._add_commits(commits)

    def _add_commits(self, commits: list[CommitWritten]) -> None:
        # All commits of a run have one time.
        if commits[0].at_ms >= self._since_ms:
            self._commits += [
                LoggedCommit(c.topic, c.partition, c.offset, c.leader_epoch, c.at_ms, c.log_offset, c.metadata)
                for c in reversed(commits)
                if c.offset is not None
            ]

    def reached(self, scan: PartitionScan) -> None:
        if scan.oldest_ms is not None and scan.oldest_ms < self._since_ms:
            self.complete = True


async def last_activities(
    client: CoordinatorClient,
    layout: TopicLayout | KgroupError,
    groups: Iterable[str],
    since_ms: int,
    budget: Deadline,
) -> LastActivities:
    """The newest commit or group record of each group since that moment, as far as it is read before ``budget`` ends.

    Compaction keeps the newest record of each key. So a group without a record since then was not active.
    """
    visitors = {group: _LastActivity(since_ms) for group in groups}
    scans = await scan_groups(client, layout, visitors, budget)
    at_ms = {
        group: visitors[group].at_ms
        for scan in scans
        for group in scan.groups
        if scan.stopped is None or visitors[group].at_ms is not None
    }
    return LastActivities(at_ms, "; ".join(dict.fromkeys(scan.stopped for scan in scans if scan.stopped)) or None)


class _LastActivity(Visitor):
    """Keeps the time of a group's newest record that is no tombstone."""

    types = _TYPES

    def __init__(self, since_ms: int) -> None:
        self.at_ms: int | None = None
        self._since_ms = since_ms

    def add(self, entry: Entry) -> None:
        if self.at_ms is None and entry[0].value is not None:
            self.at_ms = entry[0].timestamp_ms
            self.complete = True

    def reached(self, scan: PartitionScan) -> None:
        if scan.oldest_ms is not None and scan.oldest_ms < self._since_ms:
            self.complete = True
