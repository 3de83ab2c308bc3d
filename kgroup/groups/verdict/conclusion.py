"""What a verdict concludes, for programs: the cause, where it is, and what it may be instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from kgroup.groups.lag.report import GroupLag
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.json_types import Count, ExplainedEnum, Offset


class Trouble(ExplainedEnum):
    """What a verdict concludes."""

    CRASH_LOOP = "crash-loop", "members come and go at a record, and none gets past it"
    REBALANCE_WAITS = "rebalance-waits", "a rebalance waits for a member"
    REBALANCING = "rebalancing", "a rebalance is under way, or a static member is away"
    NOT_READY = "not-ready", "a streams group waits for topics of its topology"
    HANGS = "process-hangs", "a member left as it did not poll, and its process may hang"
    SLOW_BATCH = "slow-batch", "a batch needs longer than max.poll.interval.ms"
    CALL_HANGS = "call-hangs", "a call of the application does not return"
    NOT_DUE = "job-not-due", "the group is a job whose next run is not due"
    NO_READER = "no-reader", "the group has no members"
    REPLACED = "replaced", "another group has taken its partitions over"
    SHARED_INSTANCE = "shared-instance", "processes have the same instance id"
    RETENTION = "retention", "retention may delete unread records before they are read"
    TRANSACTION = "open-transaction", "unread records lie behind an open transaction"
    PENDING_COMMIT = "pending-commit", "an open transaction holds offsets, and a member that starts waits for its end"
    STUCK = "stuck", "a partition is not read, or its member does not get past an offset"
    TOPIC_GONE = "topic-gone", "a topic was deleted while members subscribed to it"
    UNSUBSCRIBED = "unsubscribed", "no member subscribes to a topic with unread records"
    TWO_WRITERS = "two-writers", "two applications commit the same partition"
    TRIES_AGAIN = "tries-again", "one application goes back and tries again"
    RESET = "reset", "the offsets were moved"
    PASSED_OVER = "passed-over", "records were deleted before the group read them, and its consumer passed over them"
    READ_IN_ONE_GO = "read-in-one-go", "records were read much faster than others, and deleted since"
    LAG = "lag", "what the lagging partitions have in common, or how fast the lag changes"
    QUOTA = "quota", "a quota limits what the members may read"
    NEVER_COMMITS = "never-commits", "members process records without committing"
    NEVER_READS = "never-reads", "members do not read"
    ASSIGNMENT = "assignment", "members without partitions, or partitions without an owner"
    MEMBER_GONE = (
        "member-gone",
        "a static member is gone, and its partitions wait until its session ends",
    )
    OTHER_DEPLOYMENT = "other-deployment", "members of another deployment have partitions"
    NAMED_MEMBERS = "named-members", "one deployment whose client ids are names"
    LOST_MEMBER = "lost-member", "a member was silent for its session, and others have its partitions"
    QUERY_FAILS = "query-fails", "the next batch of a streaming query fails"
    LONG_BATCH = "long-batch", "a streaming query has planned a batch and not finished it for long"
    QUERY_STOPPED = "query-stopped", "a streaming query makes no batch, or its job is late"


class ConcludedPlace(msgspec.Struct, frozen=True):
    """A partition where the cause is."""

    topic: Annotated[str, "The topic."]
    partition: Annotated[Count, "The partition."]
    offset: Annotated[Offset | None, "Its first unread offset; null if unknown. The record may be one near it."]


class Concluded(msgspec.Struct, frozen=True):
    """What a verdict concludes, in words and for programs.

    ``alternatives`` are what it may be as well, as far as was read. ``places`` are empty for what is about the group.
    """

    text: str
    cause: Trouble
    alternatives: tuple[Trouble, ...] = ()
    places: tuple[ConcludedPlace, ...] = ()


def places_of(report: GroupLag, only: Iterable[TopicPartition]) -> tuple[ConcludedPlace, ...]:
    """These partitions, with the first unread offset of each."""
    firsts = {row.partition.tp: row.first for row in report.partitions}
    return tuple(ConcludedPlace(*tp, firsts.get(tp)) for tp in only)
