"""The JSON of ``kgroup describe``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec

from kgroup.groups.lag.status import LagStatus
from kgroup.model.groups import (
    Coordinator,
    Group,
    GroupSource,
    GroupTotals,
    Member,
    Partition,
    RangeStatus,
    TopicPartitions,
)
from kgroup.model.pending_catchup import PendingCatchup
from kgroup.model.share_group import ShareGroup, ShareSettings
from kgroup.model.streaming_query import QueryBatch, StreamingQuery
from kgroup.model.streams_group import MemberTasks, StreamsGroup, TaskCopies, TaskRole
from kgroup.model.topic_partition import PartitionName, partition_names
from kgroup.support.instants import rfc3339
from kgroup.support.json_types import Bytes, Count, Instant, Ms, Offset

if TYPE_CHECKING:
    from kgroup.groups.lag.report import PartitionLag
    from kgroup.groups.state_from_log import LoggedState
    from kgroup.groups.verdict.group import GroupVerdict


class MemberDocument(msgspec.Struct, frozen=True):
    """A member of a group."""

    member_id: Annotated[str, "The member id."]
    instance_id: Annotated[str | None, "group.instance.id of a static member."]
    client_id: Annotated[str, "The client id."]
    host: Annotated[str, "The member's address."]
    rack: Annotated[str | None, "The member's rack."]
    member_epoch: Annotated[int | None, "The member epoch; null in a classic group."]
    left_temporarily: Annotated[
        bool, "Whether it is a static member that left and whose session has not ended (KIP-848)."
    ]
    protocol: Annotated[str | None, "The rebalance protocol that the member uses."]
    subscription: Annotated[tuple[str, ...] | None, "Topics that the member subscribes to; null if unknown."]
    subscription_regex: Annotated[str | None, "The regular expression that the member subscribes with."]
    assignment: Annotated[tuple[TopicPartitions, ...] | None, "Partitions that the member has; null if unknown."]
    target_assignment: Annotated[
        tuple[TopicPartitions, ...] | None, "Partitions that the member shall have; null in a classic group."
    ]


class DescribedPartition(msgspec.Struct, frozen=True, gc=False):
    """A partition of a group."""

    topic: Annotated[str, "The topic."]
    partition: Annotated[Count, "The partition."]
    committed: Annotated[Offset | None, "The committed offset, or the start offset of a share group; null without."]
    leader_epoch: Annotated[int | None, "The leader epoch of the commit."]
    metadata: Annotated[str | None, "The metadata of the commit."]
    log_start: Annotated[Offset | None, "The log start offset."]
    log_end: Annotated[Offset | None, "The log end offset."]
    lag: Annotated[Count | None, "Unread records; null if unknown."]
    time_lag_ms: Annotated[
        Ms | None, "Age of the first unread record; 0 if nothing is unread, null if unknown or without a verdict."
    ]
    time_lag_at_most_ms: Annotated[Ms | None, "An upper bound of that age, where a share group has no exact one."]
    last_commit_at: Annotated[Instant | None, "When the offset was committed; null if unknown or without a verdict."]
    range_status: Annotated[
        str | None, RangeStatus, "Where the committed offset is outside the log; null if it is within."
    ]
    lag_status: Annotated[str | None, LagStatus, "Burrow's status; null if unknown or without a verdict."]
    member_id: Annotated[str | None, "The member that the partition is assigned to."]
    client_id: Annotated[str | None, "The client id of that member."]
    host: Annotated[str | None, "The address of that member."]
    member_count: Annotated[
        Count | None, "Members that the partition is assigned to, several in a share group; null if unknown."
    ]
    retried_count: Annotated[
        Count | None, "Offsets that a share group got and gave back, as far as its state has them; null if unknown."
    ]
    last_attempt_count: Annotated[Count | None, "Those of them that are archived if their next delivery fails."]
    archived_count: Annotated[
        Count | None,
        "Offsets that a share group does not get again, as far as its state has them; markers are among them.",
    ]
    error_code: Annotated[str | None, "Why the partition or its commit cannot be read, as a code."]

    @classmethod
    def of(
        cls, partition: Partition, group: Group, row: PartitionLag | None = None, logged_ms: int | None = None
    ) -> DescribedPartition:
        """``row`` is its measurement for the verdict, ``logged_ms`` the time of its commit in the log."""
        commit, log, owner = partition.commit, partition.log, partition.owner
        share = group.share
        state = share.deliveries.partitions.get(partition.tp) if share and share.deliveries else None
        return cls(
            topic=partition.topic,
            partition=partition.partition,
            committed=commit.offset if commit else None,
            leader_epoch=commit.leader_epoch if commit else None,
            metadata=commit.metadata if commit else None,
            log_start=log.start if log else None,
            log_end=log.end if log else None,
            lag=partition.lag,
            time_lag_ms=row.time_lag_ms if row else None,
            time_lag_at_most_ms=row.time_lag_at_most_ms if row else None,
            last_commit_at=rfc3339(row.last_commit_ms if row else logged_ms),
            range_status=partition.out_of_range,
            lag_status=row.status.code if row and row.status is not None else None,
            member_id=owner.member_id if owner else None,
            client_id=owner.client_id if owner else None,
            host=owner.host if owner else None,
            member_count=None if group.members is None else len(group.readers.get(partition.tp, ())),
            retried_count=state.retried if state else None,
            last_attempt_count=state.last_attempts(share.delivery_limit) if state and share else None,
            archived_count=state.archived if state else None,
            error_code=partition.error,
        )


class BatchDocument(msgspec.Struct, frozen=True):
    """A batch of a streaming query."""

    number: Annotated[Count, "Its number."]
    planned_at: Annotated[Instant | None, "When Spark planned it, by the clock of the query's driver."]
    done_at: Annotated[Instant | None, "When Spark finished it; null while it is not done."]

    @classmethod
    def of(cls, batch: QueryBatch | None) -> BatchDocument | None:
        return None if batch is None else cls(batch.number, rfc3339(batch.planned_ms), rfc3339(batch.done_ms))


class QueryDocument(msgspec.Struct, frozen=True):
    """A streaming query of Spark, as its checkpoint shows it."""

    checkpoint: Annotated[str, "The path or URI of the checkpoint."]
    query_id: Annotated[str | None, "The id that Spark gave the query."]
    log_version: Annotated[Count, "The version of its log of planned batches."]
    last_batch: Annotated[BatchDocument | None, "The last batch that is done; null before the first."]
    planned_batch: Annotated[BatchDocument | None, "The batch that is planned and not done; null without one."]
    topics: Annotated[tuple[str, ...], "The topics of its Kafka sources."]
    other_source_count: Annotated[Count, "Sources without offsets in Kafka."]
    stateful: Annotated[bool, "Whether it keeps state, as aggregations and joins do."]
    has_gaps: Annotated[bool, "Whether batch numbers are missing, so that it may have read more than is shown."]
    planned_late: Annotated[
        bool, "Whether batches are written when they end (real-time mode): it may have read more since."
    ]
    watermark_at: Annotated[Instant | None, "The event time up to which its input counts as complete."]
    every_ms: Annotated[Ms | None, "How often its job starts, from the context; null if it is not there."]

    @classmethod
    def of(cls, query: StreamingQuery) -> QueryDocument:
        return cls(
            checkpoint=query.location,
            query_id=query.id,
            log_version=query.log_version,
            last_batch=BatchDocument.of(query.done),
            planned_batch=BatchDocument.of(query.planned),
            topics=tuple(sorted({topic for source in query.sources for topic in source.topics})),
            other_source_count=sum(not source.topics for source in query.sources),
            stateful=query.stateful,
            has_gaps=query.has_gaps,
            planned_late=query.planned_late,
            watermark_at=rfc3339(query.watermark_ms),
            every_ms=None if query.every_s is None else round(query.every_s * 1000),
        )


class ShareDocument(msgspec.Struct, frozen=True):
    """The settings in force of a share group, its own or the brokers'; each is null if it is not known."""

    auto_offset_reset: Annotated[str | None, "share.auto.offset.reset: where it starts without a start offset."]
    isolation_level: Annotated[str | None, "share.isolation.level."]
    delivery_limit_count: Annotated[Count | None, "How often a record is delivered before it is archived."]
    record_lock_ms: Annotated[Ms | None, "How long a member may hold a record."]
    dead_letter_topic: Annotated[str | None, "The topic for dead letters; null without one."]
    dead_letter_topic_exists: Annotated[bool | None, "Whether that topic exists."]
    dead_letter_topic_enabled: Annotated[bool | None, "Whether that topic is enabled for dead letters of groups."]
    settings_unknown_reason: Annotated[str | None, "Why the settings are unknown."]
    deliveries_since_at: Annotated[
        Instant | None, "From when on the state has all deliveries; null if it was not read."
    ]
    deliveries_unknown_reason: Annotated[str | None, "Why deliveries are unknown, on some partitions or on all."]

    @classmethod
    def of(cls, share: ShareGroup) -> ShareDocument:
        settings = share.settings or ShareSettings()
        dead = settings.dead_letters
        return cls(
            auto_offset_reset=settings.start,
            isolation_level=settings.isolation,
            delivery_limit_count=settings.delivery_limit,
            record_lock_ms=settings.lock_ms,
            dead_letter_topic=dead.name if dead else None,
            dead_letter_topic_exists=dead.exists if dead else None,
            dead_letter_topic_enabled=dead.enabled if dead else None,
            settings_unknown_reason=share.unread,
            deliveries_since_at=rfc3339(share.deliveries.since_ms) if share.deliveries else None,
            deliveries_unknown_reason=share.deliveries.unread if share.deliveries else None,
        )


class SubtopologyDocument(msgspec.Struct, frozen=True):
    """A part of the topology of a streams group."""

    subtopology_id: Annotated[str, "Its id, which is the first part of the names of its tasks."]
    source_topics: Annotated[tuple[str, ...], "The topics that it reads from outside."]
    repartition_topics: Annotated[tuple[str, ...], "The topics that it reads from other parts of the application."]
    changelog_topics: Annotated[tuple[str, ...], "The topics that hold the state of its tasks."]


class StreamsMemberDocument(msgspec.Struct, frozen=True):
    """A member of a streams group: a thread of a process."""

    member_id: Annotated[str, "The member id."]
    process_id: Annotated[str, "The id of its process."]
    topology_epoch: Annotated[int, "The epoch of the topology that it has."]
    tasks: Annotated[MemberTasks, "Its tasks."]
    target_tasks: Annotated[MemberTasks, "The tasks that it shall have."]


class TaskCopyDocument(msgspec.Struct, frozen=True):
    """A member that keeps the state of a task and does not run it."""

    member_id: Annotated[str, "The member id."]
    lag: Annotated[
        Count | None, "Changelog records that it has not read, as it reported at most a minute ago; null if unknown."
    ]


class TaskDocument(msgspec.Struct, frozen=True):
    """A task of a streams group."""

    task: Annotated[str, "Its name: 0_3 is partition 3 of subtopology 0."]
    active_member_id: Annotated[str | None, "The member that runs it; null without one."]
    standby: Annotated[tuple[TaskCopyDocument, ...], "Members that keep its state, to take it over."]
    warmup: Annotated[tuple[TaskCopyDocument, ...], "Members that read its state, before it moves to them."]
    changelog_record_count: Annotated[
        Count | None, "Offsets of its changelogs: records to restore without state, at most; null without any."
    ]
    changelog_size_bytes: Annotated[Bytes | None, "The size of its changelogs; null without any, or if unknown."]
    restore_ms: Annotated[Ms | None, "How long it restores at --restore-rate; null without it."]

    @classmethod
    def of(cls, copies: TaskCopies, streams: StreamsGroup, bytes_per_s: int | None) -> TaskDocument:
        task, known = copies.task, streams.changelogs.get(copies.task)
        spare = {
            role: tuple(TaskCopyDocument(name, lag) for name, lag in members)
            for role, members in copies.by_role.items()
        }
        return cls(
            task=str(task),
            active_member_id=next((name for name, _ in copies.by_role[TaskRole.ACTIVE]), None),
            standby=spare[TaskRole.STANDBY],
            warmup=spare[TaskRole.WARMUP],
            changelog_record_count=known.records if known else None,
            changelog_size_bytes=known.size if known else None,
            restore_ms=None if bytes_per_s is None else streams.restore_ms(task, bytes_per_s),
        )


class StreamsDocument(msgspec.Struct, frozen=True):
    """What a streams group has besides."""

    topology_epoch: Annotated[int | None, "The epoch of its topology; null if the brokers do not show it."]
    subtopologies: Annotated[tuple[SubtopologyDocument, ...] | None, "The topology; null if it is not shown."]
    missing_topics: Annotated[tuple[str, ...] | None, "Source topics that do not exist; null if they were not read."]
    members: Annotated[tuple[StreamsMemberDocument, ...], "Its members."]
    all_tasks: Annotated[tuple[TaskDocument, ...], "Its tasks."]

    @classmethod
    def of(cls, streams: StreamsGroup, bytes_per_s: int | None) -> StreamsDocument:
        shown = streams.subtopologies
        return cls(
            topology_epoch=streams.topology_epoch,
            subtopologies=None
            if shown is None
            else tuple(SubtopologyDocument(each.id, each.sources, each.repartition, each.changelogs) for each in shown),
            missing_topics=streams.missing,
            members=tuple(
                StreamsMemberDocument(
                    name, each.process_id, each.topology_epoch, MemberTasks.of(each.tasks), MemberTasks.of(each.target)
                )
                for name, each in streams.members.items()
            ),
            all_tasks=tuple(TaskDocument.of(each, streams, bytes_per_s) for each in streams.copies),
        )


class DescribedGroupDocument(msgspec.Struct, frozen=True):
    """A group."""

    group: Annotated[str, "The group."]
    type: Annotated[str, "classic, consumer, share or streams, as the broker reports it; query for a streaming query."]
    state: Annotated[str, "The state, as the broker reports it; of a streaming query InBatch, BatchDone or New."]
    protocol_type: Annotated[str | None, "The protocol type of a classic group; the type of any other."]
    assignor: Annotated[str | None, "The assignor; null without members."]
    coordinator: Annotated[Coordinator | None, "The broker that coordinates the group."]
    generation: Annotated[int | None, "The generation of a classic group."]
    leader_member_id: Annotated[str | None, "The member id of a classic group's leader."]
    group_epoch: Annotated[int | None, "The epoch of a consumer, share or streams group."]
    assignment_epoch: Annotated[int | None, "The epoch of the target assignment of such a group."]
    members: Annotated[tuple[MemberDocument, ...] | None, "Members; null if they cannot be read."]
    partitions: Annotated[tuple[DescribedPartition, ...], "Partitions with a commit, a start offset or a member."]
    hidden_commits: Annotated[
        tuple[PartitionName, ...] | None, "Partitions whose commits this user may not read; null if unknown."
    ]
    verdict: Annotated[
        msgspec.Struct | None,
        "verdict or null",
        "The interpretation; null with --from-log, with more than 20 groups, and if it cannot be read.",
    ]
    totals: Annotated[GroupTotals, "Sums."]
    pending_catchups: Annotated[
        tuple[PendingCatchup, ...] | None, "Catch-ups that are not finished; null if the ledger cannot be read."
    ]
    source: Annotated[GroupSource, "Where the group was read."]
    newest_record_at: Annotated[
        Instant | None, "The time of the newest record of the group; null if the coordinator answered."
    ]
    query: Annotated[QueryDocument | None, "The streaming query; null for a group."]
    share: Annotated[ShareDocument | None, "What a share group has besides; null for any other."]
    streams: Annotated[StreamsDocument | None, "What a streams group has besides; null for any other."]


def described_document(
    group: Group,
    pending: Sequence[PendingCatchup] | None,
    verdict: GroupVerdict | None = None,
    logged: LoggedState | None = None,
    restore_rate: int | None = None,
) -> DescribedGroupDocument:
    """The verdict and the log fill in fields that are null without them; ``restore_rate`` is in bytes per second."""
    judged = None
    if verdict is not None:
        # Imported here: a page of many groups has no verdict.
        from kgroup.output.pages.lag_documents import verdict_document

        judged = verdict_document(verdict)
    rows = {} if verdict is None else {row.partition.tp: row for row in verdict.report.partitions}
    commits = {} if logged is None else {tp: commit.at_ms for tp, commit in logged.partitions.items()}
    return DescribedGroupDocument(
        group=group.name,
        type=group.type,
        state=group.state,
        protocol_type=group.protocol_type,
        assignor=group.assignor,
        coordinator=group.coordinator,
        generation=group.generation,
        leader_member_id=group.leader,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        members=None if group.members is None else tuple(map(_member, group.members)),
        partitions=tuple(
            DescribedPartition.of(each, group, rows.get(each.tp), commits.get(each.tp)) for each in group.partitions
        ),
        hidden_commits=partition_names(group.hidden_commits),
        verdict=judged,
        totals=group.totals,
        pending_catchups=None if pending is None else tuple(pending),
        source=_source(group, logged),
        newest_record_at=None if logged is None else rfc3339(logged.newest_ms),
        query=None if group.query is None else QueryDocument.of(group.query),
        share=None if group.share is None else ShareDocument.of(group.share),
        streams=None if group.streams is None else StreamsDocument.of(group.streams, restore_rate),
    )


def _source(group: Group, logged: LoggedState | None) -> GroupSource:
    if group.query is not None:
        return GroupSource.CHECKPOINT
    return GroupSource.COORDINATOR if logged is None else GroupSource.LOG


def _member(member: Member) -> MemberDocument:
    return MemberDocument(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.host,
        rack=member.rack,
        member_epoch=member.epoch,
        left_temporarily=member.left_temporarily,
        protocol=member.protocol,
        subscription=member.subscription,
        subscription_regex=member.subscription_regex,
        assignment=member.assignment,
        target_assignment=member.target,
    )
