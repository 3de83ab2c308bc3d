"""Values that every part of kgroup uses: groups, members, partitions, log ranges, errors of single rows.

Offsets are integers, unknown is None (never -1), durations have their unit in the name. A snapshot holds what was
read at one moment and never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Annotated

import msgspec

from kgroup.model.commit import Commit
from kgroup.model.share_group import SHARE, BrokerLag, ShareGroup
from kgroup.model.streaming_query import StreamingQuery
from kgroup.model.streams_group import STREAMS, StreamsGroup
from kgroup.model.topic_partition import PartitionValue, TopicPartition
from kgroup.support.errors import ExitCode, KgroupError
from kgroup.support.json_types import Count, ExplainedEnum, Offset

DESCRIBED_TYPES = ("classic", "consumer")
"""The types of groups that verbs which change groups know."""
WITH_SHARE = (*DESCRIBED_TYPES, SHARE)
WITH_STREAMS = (*DESCRIBED_TYPES, STREAMS)
ALL_TYPES = (*WITH_SHARE, STREAMS)


class GroupSource(ExplainedEnum):
    """Where a group was read."""

    COORDINATOR = "coordinator", "the coordinator answered"
    LOG = "log", "it was read from __consumer_offsets"
    CHECKPOINT = "checkpoint", "it is a streaming query, and was read from its checkpoint"


class RangeStatus(ExplainedEnum):
    """Where a committed offset is outside the log."""

    BELOW_LOG_START = "below-log-start", "below the log start offset"
    ABOVE_LOG_END = "above-log-end", "above the log end offset"


class RowError(msgspec.Struct, frozen=True):
    """The failure of one group, topic or partition; the rest of the result is valid.

    ``exit_code`` is the command's exit code if it could show nothing at all. ``details`` are lines of evidence.
    """

    code: str
    message: str
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    hint: str | None = None
    exit_code: ExitCode = ExitCode.FAILED
    details: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        error: KgroupError,
        *,
        group: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> RowError:
        return cls(error.code, error.message, group, topic, partition, error.hint, error.exit_code, error.details)

    @property
    def subject(self) -> str:
        """The group and ``topic:partition`` that failed, as far as they are known: ``billing orders:7``."""
        tp = self.topic if self.partition is None else f"{self.topic}:{self.partition}"
        return " ".join(part for part in (self.group, tp) if part is not None)


class Coordinator(msgspec.Struct, frozen=True):
    id: Annotated[int, "The broker's id."]
    host: Annotated[str, "The broker's host."]
    port: Annotated[Count, "The broker's port."]
    rack: Annotated[str | None, "The broker's rack."]


class TopicPartitions(msgspec.Struct, frozen=True):
    """Partitions of one topic: ascending in snapshots, in their original order in decoded records."""

    topic: Annotated[str, "The topic."]
    partitions: Annotated[tuple[Count, ...], "The partitions, ascending."]


def sorted_assignment(assignment: Iterable[TopicPartitions]) -> Assignment:
    """The assignment by topic and partition, without topics that have no partition in it."""
    by_topic = sorted((item for item in assignment if item.partitions), key=lambda item: item.topic)
    return tuple(TopicPartitions(item.topic, tuple(sorted(item.partitions))) for item in by_topic)


def assignment_of(partitions: Iterable[TopicPartition] | None) -> Assignment | None:
    if partitions is None:
        return None
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(number)
    return tuple(TopicPartitions(topic, tuple(numbers)) for topic, numbers in by_topic.items())


LEFT_TEMPORARILY = -2
"""The member epoch of a static member of a consumer group that left temporarily (KIP-848)."""

REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
"""The states of a group in a rebalance: two of classic groups, two of consumer groups."""

Assignment = tuple[TopicPartitions, ...]


class Member(msgspec.Struct, frozen=True):
    """A member of a group.

    ``epoch`` is the member epoch of the consumer protocol, None in a classic group. ``protocol`` is the protocol that
    this member speaks: a group in the middle of an upgrade has both classic and consumer members. ``subscription``,
    ``assignment`` and ``target_assignment`` are None if the broker does not report them (a classic group that is
    rebalancing). ``target_assignment`` is in the coordinator's own order, which decides what the uniform assignor
    moves next; ``target`` is sorted.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    rack: str | None
    epoch: int | None
    protocol: str | None
    subscription: tuple[str, ...] | None
    subscription_regex: str | None
    assignment: Assignment | None
    target_assignment: Assignment | None

    @property
    def target(self) -> Assignment | None:
        """The target assignment, sorted by topic and partition."""
        return None if self.target_assignment is None else sorted_assignment(self.target_assignment)

    @property
    def left_temporarily(self) -> bool:
        """Whether it is a static member that left, and whose partitions are kept until its session ends (KIP-848)."""
        return self.epoch == LEFT_TEMPORARILY

    @property
    def partition_count(self) -> int:
        """The number of its assigned partitions, including those pending revocation."""
        return sum(len(item.partitions) for item in self.assignment or ())


class MemberToRemove(msgspec.Struct, frozen=True):
    """A member to be removed: by instance id if it is static, otherwise by member id."""

    member_id: str | None
    instance_id: str | None

    def __str__(self) -> str:
        return f"instance {self.instance_id}" if self.instance_id is not None else f"member {self.member_id}"


class LogRange(msgspec.Struct, frozen=True, gc=False):
    """The offsets [start, end) that a partition holds: from the log start offset to the high watermark."""

    start: Annotated[Offset, "The first offset."]
    end: Annotated[Offset, "The offset after the last one."]


class Position(msgspec.Struct, frozen=True):
    """An offset that a partition leader returned, with its leader epoch; None if the leader gave no epoch."""

    offset: int
    leader_epoch: int | None


class Positions(msgspec.Struct, frozen=True, dict=True):
    """The start and end of a log, and the position of a requested moment.

    ``at_time`` is the first record of that moment or later (ListOffsets); None if there is no such record, or no
    moment was requested.
    """

    start: Position
    end: Position
    at_time: Position | None = None

    @cached_property
    def range(self) -> LogRange:
        """The offsets without leader epochs: one value for all rows of a plan that have this log."""
        return LogRange(self.start.offset, self.end.offset)


class Partition(msgspec.Struct, frozen=True, gc=False):
    """A partition of a group: its commit, its log and its owner. ``log`` None: not read, ``error`` is the reason.

    ``tp.topic`` is ``topic`` without the call of a property, for loops over all partitions of a cluster. Of a share
    group the commit is its start offset, ``counted`` its lag, and there is no owner: ``Group.readers`` has its members.
    """

    tp: TopicPartition
    commit: Commit | None
    log: LogRange | None
    owner: Member | None
    error: str | None
    counted: BrokerLag | None = None

    @property
    def topic(self) -> str:
        return self.tp.topic

    @property
    def partition(self) -> int:
        return self.tp.partition

    @property
    def lag(self) -> int | None:
        """The number of unread offsets in the log; None without a commit or without the log's range.

        Offsets below the log start do not count: committed 5, log [100, 120) is a lag of 20. Of a share group it is
        what the broker counts.
        """
        if self.counted is not None:
            return self.counted.lag
        commit, log = self.commit, self.log
        if commit is None or log is None:
            return None
        first_unread = commit.offset if commit.offset > log.start else log.start
        return log.end - first_unread if log.end > first_unread else 0

    @property
    def out_of_range(self) -> RangeStatus | None:
        """Where the committed offset is, if it is outside the log.

        A share group's start offset may stay below the log start: what was deleted there may have been done.
        """
        commit, log = self.commit, self.log
        if commit is None or log is None:
            return None
        if commit.offset < log.start:
            return RangeStatus.BELOW_LOG_START if self.counted is None else None
        return RangeStatus.ABOVE_LOG_END if commit.offset > log.end else None


class GroupTotals(msgspec.Struct, frozen=True):
    """Sums over a group."""

    member_count: Annotated[Count | None, "Number of members; null if they cannot be read."]
    idle_member_count: Annotated[Count | None, "Members without a partition; null if members cannot be read."]
    partition_count: Annotated[Count, "Number of partitions."]
    unassigned_partition_count: Annotated[
        Count | None, "Partitions without a member; null if the assignment of a member is unknown."
    ]
    lag: Annotated[Count | None, "Unread records of the partitions whose lag is known; null if none is known."]


def is_of_consumers(protocol_type: str | None) -> bool:
    """Whether a group may be one of consumers: its protocol type is "consumer", unknown, or "" (offsets only)."""
    return protocol_type in (None, "", "consumer")


class Group(msgspec.Struct, frozen=True, dict=True):
    """A group at one moment.

    ``type`` is classic, consumer, share, streams or query. ``generation`` and ``leader`` belong to classic groups; they
    are None if they were not found in ``__consumer_offsets``. Classic groups have no ``group_epoch`` and no
    ``assignment_epoch``. ``protocol_type`` is "consumer", "" for a group that only stores offsets, or another
    framework's. ``members`` is None if this user may not see them. ``hidden_commits`` are the (topic, partition) of
    commits that are in ``__consumer_offsets`` but missing from the broker's answer, because this user may not DESCRIBE
    the topic. None: it is not known whether some are missing. Hidden commits are not in ``partitions``. ``query`` is
    the streaming query that it is, with its offsets as commits and without members; None for a group. ``share`` is what
    a share group has besides, ``streams`` what a streams group has; None for any other.
    """

    name: str
    type: str
    state: str
    protocol_type: str | None
    assignor: str | None
    coordinator: Coordinator | None
    generation: int | None
    leader: str | None
    group_epoch: int | None
    assignment_epoch: int | None
    members: tuple[Member, ...] | None
    partitions: Sequence[Partition]
    hidden_commits: tuple[TopicPartition, ...] | None = ()
    query: StreamingQuery | None = None
    share: ShareGroup | None = None
    streams: StreamsGroup | None = None

    @property
    def is_share(self) -> bool:
        """Whether it is a share group: its members share partitions, and it commits nothing."""
        return self.type == SHARE

    @property
    def is_streams(self) -> bool:
        """Whether it is a streams group: it commits as consumers do, and its state belongs to its offsets."""
        return self.type == STREAMS

    @property
    def commits_to_kafka(self) -> bool:
        """Whether its offsets and its past are in ``__consumer_offsets``: a classic, consumer or streams group."""
        return self.query is None and not self.is_share

    @cached_property
    def readers(self) -> Mapping[TopicPartition, tuple[Member, ...]]:
        """The members that each assigned partition has: one, or of a share group several."""
        readers: dict[TopicPartition, tuple[Member, ...]] = {}
        for member in self.members or ():
            for item in member.assignment or ():
                for number in item.partitions:
                    tp = TopicPartition(item.topic, number)
                    readers[tp] = (*readers.get(tp, ()), member)
        return readers

    def is_idle(self, member: Member) -> bool:
        """Whether the member has no partition, nor keeps the state of a task of a streams group."""
        if self.streams is not None and self.streams.members[member.member_id].has_tasks:
            return False
        return member.assignment is not None and not member.partition_count

    @property
    def is_of_consumers(self) -> bool:
        """Whether its members are consumers, as far as is known; not those of another framework's classic group."""
        return self.type != "classic" or is_of_consumers(self.protocol_type)

    @property
    def is_simple(self) -> bool:
        """Whether the group only stores offsets and has never had members (protocol type "")."""
        return self.type == "classic" and self.protocol_type == ""

    @property
    def is_rebalancing(self) -> bool:
        return self.state in REBALANCING

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members. If this user may not see the members, the state alone decides."""
        return self.state in ("Empty", "Dead") and not self.members

    @property
    def is_free(self) -> bool:
        """Whether no member prevents a change of its offsets: it is empty, or a streaming query."""
        return self.is_empty or self.query is not None

    @property
    def topics(self) -> set[str]:
        """The topics that it has committed to, or that are assigned to its members or subscribed."""
        subscribed = {topic for member in self.members or () for topic in member.subscription or ()}
        return subscribed | {partition.topic for partition in self.partitions}

    @cached_property
    def totals(self) -> GroupTotals:
        """Counts of members and partitions, and the summed lag of the partitions whose lag is known."""
        lags = [lag for partition in self.partitions if (lag := partition.lag) is not None]
        members = self.members
        return GroupTotals(
            member_count=None if members is None else len(members),
            idle_member_count=None if members is None else sum(map(self.is_idle, members)),
            partition_count=len(self.partitions),
            unassigned_partition_count=None
            if members is None or any(member.assignment is None for member in members)
            else sum(partition.owner is None for partition in self.partitions)
            if not self.is_share
            else sum(partition.tp not in self.readers for partition in self.partitions),
            lag=sum(lags) if lags else None,
        )


class ListedGroup(msgspec.Struct, frozen=True):
    """A line of ``kgroup list``. ``members`` is a count, None for group types that kgroup cannot describe."""

    name: str
    type: str
    state: str
    protocol_type: str | None
    coordinator: Coordinator | None
    members: int | None = None


class LoggedCommit(PartitionValue, msgspec.Struct, frozen=True, gc=False):
    """A commit as ``__consumer_offsets`` holds it.

    ``leader_epoch`` is None if the committer gave none. ``timestamp_ms`` is the broker's clock, ``log_offset`` the
    offset of the record in its partition of ``__consumer_offsets``. ``metadata`` may identify the committer.
    ``by_tool`` is whether a reset, the release of a catch-up or another tool made it: then no record was read.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    timestamp_ms: int
    log_offset: int
    metadata: str = ""
    by_tool: bool = False


class Activity(msgspec.Struct, frozen=True):
    """The commits of an Empty group since it became Empty.

    ``emptied_at_ms`` is the time of the record that made it Empty, None if that record was not found in the scanned
    range. ``commits`` are those after that record (or in the range), in log order, without deleted commits and
    commits of aborted transactions. ``complete`` is whether no commit is missing.
    """

    emptied_at_ms: int | None
    commits: tuple[LoggedCommit, ...]
    complete: bool


class Activities(msgspec.Struct, frozen=True):
    """The activity of many groups, by name. ``note`` names how many are unknown; None if all are known."""

    by_group: Mapping[str, Activity]
    note: str | None


class LastActivities(msgspec.Struct, frozen=True):
    """The last activity of groups (ms since 1970), by name; None: no activity within the requested time.

    The activity of a group that is missing here is unknown; ``note`` gives the reason.
    """

    by_group: Mapping[str, int | None]
    note: str | None
