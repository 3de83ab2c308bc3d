"""What has to be read of a group before its lag can be judged, as values; anything may be missing.

A reader fills these in and decides nothing. ``LagEvidence()`` knows nothing, and then the lag in records is all there
is to say. Times are ms since 1970: commits by the broker's clock, records by their own timestamps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kgroup.model.groups import LoggedCommit

TopicPartition = tuple[str, int]


class Isolation(StrEnum):
    """Which end of a log a lag is measured against: the high watermark, or the last stable offset."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class Source(StrEnum):
    """What evidence is about; where it is missing, ``LagEvidence.unknown`` says why."""

    COMMITS = "commits"
    TIME = "time"
    STATE = "state"
    RETENTION = "retention"
    SIBLINGS = "siblings"


@dataclass(frozen=True, slots=True)
class LogPoint:
    """The log ended at ``end`` at that moment: records below it were there, and no others (ListOffsets by time)."""

    timestamp_ms: int
    end: int


@dataclass(frozen=True, slots=True)
class FirstUnread:
    """The first record that a consumer at the committed offset would get, read from the partition.

    ``offset`` is None where none is left up to the log's end: transaction markers, aborted and compacted records
    are no records. ``timestamp_ms`` is None where the record carries none.
    """

    offset: int | None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BlockingTransaction:
    """A transaction that keeps the last stable offset back (DescribeProducers, KIP-664).

    ``since_ms`` is when it began; None, like ``transactional_id``, where the broker did not tell. ``at_least`` is
    whether it began then or earlier: its coordinator did not tell, and that is when it was last written to.
    """

    producer_id: int
    producer_epoch: int
    start_offset: int
    since_ms: int | None = None
    transactional_id: str | None = None
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class Retention:
    """What takes records from a partition's start.

    ``time_ms`` is ``retention.ms`` and ``limit_bytes`` is ``retention.bytes``, None: without limit. ``size_bytes``
    is what the partition holds now, None: not read. ``compacted`` is whether the cleanup policy has ``compact``, and
    ``deletes`` whether it has ``delete``; without that, neither time nor size takes anything.
    """

    time_ms: int | None
    limit_bytes: int | None = None
    size_bytes: int | None = None
    compacted: bool = False
    deletes: bool = True


@dataclass(frozen=True, slots=True)
class PartitionEvidence:
    """What is known of one partition beside its commit and its log's range.

    ``commits`` are those of ``__consumer_offsets`` since the partition's last tombstone, oldest first; the newest is
    in it however old. ``read_since_ms`` is from when on none of them is missing (None: some may be, by compaction).
    ``ends`` are past moments at which the log's end is known. ``first_unread`` is None where nothing was read.
    ``last_stable`` is the last stable offset, ``open_transaction`` who keeps it back. ``leader`` is a broker's id.
    """

    commits: tuple[LoggedCommit, ...] = ()
    read_since_ms: int | None = None
    ends: tuple[LogPoint, ...] = ()
    first_unread: FirstUnread | None = None
    last_stable: int | None = None
    open_transaction: BlockingTransaction | None = None
    retention: Retention | None = None
    leader: int | None = None


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """What ``__consumer_offsets`` tells of a member: ``max.poll.interval.ms``, session timeout; None: unknown."""

    max_poll_interval_ms: int | None
    session_timeout_ms: int | None


@dataclass(frozen=True, slots=True)
class Churn:
    """The generations or epochs since the group's last commit: how many, and how long the longest lasted."""

    generations: int
    longest_ms: int


@dataclass(frozen=True, slots=True)
class Sibling:
    """Another group that reads a topic of this one: its lag there (None: unknown), and when it last committed."""

    group: str
    topic: str
    lag: int | None
    last_commit_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LagEvidence:
    """All that was read about one group beside the group itself.

    ``now_ms`` is when. ``state_since_ms`` is since when the group is in its state. ``siblings`` are None where they
    were not asked for or could not be listed; they are not all where ``unknown`` has a reason for them. ``members`` is
    by member id. ``unknown`` has a reason for each source that could not be read (``no READ on __consumer_offsets``),
    and is what the verdict says in its place.
    """

    now_ms: int
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    partitions: Mapping[TopicPartition, PartitionEvidence] = field(default_factory=dict)
    state_since_ms: int | None = None
    siblings: tuple[Sibling, ...] | None = None
    members: Mapping[str, MemberFacts] = field(default_factory=dict)
    churn: Churn | None = None
    unknown: Mapping[Source, str] = field(default_factory=dict)

    def why_unknown(self, source: Source) -> str:
        """Why nothing is known of it: the reader's reason, or that nobody read it."""
        return self.unknown.get(source, "not read")
