"""The past of groups: their last members and the times of their commits, from ``__consumer_offsets`` read backwards.

One scan for all groups. It ends when all is found, at the log start, or at the end of the budget. Compaction keeps the
newest record of each key. So the commits and the group's last record are always there; the generation before it only
until compaction removes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kgroup.cluster.consumer_protocol import decode_assignment, decode_subscription
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.coordinator.groups import Committed
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.offsets_topic.record_batches import Marker, RawRecord, key_head
from kgroup.cluster.offsets_topic.records import (
    ClassicMember,
    ConsumerGroupMetadata,
    GroupMetadata,
    GroupMetadataValue,
    OffsetCommit,
    OffsetCommitValue,
    RecordType,
    decode,
    key_prefix,
)
from kgroup.cluster.offsets_topic.scan import OUT_OF_TIME, LogPartition, Window, places_of, scan_backwards
from kgroup.cluster.primitives import MalformedRecord
from kgroup.cluster.topics import TopicLayout, TopicPartition
from kgroup.model.groups import Commit, Group
from kgroup.model.migration_facts import GroupPast, PastMember
from kgroup.support.errors import KgroupError
from kgroup.support.units import plural

_TYPES = (RecordType.OFFSET_COMMIT, RecordType.GROUP_METADATA, RecordType.CONSUMER_GROUP_METADATA)


@dataclass(frozen=True, slots=True)
class LastGenerationQuery:
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
    def of(cls, group: Group) -> LastGenerationQuery:
        """The query for a group that was read with its commits."""
        commits = frozenset((p.topic, p.partition) for p in group.partitions if p.commit is not None)
        unread = frozenset((p.topic, p.partition) for p in group.partitions if p.commit is None)
        return cls(group.name, commits, not group.is_simple, group.state != "Empty", unread)

    @classmethod
    def named(cls, name: str, committed: Committed | KgroupError | None) -> LastGenerationQuery:
        """The query for a group of which at most the commits are known."""
        if committed is None or isinstance(committed, KgroupError):
            return cls(name, None)
        return cls(name, frozenset(place for place, commit in committed.items() if isinstance(commit, Commit)))


async def read_pasts(
    client: CoordinatorClient,
    layout: TopicLayout | KgroupError,
    groups: Sequence[LastGenerationQuery],
    budget: Deadline,
    *,
    to_start: bool = False,
) -> tuple[dict[str, GroupPast], str | None]:
    """(the past of each group as far as it was read before ``budget`` ended, why it is incomplete).

    ``to_start`` reads on to the log start after all known commits are found: the broker may hide others.
    """
    if not groups:
        return {}, None
    if isinstance(layout, KgroupError):
        return {}, _note(len(groups), len(groups), [f"{OFFSETS_TOPIC} {layout.message}"])
    wanted = {group.name: group for group in groups}
    found: dict[str, GroupPast] = {}
    reasons: list[str] = []
    places = await places_of(client, layout, wanted, budget)
    scans = (_scan(client, place, wanted, budget, to_start=to_start) for place in places)
    for pasts, reason in await client.gather(scans):
        found |= pasts
        if reason:
            reasons.append(reason)
    unknown = len(wanted) - sum(past.complete for past in found.values())
    return found, _note(unknown, len(wanted), reasons) if unknown else None


def _note(unknown: int, groups: int, reasons: Iterable[str]) -> str:
    of = "" if groups == 1 else f" of {unknown} of {plural(groups, 'group')}"
    first, *others = dict.fromkeys(reasons)
    more = f"; and {plural(len(others), 'more reason')}" if others else ""
    return f"last members and times of commits{of} are not fully known: {first}{more}"


async def _scan(
    client: CoordinatorClient,
    place: LogPartition,
    wanted: Mapping[str, LastGenerationQuery],
    budget: Deadline,
    *,
    to_start: bool,
) -> tuple[dict[str, GroupPast], str | None]:
    """(the pasts of the groups in one partition of the topic, why they are incomplete)."""
    traces = {name: _Trace(wanted[name]) for name in place.groups}
    by_head = {key_prefix(kind, name): traces[name] for name in place.groups for kind in _TYPES}
    aborted: dict[int, bool] = {}
    satisfied = False

    def visit(window: Window) -> bool:
        for entry in reversed(window.entries):
            if isinstance(entry, Marker):
                aborted[entry.producer_id] = entry.aborted
            elif entry.producer_id is not None and entry.producer_id not in aborted:
                # No marker follows, so the transaction is still open and its commits do not count.
                by_head[key_head(entry.key)].pend(entry)
            elif entry.producer_id is None or not aborted[entry.producer_id]:
                by_head[key_head(entry.key)].add(entry)
        nonlocal satisfied
        satisfied = all(trace.complete for trace in traces.values())
        return to_start or not satisfied

    stopped = await scan_backwards(client, place, by_head, budget, visit)
    at_start = stopped is None and (to_start or not satisfied)
    pasts = {name: trace.past(at_start=at_start) for name, trace in traces.items()}
    reason = f"too much of {OFFSETS_TOPIC} to read in the time for it" if stopped is OUT_OF_TIME else stopped
    if not all(past.complete for past in pasts.values()):
        reason = reason or f"{OFFSETS_TOPIC} holds records of a newer kind"
    return pasts, reason


class _Trace:
    """What a scan has found for one group, from the log end backwards."""

    def __init__(self, wanted: LastGenerationQuery) -> None:
        self._wanted = wanted
        self._seen: set[TopicPartition] = set()
        self._commits_ms: dict[TopicPartition, int] = {}
        self._topic_ids: dict[TopicPartition, str] = {}
        self._hidden: set[TopicPartition] = set()
        self._pending: set[TopicPartition] = set()
        self._group_known = not wanted.had_members
        self._last: GroupMetadataValue | None = None
        self._no_group_record = True
        self._emptied_at_ms: int | None = None
        self._unreadable = False

    @property
    def complete(self) -> bool:
        """Whether older records cannot add anything."""
        commits = self._wanted.commits
        return self._group_known and commits is not None and len(self._commits_ms) == len(commits)

    def past(self, *, at_start: bool) -> GroupPast:
        """The result; ``at_start`` means that the log was read to its start."""
        return GroupPast(
            members=_members(self._last) if self._last else (),
            assignor=self._last.protocol if self._last else None,
            emptied_at_ms=None if self._wanted.has_members else self._emptied_at_ms,
            commits_ms=self._commits_ms,
            topic_ids=self._topic_ids,
            pending=tuple(sorted(self._pending)),
            hidden=tuple(sorted(self._hidden)),
            complete=(self.complete or at_start) and not self._unreadable,
            searched=at_start and not self._unreadable,
        )

    def pend(self, record: RawRecord) -> None:
        """Note a commit of a transaction that is still open."""
        try:
            decoded = decode(record.key, record.value)
        except MalformedRecord:
            return
        match decoded:
            case OffsetCommit(topic=topic, partition=partition):
                self._pending.add((topic, partition))

    def add(self, record: RawRecord) -> None:
        """Add the next older record of the group."""
        try:
            decoded = decode(record.key, record.value)
        except MalformedRecord:
            decoded = None
        match decoded:
            case OffsetCommit(topic=topic, partition=partition, value=commit):
                place = (topic, partition)
                if place in self._seen:
                    return
                self._seen.add(place)
                if commit is None:  # it was deleted, or has expired
                    return
                if place in _or(self._wanted.commits, {place}):
                    self._stands(place, commit)
                elif not (self._wanted.has_members or place in self._wanted.unread):
                    # (If the group has members, one of them may have committed since the broker's answer.)
                    self._hidden.add(place)
            case GroupMetadata(value=group):
                self._classic(group, record.timestamp_ms)
            case ConsumerGroupMetadata(value=epoch):
                # From here on the group uses the consumer protocol; older records belong to an earlier group. Each
                # member that joins or leaves raises the epoch: for an Empty group, this is when the last one left.
                if epoch is not None:
                    self._emptied(record.timestamp_ms)
                    self._group_known = True
            case _:
                self._unreadable = True

    def _stands(self, place: TopicPartition, commit: OffsetCommitValue) -> None:
        self._commits_ms[place] = commit.commit_timestamp_ms
        if commit.topic_id is not None:
            self._topic_ids[place] = commit.topic_id

    def _classic(self, group: GroupMetadataValue | None, at_ms: int) -> None:
        if self._group_known:
            return
        if group is None:
            # The group was deleted here, or changed its protocol; older records belong to an earlier group.
            self._group_known = True
        elif group.members:
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


def _or(known: Collection[TopicPartition] | None, otherwise: Collection[TopicPartition]) -> Collection[TopicPartition]:
    return otherwise if known is None else known


def _members(group: GroupMetadataValue) -> tuple[PastMember, ...]:
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
