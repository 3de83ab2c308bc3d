"""What a group's log tells, as values: one for each record of ``__consumer_offsets`` that concerns the group.

``cluster/offsets_log/events.py`` makes them of decoded records, ``groups/timeline`` makes a history of them. Each has
the offset and the time of its record (ms since 1970, the broker's clock when it was appended). Topic ids are resolved
to names where the cluster knows them; a deleted topic goes by its id.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

TopicPartition: TypeAlias = tuple[str, int]
Partitions: TypeAlias = frozenset[TopicPartition]

LEFT_FOR_A_MOMENT = -2
"""The member epoch of a static member of a consumer group that left and is expected back (KIP-848)."""

LOG_INCOMPLETE = "log-incomplete"
"""The code of the error that what is asked for may stand in a part of the log that was not read."""


class RebalanceProtocol(StrEnum):
    """The rebalance protocol that a group follows."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class TransactionEnd(StrEnum):
    """How the transaction of a commit ended; PLAIN commits belong to none, of OPEN ones no end is in the log yet."""

    PLAIN = "plain"
    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class GenerationMember:
    """A member of a classic generation.

    ``instance_id`` is None for a dynamic member, ``rebalance_timeout_ms`` (max.poll.interval.ms in Java) where it was
    not stored. ``topics`` and ``partitions`` are None where their bytes are not the consumer protocol's.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int | None
    topics: frozenset[str] | None
    partitions: Partitions | None


@dataclass(frozen=True, slots=True)
class GenerationWritten:
    """A classic group's record: a completed generation, an Empty group, or a static member replaced.

    ``joined_ms`` is when the coordinator had all members' JoinGroup and waited for the leader's assignment; None where
    it was not stored. ``assignor`` and ``leader`` are None while the group is Empty.
    """

    log_offset: int
    at_ms: int
    generation: int
    protocol_type: str
    assignor: str | None
    leader: str | None
    joined_ms: int | None
    members: tuple[GenerationMember, ...]


@dataclass(frozen=True, slots=True)
class GroupGone:
    """A group was deleted, or changed from this protocol to the other one."""

    log_offset: int
    at_ms: int
    protocol: RebalanceProtocol


@dataclass(frozen=True, slots=True)
class EpochWritten:
    """A consumer group's epoch was raised; ``topics_hash`` of its topics' metadata is None before Kafka 4.1."""

    log_offset: int
    at_ms: int
    epoch: int
    topics_hash: int | None


@dataclass(frozen=True, slots=True)
class MemberDetails:
    """What a member of a consumer group said of itself.

    ``classic_session_ms`` is the session timeout of one that speaks the classic protocol, None of all others.
    """

    instance_id: str | None
    client_id: str
    host: str
    topics: frozenset[str]
    pattern: str | None
    rebalance_timeout_ms: int | None
    classic_session_ms: int | None


@dataclass(frozen=True, slots=True)
class MemberWritten:
    """A member of a consumer group joined or changed; ``details`` None: it left, or was fenced."""

    log_offset: int
    at_ms: int
    member_id: str
    details: MemberDetails | None


@dataclass(frozen=True, slots=True)
class PatternResolved:
    """The broker resolved a subscribed pattern to topics; None: nobody uses it any more."""

    log_offset: int
    at_ms: int
    pattern: str
    topics: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class TargetEpochWritten:
    """A target assignment is complete; ``epoch`` None: the group is gone."""

    log_offset: int
    at_ms: int
    epoch: int | None


@dataclass(frozen=True, slots=True)
class TargetWritten:
    """What a member shall have; None: nothing any more, it left."""

    log_offset: int
    at_ms: int
    member_id: str
    partitions: Partitions | None


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    """What a member of a consumer group has; ``pending`` it still must give back. ``epoch`` -2: it left for a moment.

    ``stable`` is whether it has nothing to give back and waits for nothing.
    """

    epoch: int
    stable: bool
    partitions: Partitions
    pending: Partitions


@dataclass(frozen=True, slots=True)
class MemberAssignmentWritten:
    """A member's current assignment, which its own heartbeat brought about; None: it left, or was fenced."""

    log_offset: int
    at_ms: int
    member_id: str
    holding: MemberAssignment | None


class CommitWritten(NamedTuple):
    """A commit; ``offset`` None: it was deleted, or expired.

    A tuple, as there may be a million of them, and a frozen dataclass takes four times as long to make.

    ``producer_id`` is None for a plain commit, ``topic_id`` before Kafka 4.1, ``leader_epoch`` where the committer gave
    none. ``ended_ms`` is when its transaction ended, None where it belongs to none or has not.
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


@dataclass(frozen=True, slots=True)
class ForeignGroupWritten:
    """A group of another ``type`` (share, streams) was created or changed; not ``exists``: it went.

    It was deleted then, or became a group of consumers. What happens in such a group is not decoded.
    """

    log_offset: int
    at_ms: int
    type: str
    exists: bool


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record of the group that could not be decoded: broken, or newer than this program.

    ``record_type`` is the number that its key begins with, None where it has none.
    """

    log_offset: int
    at_ms: int
    why: str
    record_type: int | None = None


Event: TypeAlias = (
    GenerationWritten
    | GroupGone
    | EpochWritten
    | MemberWritten
    | PatternResolved
    | TargetEpochWritten
    | TargetWritten
    | MemberAssignmentWritten
    | CommitWritten
    | ForeignGroupWritten
    | Unreadable
)


@dataclass(frozen=True, slots=True)
class ScannedRange:
    """How much of the group's partition of ``__consumer_offsets`` was read: offsets [start, end).

    ``oldest_ms`` is the time of the oldest record there, of whatever group; None where there is none. From offset
    ``whole_from`` on no record is missing; below it compaction took some, None: it can't be told of any.
    ``to_log_start`` is whether nothing older is left in the log, ``stopped`` why it was not read further back (None: it
    was not needed). ``open_since_ms`` is the oldest transactional commit of the group whose transaction has not ended.
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
        """Whether these are all records that were ever written there."""
        return self.to_log_start and self.start == 0 and self.whole_from == 0
