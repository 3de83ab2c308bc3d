"""The past of groups: their last members and the times of their commits, from ``__consumer_offsets`` read backwards.

One scan for all groups. It ends when all is found, at the log start, or at the end of the budget. Compaction keeps the
newest record of each key. So the commits and the group's last record are always there; the generation before it only
until compaction removes it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kgroup.cluster.consumer_protocol import decode_assignment, decode_subscription
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.coordinator.offset_fetch import CommittedOffsets
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.offsets_topic.decode import usual_commit
from kgroup.cluster.offsets_topic.events import ending_of
from kgroup.cluster.offsets_topic.records import ClassicMember, GroupMetadata, RecordType
from kgroup.cluster.offsets_topic.scan import Entry, PartitionScan, Visitor, decode_or_none, scan_groups, why_incomplete
from kgroup.cluster.topics import TopicLayout
from kgroup.model.commit import Commit
from kgroup.model.group_log import (
    CommitWritten,
    EpochWritten,
    Event,
    GroupDeleted,
    RebalanceProtocol,
    TransactionEnd,
    Unreadable,
)
from kgroup.model.groups import Group
from kgroup.model.migration_facts import GroupPast, PastMember
from kgroup.model.topic_partition import TopicPartition, shared_tp
from kgroup.support.errors import KgroupError
from kgroup.support.units import plural


class PastQuery(msgspec.Struct, frozen=True):
    """What to find for a group: ``commits`` are the partitions with a committed offset, None if unknown.

    ``unread`` are partitions that have a commit that could not be read. ``had_members`` is False for a group that never
    had members: no group record is searched for. ``has_members`` is whether it has members now, which may commit during
    the scan.
    """

    name: str
    commits: frozenset[TopicPartition] | None
    had_members: bool = True
    has_members: bool = False
    unread: frozenset[TopicPartition] = frozenset()

    @classmethod
    def of(cls, group: Group) -> PastQuery:
        """The query for a group that was read with its commits."""
        commits = frozenset(p.tp for p in group.partitions if p.commit is not None)
        unread = frozenset(p.tp for p in group.partitions if p.commit is None)
        return cls(group.name, commits, not group.is_simple, group.state != "Empty", unread)

    @classmethod
    def named(cls, name: str, committed: CommittedOffsets | KgroupError | None) -> PastQuery:
        """The query for a group of which at most the commits are known."""
        if committed is None or isinstance(committed, KgroupError):
            return cls(name, None)
        return cls(name, frozenset(tp for tp, commit in committed.items() if isinstance(commit, Commit)))


class UnknownPasts(msgspec.Struct, frozen=True):
    """How many of how many groups have a past that is not completely known, and why."""

    incomplete: int
    groups: int
    reason: str

    def __str__(self) -> str:
        of = "" if self.groups == 1 else f" of {self.incomplete} of {plural(self.groups, 'group')}"
        return f"last members and times of commits{of} are not fully known: {self.reason}"


async def read_pasts(
    client: CoordinatorClient,
    layout: TopicLayout | KgroupError,
    groups: Sequence[PastQuery],
    budget: Deadline,
    *,
    to_start: bool = False,
) -> tuple[dict[str, GroupPast], UnknownPasts | None]:
    """(the past of each group as far as it was read before ``budget`` ended, why it is incomplete).

    No group has a past if the topic cannot be read at all. ``to_start`` reads on to the log start after all known
    commits are found: the broker may hide others.
    """
    visitors = {group.name: PastVisitor(group, to_start=to_start) for group in groups}
    scans = await scan_groups(client, layout, visitors, budget)
    pasts: dict[str, GroupPast] = {}
    for scan in scans:
        at_start = scan.stopped is None and not all(visitors[name].complete for name in scan.groups)
        pasts |= {name: visitors[name].past(at_start=at_start) for name in scan.groups}
    incomplete = {name for name, past in pasts.items() if not past.complete}
    if not incomplete:
        return pasts, None
    reason = why_incomplete(scans, incomplete, "more reason")
    known = {} if isinstance(layout, KgroupError) else pasts
    return known, UnknownPasts(len(incomplete), len(pasts), reason)


class PastVisitor(Visitor):
    """Keeps the past of one group. ``to_start``: the scan must reach the log start."""

    types = (RecordType.OFFSET_COMMIT, RecordType.GROUP_METADATA, RecordType.CONSUMER_GROUP_METADATA)

    def __init__(self, query: PastQuery, *, to_start: bool = False) -> None:
        self._query = query
        self._to_start = to_start
        self._seen: set[TopicPartition] = set()
        self._commits_ms: dict[TopicPartition, int] = {}
        self._topic_ids: dict[TopicPartition, str] = {}
        self._hidden: set[TopicPartition] = set()
        self._pending: set[TopicPartition] = set()
        self._group_known = not query.had_members
        self._last: GroupMetadata | None = None
        self._no_group_record = True
        self._emptied_at_ms: int | None = None
        self._unreadable = False

    def reached(self, scan: PartitionScan) -> None:
        self.complete = self._all_known and not self._to_start

    @property
    def _all_known(self) -> bool:
        commits = self._query.commits
        return self._group_known and commits is not None and len(self._commits_ms) == len(commits)

    def past(self, *, at_start: bool) -> GroupPast:
        """The result; ``at_start`` means that the log was read to its start."""
        return GroupPast(
            members=_members(self._last) if self._last else (),
            assignor=self._last.protocol if self._last else None,
            emptied_at_ms=None if self._query.has_members else self._emptied_at_ms,
            commits_ms=self._commits_ms,
            topic_ids=self._topic_ids,
            pending=tuple(sorted(self._pending)),
            hidden=tuple(sorted(self._hidden)),
            complete=(self._all_known or at_start) and not self._unreadable,
            searched=at_start and not self._unreadable,
        )

    def add(self, entry: Entry) -> None:
        record, ending = entry[0], ending_of(*entry)
        if ending is TransactionEnd.ABORTED:
            return
        # Nearly all records are commits of this kind.
        if record.value is not None and (usual := usual_commit(record.key, record.value)) is not None:
            topic, partition, offset, _, _, topic_id = usual
            self._add_commit(shared_tp(topic, partition), offset, record.timestamp_ms, topic_id, ending)
            return
        match decode_or_none(record):
            case CommitWritten() as commit:
                tp = shared_tp(commit.topic, commit.partition)
                self._add_commit(tp, commit.offset, record.timestamp_ms, commit.topic_id, ending)
            case GroupMetadata() as group:
                self._classic(group, record.timestamp_ms)
            case GroupDeleted(protocol=RebalanceProtocol.CLASSIC):
                # Older records belong to an earlier group.
                self._group_known = True
            case EpochWritten():
                # From here on the group uses the consumer protocol; older records belong to an earlier group. Each
                # member that joins or leaves raises the epoch: for an Empty group, this is when the last one left.
                self._emptied(record.timestamp_ms)
                self._group_known = True
            case GroupDeleted():
                pass
            case _:
                self._unreadable = self._unreadable or ending is not TransactionEnd.OPEN

    def add_commits(self, events: Sequence[Event]) -> None:
        """Add the commits among these events, which are in log order; nothing else, so add their other records."""
        for event in reversed(events):
            if isinstance(event, CommitWritten):
                tp = shared_tp(event.topic, event.partition)
                self._add_commit(tp, event.offset, event.at_ms, event.topic_id, event.ending)
            elif isinstance(event, Unreadable) and event.record_type == RecordType.OFFSET_COMMIT:
                self._unreadable = True

    def _add_commit(
        self, tp: TopicPartition, offset: int | None, at_ms: int, topic_id: str | None, ending: TransactionEnd
    ) -> None:
        """``offset`` is None if the commit was deleted, or has expired."""
        if ending is TransactionEnd.OPEN:
            self._pending.add(tp)
            return
        if tp in self._seen or ending is TransactionEnd.ABORTED:
            return
        self._seen.add(tp)
        if offset is None:
            return
        if self._query.commits is None or tp in self._query.commits:
            self._commits_ms[tp] = at_ms
            if topic_id is not None:
                self._topic_ids[tp] = topic_id
        elif not (self._query.has_members or tp in self._query.unread):
            # (If the group has members, one of them may have committed since the broker's answer.)
            self._hidden.add(tp)

    def _classic(self, group: GroupMetadata, at_ms: int) -> None:
        if self._group_known:
            return
        if group.members:
            self._no_group_record = False
            self._last = group
            self._group_known = True
        else:
            self._emptied(group.state_timestamp_ms or at_ms)

    def _emptied(self, at_ms: int) -> None:
        """Note when a record made the group Empty, unless a newer group record contradicts it."""
        if self._no_group_record:
            self._no_group_record = False
            self._emptied_at_ms = at_ms


def _members(group: GroupMetadata) -> tuple[PastMember, ...]:
    return tuple(_member(member, group.protocol_type) for member in group.members)


def _member(member: ClassicMember, protocol_type: str) -> PastMember:
    subscription = decode_subscription(member.subscription, protocol_type)
    assignment = decode_assignment(member.assignment, protocol_type)
    return PastMember(
        instance_id=member.instance_id,
        session_timeout_ms=member.session_timeout_ms,
        rack=(subscription.rack or None) if subscription else None,
        carries_user_data=bool(assignment and assignment.user_data),
    )
