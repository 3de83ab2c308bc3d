"""A group's events as values: one for each record of the group in ``__consumer_offsets``.

``cluster/offsets_topic`` decodes records into these events, ``groups/timeline`` makes states and steps of them. Each
event has the offset and the time of its record (ms since 1970, the broker's clock at the append). Topic ids are
resolved to names if the cluster knows them; a deleted topic has its id as its name.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec

from kgroup.model.streams_group import Subtopology
from kgroup.model.topic_partition import PartitionValue, TopicPartition
from kgroup.support.json_types import ExplainedEnum

Partitions: TypeAlias = frozenset[TopicPartition]

LOG_INCOMPLETE = "log-incomplete"
"""Error code: the answer may be in a part of the log that was not read."""


class RebalanceProtocol(ExplainedEnum):
    """The rebalance protocol of a group."""

    CLASSIC = "classic", "the classic protocol"
    CONSUMER = "consumer", "the consumer protocol (KIP-848)"
    SHARE = "share", "the protocol of share groups (KIP-932)"
    STREAMS = "streams", "the protocol of streams groups (KIP-1071)"


class TransactionEnd(StrEnum):
    """How the transaction of a commit ended. PLAIN: there is no transaction. OPEN: the log has no end of it yet."""

    PLAIN = "plain"
    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"


_COUNTING = (TransactionEnd.PLAIN, TransactionEnd.COMMITTED)


class GenerationMember(msgspec.Struct, frozen=True):
    """A member of a classic generation.

    ``instance_id`` is None for a dynamic member. ``rebalance_timeout_ms`` (max.poll.interval.ms in Java) is None if it
    was not stored. ``topics`` and ``partitions`` are None if their bytes are not in the consumer protocol's format.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int | None
    topics: frozenset[str] | None
    partitions: Partitions | None


class GenerationWritten(msgspec.Struct, frozen=True):
    """A classic group's record: a completed generation, an Empty group, or a replaced static member.

    ``joined_ms`` is when the coordinator had all members' JoinGroup and began to wait for the leader's assignment; None
    if it was not stored. ``assignor`` and ``leader`` are None while the group is Empty.
    """

    log_offset: int
    at_ms: int
    generation: int
    protocol_type: str
    assignor: str | None
    leader: str | None
    joined_ms: int | None
    members: tuple[GenerationMember, ...]


class GroupDeleted(msgspec.Struct, frozen=True):
    """A group was deleted, or converted from ``protocol`` to another one."""

    log_offset: int
    at_ms: int
    protocol: RebalanceProtocol


class EpochWritten(msgspec.Struct, frozen=True):
    """The epoch of a consumer, share or streams group was raised.

    ``topics_hash`` (of its topics' metadata) is None before Kafka 4.1. Of a streams group, ``topology_epoch`` is that
    of the topology whose topics the broker found right, and ``settings`` those of the latest assignment, as (name,
    value): the number of standby tasks. Both are None if the record has none.
    """

    log_offset: int
    at_ms: int
    epoch: int
    topics_hash: int | None
    protocol: RebalanceProtocol = RebalanceProtocol.CONSUMER
    topology_epoch: int | None = None
    settings: tuple[tuple[str, str], ...] | None = None


class MemberDetails(msgspec.Struct, frozen=True):
    """What a member reported about itself; a share member has no timeouts, a streams member no topics.

    ``classic_session_ms`` is the session timeout of a member that speaks the classic protocol, None for others.
    The last two are None but for a streams member.
    """

    instance_id: str | None
    client_id: str
    host: str
    topics: frozenset[str]
    pattern: str | None
    rebalance_timeout_ms: int | None
    classic_session_ms: int | None
    process_id: str | None = None
    topology_epoch: int | None = None


class MemberWritten(msgspec.Struct, frozen=True):
    """A member joined or changed. ``details`` None: it left or was fenced."""

    log_offset: int
    at_ms: int
    member_id: str
    details: MemberDetails | None


class PatternResolved(msgspec.Struct, frozen=True):
    """The broker resolved a subscribed pattern to ``topics``; None: no member subscribes to the pattern any more."""

    log_offset: int
    at_ms: int
    pattern: str
    topics: frozenset[str] | None


class TargetEpochWritten(msgspec.Struct, frozen=True):
    """A target assignment is complete. ``epoch`` None: the group no longer exists."""

    log_offset: int
    at_ms: int
    epoch: int | None


class SpareTasks(msgspec.Struct, frozen=True):
    """The tasks of a streams group of which a member only keeps the state, to take them over."""

    standby: Partitions = frozenset()
    warmup: Partitions = frozenset()


class TargetWritten(msgspec.Struct, frozen=True):
    """The target assignment of one member. ``partitions`` None: the member left.

    Of a streams group, ``partitions`` are active tasks: subtopology and partition. ``spares`` is None for other groups.
    """

    log_offset: int
    at_ms: int
    member_id: str
    partitions: Partitions | None
    spares: SpareTasks | None = None


class MemberAssignment(msgspec.Struct, frozen=True):
    """The current assignment of a member; tasks of a streams group as in ``TargetWritten``.

    ``pending`` are the partitions that it still has to revoke. ``stable`` is whether it has none to revoke and waits
    for none. ``epoch`` -2: a static member that left temporarily.
    """

    epoch: int
    stable: bool
    partitions: Partitions
    pending: Partitions
    spares: SpareTasks | None = None


class MemberAssignmentWritten(msgspec.Struct, frozen=True):
    """A member's current assignment changed, in answer to its heartbeat. ``holding`` None: it left or was fenced."""

    log_offset: int
    at_ms: int
    member_id: str
    holding: MemberAssignment | None


class CommitWritten(PartitionValue, msgspec.Struct, frozen=True, gc=False):
    """A commit. ``offset`` None: it was deleted or expired.

    ``producer_id`` is None for a plain commit, ``topic_id`` before Kafka 4.1, ``leader_epoch`` if the committer gave
    none. ``ended_ms`` is when the transaction ended; None if there is no transaction, or it is still open.
    There may be a million commits, so the garbage collector does not track them.
    """

    log_offset: int
    at_ms: int
    topic: str
    partition: int
    offset: int | None
    metadata: str
    topic_id: str | None
    producer_id: int | None
    ending: TransactionEnd
    leader_epoch: int | None = None
    ended_ms: int | None = None

    @property
    def counts(self) -> bool:
        """Whether it is the group's commit: not one of an aborted transaction, or of one that is still open."""
        return self.ending in _COUNTING


class ShareStates(msgspec.Struct, frozen=True):
    """For which partitions a share group has start offsets; the offsets are in another topic.

    Those of ``initializing`` are about to be written: for the first time, or again if they are in ``initialized`` too.
    ``deleting`` are topics.
    """

    initializing: Partitions
    initialized: Partitions
    deleting: frozenset[str]


class ShareStatesWritten(msgspec.Struct, frozen=True):
    """The start offsets of a share group are, or were, written or deleted. ``states`` None: the group is deleted."""

    log_offset: int
    at_ms: int
    states: ShareStates | None


class Topology(msgspec.Struct, frozen=True):
    """The topology of a Kafka Streams application; topics that it reads by pattern are not in it."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]

    @property
    def reads(self) -> dict[str, str]:
        """The subtopology of each topic that is named in it, by id."""
        return {topic: each.id for each in self.subtopologies for topic in each.inputs}


class TopologyWritten(msgspec.Struct, frozen=True):
    """A streams group got a topology. ``topology`` None: the group is deleted."""

    log_offset: int
    at_ms: int
    topology: Topology | None


class Unreadable(msgspec.Struct, frozen=True):
    """A record of the group that could not be decoded: it is corrupt, or its format is newer than this kgroup.

    ``record_type`` is the number at the start of its key, None if there is none.
    """

    log_offset: int
    at_ms: int
    why: str
    record_type: int | None = None


Event: TypeAlias = (
    GenerationWritten
    | GroupDeleted
    | EpochWritten
    | MemberWritten
    | PatternResolved
    | TargetEpochWritten
    | TargetWritten
    | MemberAssignmentWritten
    | CommitWritten
    | ShareStatesWritten
    | TopologyWritten
    | Unreadable
)


class ScannedRange(msgspec.Struct, frozen=True):
    """How much of the group's partition of ``__consumer_offsets`` was read: offsets [start, end).

    ``oldest_ms`` is the time of the oldest record read, of any group; None if there is none. From offset
    ``whole_from`` on no record is missing; below it compaction has removed some. None: not known for any offset.
    ``to_log_start`` is whether the scan reached the start of the log. ``stopped`` is why it did not read further back,
    None if that was not needed. ``open_since_ms`` is the time of the group's oldest commit in an open transaction.
    """

    start: int
    end: int
    oldest_ms: int | None
    whole_from: int | None
    to_log_start: bool
    stopped: str | None = None
    open_since_ms: int | None = None

    @property
    def complete(self) -> bool:
        """Whether every record that was ever written to the partition has been read."""
        return self.to_log_start and self.start == 0 and self.whole_from == 0
