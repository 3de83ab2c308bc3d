"""The evidence from which lag, status and verdict are computed, and what it shows of past log ends.

A reader fills them in and decides nothing. With ``now_ms`` alone, only the lag in records can be computed. Times are
ms since 1970: commits by the broker's clock, records by their own timestamps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from kgroup.groups.deleted_topics import DeletedTopic
from kgroup.groups.history.lost_members import LostMember
from kgroup.groups.history.roster import RosterChange
from kgroup.groups.history.runs import Run
from kgroup.groups.history.slow_polls import SlowPolls
from kgroup.groups.lag.open_commits import OpenCommit
from kgroup.groups.offset_resets import OffsetReset
from kgroup.groups.other_deployments import OtherDeployment
from kgroup.groups.passed_over import Leap
from kgroup.groups.shared_instances import SharedInstance
from kgroup.groups.successors import Successor
from kgroup.groups.timeline.steps import CrashLoop
from kgroup.model.group_log import GenerationWritten
from kgroup.model.groups import LoggedCommit
from kgroup.model.read_quota import ReadQuota
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.json_types import ExplainedEnum


class Isolation(ExplainedEnum):
    """The offset against which lag is measured."""

    READ_UNCOMMITTED = "read_uncommitted", "the log end offset"
    READ_COMMITTED = "read_committed", "the last stable offset"


class EvidenceSource(StrEnum):
    """A kind of evidence. If it is missing, ``LagEvidence.unknown`` has the reason."""

    COMMITS = "commits"
    TIME = "time"
    STATE = "state"
    RETENTION = "retention"
    SIBLINGS = "siblings"


class LogPoint(msgspec.Struct, frozen=True, order=True, gc=False):
    """A known log end at a past moment (ListOffsets by time): then the log had exactly the records below ``end``."""

    timestamp_ms: int
    end: int


class FirstUnread(msgspec.Struct, frozen=True, gc=False):
    """The first record that a consumer at the committed offset would get, read from the partition.

    ``offset`` is None if no record is left up to the log end: transaction markers, aborted and compacted records do
    not count. ``timestamp_ms`` is None if the record has none that is usable.
    """

    offset: int | None
    timestamp_ms: int | None = None


class BlockingTransaction(msgspec.Struct, frozen=True):
    """An open transaction that blocks the last stable offset (DescribeProducers, KIP-664).

    ``since_ms`` is when it began; None, like ``transactional_id``, if the broker did not report it. ``at_least``: it
    began then or earlier; ``since_ms`` is the time of its last record, as the coordinator did not report the start.
    """

    producer_id: int
    producer_epoch: int
    start_offset: int
    since_ms: int | None = None
    transactional_id: str | None = None
    at_least: bool = False


class Retention(msgspec.Struct, frozen=True, gc=False):
    """The retention settings of a partition.

    ``time_ms`` is ``retention.ms`` and ``limit_bytes`` is ``retention.bytes``; None: no limit. ``size_bytes`` is the
    present size of the partition, None: not read. ``compacted`` is whether the cleanup policy has ``compact``,
    ``deletes`` whether it has ``delete``; without ``delete`` neither time nor size deletes records.
    """

    time_ms: int | None
    limit_bytes: int | None = None
    size_bytes: int | None = None
    compacted: bool = False
    deletes: bool = True


class PartitionEvidence(msgspec.Struct, frozen=True, gc=False):
    """The evidence of one partition, in addition to its commit and its log range.

    ``commits`` are those in ``__consumer_offsets`` since the partition's last tombstone, oldest first; the newest one
    is included at any age. From ``read_since_ms`` on none is missing (None: compaction may have removed some).
    ``ends`` are past moments at which the log end is known; ``past_ends`` those of the last hour, oldest first, if a
    page draws them. ``first_unread`` is None if it was not read.
    ``last_stable`` is the last stable offset, ``open_transaction`` blocks it. ``leader`` is a broker id,
    ``leader_epoch`` its epoch (ListOffsets, latest). ``unusable_ms`` is a timestamp of its records from which no age
    follows (``model.record_times``), -1: they have none; ``ends`` are then unknown. None: they are usable.
    """

    commits: tuple[LoggedCommit, ...] = ()
    read_since_ms: int | None = None
    ends: tuple[LogPoint, ...] = ()
    past_ends: tuple[LogPoint, ...] = ()
    first_unread: FirstUnread | None = None
    last_stable: int | None = None
    open_transaction: BlockingTransaction | None = None
    retention: Retention | None = None
    leader: int | None = None
    leader_epoch: int | None = None
    unusable_ms: int | None = None


def is_by_tool(known: PartitionEvidence) -> bool:
    """Whether a reset, a release or another tool made the partition's last commit."""
    return bool(known.commits) and known.commits[-1].by_tool


class MemberFacts(msgspec.Struct, frozen=True):
    """A member's ``max.poll.interval.ms`` and session timeout, from ``__consumer_offsets``; None: unknown.

    Of members of the consumer protocol the broker decides the session timeout.
    """

    max_poll_interval_ms: int | None
    session_timeout_ms: int | None


class GroupChurn(msgspec.Struct, frozen=True):
    """The number of generations or epochs since the group's last commit, and how long the longest lasted."""

    generations: int
    longest_ms: int


class Sibling(msgspec.Struct, frozen=True):
    """Another group that reads a topic of this one: its lag there (None: unknown) and the time of its last commit.

    ``unread_since_ms`` is about when its first unread record was written: then or earlier, None: nothing is unread, or
    unknown. ``is_empty`` is whether it has no members.
    """

    group: str
    topic: str
    lag: int | None
    last_commit_ms: int | None = None
    unread_since_ms: int | None = None
    is_empty: bool = False


class QuietTopic(msgspec.Struct, frozen=True):
    """A topic on which nothing arrives; ``since_ms`` is the time of its last record."""

    topic: str
    since_ms: int


class UncommittedPartition(msgspec.Struct, frozen=True):
    """A partition with so many offsets and no commit, of a topic that an Empty group commits to."""

    tp: TopicPartition
    offsets: int


class LagEvidence(msgspec.Struct, frozen=True):
    """Everything that was read about one group, in addition to the group itself; empty or None: not read."""

    now_ms: int
    """The time of reading."""
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    partitions: Mapping[TopicPartition, PartitionEvidence] = msgspec.field(default_factory=dict)
    state_since_ms: int | None = None
    """The time since which the group is in its state."""
    emptied_ms: tuple[int, ...] = ()
    """The moments when its last member left, oldest first."""
    siblings: tuple[Sibling, ...] | None = None
    """None also if they could not be listed; some are missing if ``unknown`` has a reason for them."""
    members: Mapping[str, MemberFacts] = msgspec.field(default_factory=dict)
    """By member id."""
    generation: GenerationWritten | None = None
    """The newest of a classic group."""
    churn: GroupChurn | None = None
    crash_loops: tuple[CrashLoop, ...] = ()
    """Suspected ones: whether their records are unread, the log of the group does not show."""
    runs: tuple[Run, ...] = ()
    shared_instances: tuple[SharedInstance, ...] = ()
    """The instance ids that are taken over again and again, the worst first."""
    resets: tuple[OffsetReset, ...] = ()
    """Those of the last hour that are not undone, the newest first."""
    slow_polls: SlowPolls | None = None
    open_commits: tuple[OpenCommit, ...] = ()
    """Those that a transaction holds for a minute."""
    quotas: tuple[ReadQuota, ...] = ()
    """Those on what any client may read."""
    lost: LostMember | None = None
    """The last member that went in silence, if others continue."""
    roster: RosterChange | None = None
    """The last change of the members that lasted."""
    change_ends: Mapping[TopicPartition, tuple[int, int]] = msgspec.field(default_factory=dict)
    """The log ends when that change began, and ten minutes after it."""
    of_some: frozenset[str] = frozenset()
    """The topics to which some members subscribed while others did not."""
    leaps: tuple[Leap, ...] = ()
    """Commits far beyond the one before."""
    deleted: tuple[DeletedTopic, ...] = ()
    """The topics that were deleted while members subscribed to them, the newest first."""
    deployment: OtherDeployment | None = None
    successor: Successor | None = None
    """The group that may have replaced this one."""
    same_offset: Mapping[TopicPartition, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """The other groups that are at the group's offset or next to it, and have been late for a minute at least."""
    quiet: tuple[QuietTopic, ...] = ()
    uncommitted: tuple[UncommittedPartition, ...] = ()
    unknown: Mapping[EvidenceSource, str] = msgspec.field(default_factory=dict)
    """Why a source could not be read (``no READ on __consumer_offsets``): shown instead of a value."""

    @property
    def unusable_times(self) -> dict[TopicPartition, int]:
        """``unusable_ms`` of the partitions that have it."""
        return {tp: each.unusable_ms for tp, each in self.partitions.items() if each.unusable_ms is not None}

    def why_unknown(self, source: EvidenceSource) -> str:
        """The reason why the source is missing: that of the reader, or ``not read``."""
        return self.unknown.get(source, "not read")


class LogEnds(msgspec.Struct, frozen=True, gc=False):
    """Known ends of one log, oldest first; ends never decrease. Between two points the log is assumed to grow evenly.

    Example: with ends (0 ms, 100) and (10,000 ms, 200), the log end after 5 s was 150; a consumer that committed 130
    then had a lag of 20. Before the first point only an upper bound is known: the end of the first point.
    """

    points: tuple[LogPoint, ...]

    @classmethod
    def of(cls, points: Iterable[LogPoint], now: LogPoint) -> LogEnds:
        """Sort the known points; ``now`` is the end that was just read, and points that contradict it are dropped.

        Producers set the timestamps of records, so a point may be in the future or out of order.
        """
        consistent = [now]
        later = now
        for point in sorted(points, reverse=True):
            if point.timestamp_ms < later.timestamp_ms and point.end <= later.end:
                consistent.append(point)
                later = point
        return cls(tuple(reversed(consistent)))

    def _after(self, timestamp_ms: int) -> int:
        """The index of the first later point. There are few points, and most questions are about the newest ones."""
        points = self.points
        after = len(points)
        while after and points[after - 1].timestamp_ms > timestamp_ms:
            after -= 1
        return after

    def lag_at(self, timestamp_ms: int, committed: int) -> int | None:
        """The lag of a consumer at ``committed`` at that moment; None if too little is known.

        It is exact if lower and upper bound are equal: a commit of 100 before record 100 was written is a lag of 0.
        """
        after = self._after(timestamp_ms)
        before = self.points[after - 1] if after else None
        least_end = committed if before is None else max(committed, before.end)
        if after == len(self.points):
            return least_end - committed
        following = self.points[after]
        if following.end <= least_end:
            return least_end - committed
        if before is None:
            return None
        share = (timestamp_ms - before.timestamp_ms) / (following.timestamp_ms - before.timestamp_ms)
        return max(least_end, before.end + round(share * (following.end - before.end))) - committed

    def end_at(self, timestamp_ms: int) -> float | None:
        """The log end at that moment, between two points in proportion; None before the first point."""
        after = self._after(timestamp_ms)
        if not after:
            return None
        before = self.points[after - 1]
        if after == len(self.points):
            return before.end
        following = self.points[after]
        share = (timestamp_ms - before.timestamp_ms) / (following.timestamp_ms - before.timestamp_ms)
        return before.end + share * (following.end - before.end)

    def written_ms(self, offset: int) -> int | None:
        """When the record at ``offset`` was written, between two points in proportion; None for the log end or above.

        Below the first point it is the time of that point: the record is at least as old.
        """
        points = self.points
        after = len(points)
        while after and points[after - 1].end > offset:
            after -= 1
        if after == len(points):
            return None
        if not after:
            return points[0].timestamp_ms if len(points) > 1 else None
        before, following = points[after - 1 : after + 1]
        share = (offset - before.end) / (following.end - before.end)
        return round(before.timestamp_ms + share * (following.timestamp_ms - before.timestamp_ms))

    def growth(self, since_ms: int, least_ms: int) -> float | None:
        """Offsets per second since the newest point at or before ``since_ms``, or since the oldest point.

        None if that point is less than ``least_ms`` ago. It counts offsets, which include transaction markers.
        """
        start, now = self.points[0], self.points[-1]
        for point in self.points:
            if point.timestamp_ms > since_ms:
                break
            start = point
        passed_ms = now.timestamp_ms - start.timestamp_ms
        return None if passed_ms < max(1, least_ms) else (now.end - start.end) * 1000 / passed_ms
