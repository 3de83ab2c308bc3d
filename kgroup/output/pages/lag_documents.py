"""The JSON of ``kgroup lag``, and of the verdict, which ``kgroup describe`` has too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import msgspec

from kgroup.groups.lag.checks import Violation
from kgroup.groups.lag.evidence import BlockingTransaction, Isolation
from kgroup.groups.lag.rates import LagTrend
from kgroup.groups.lag.report import GroupLag, LagSum, PartitionLag
from kgroup.groups.lag.status import LagStatus
from kgroup.groups.verdict.conclusion import ConcludedPlace, Trouble
from kgroup.groups.verdict.facts import is_draining, stuck_of
from kgroup.groups.verdict.group import GroupVerdict
from kgroup.groups.verdict.shape import LagShape, OtherGroupsLag
from kgroup.model.pending_catchup import PendingCatchup
from kgroup.model.topic_partition import PartitionName, partition_names
from kgroup.output.pages.verdict import verdict_lines
from kgroup.support.instants import rfc3339
from kgroup.support.json_types import Count, EpochMs, Instant, Ms, Offset, PerSecond

_CaughtUpIn = Annotated[
    Ms | None,
    "Time until nothing is unread; 0 if the group keeps up, null if it does not catch up at this rate, and for "
    "unknown.",
]
_RetentionLeft = Annotated[
    Ms | None, "Time until retention deletes the first unread record; null for never and unknown."
]


class LagSumDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The sum over the partitions of a topic or a group: after the fields of these, which are not ``kw_only``."""

    lag: Annotated[Count | None, "Unread records; null if unknown."]
    unknown_partition_count: Annotated[Count, "Partitions whose lag is unknown."]
    time_lag_ms: Annotated[
        Ms | None,
        "Age of the first unread record; 0 if nothing is unread, null if unknown. A group's leaves out topics that it "
        "has left.",
    ]
    time_lag_at_least_ms: Annotated[
        Ms | None,
        "Age of the oldest unread record whose age is known: time_lag_ms, or less if that of another partition is "
        "unknown; null if none is known.",
    ]
    time_lag_at_most_ms: Annotated[Ms | None, "An upper bound of that age, where a share group has no exact one."]
    largest_partition: Annotated[PartitionName | None, "The partition with the largest lag."]
    oldest_partition: Annotated[PartitionName | None, "The partition with the oldest unread record."]
    lag_status: Annotated[str | None, LagStatus, "Burrow's status, of several partitions the worst; null if unknown."]
    lag_status_began_at: Annotated[Instant | None, "Since when the status is as it is."]
    lag_status_began_at_ms: Annotated[EpochMs | None, "Since when the status is as it is."]
    lag_status_unknown_reason: Annotated[str | None, "Why the status is unknown."]
    in_per_s: Annotated[PerSecond | None, "Offsets that producers write."]
    out_per_s: Annotated[PerSecond | None, "Offsets that the group commits."]
    rate_span_ms: Annotated[Ms | None, "The span of time that the rates are measured over."]
    growth_per_s: Annotated[PerSecond | None, "How fast the lag grows; negative if it shrinks."]
    pace: Annotated[LagTrend | None, "The trend of the lag; null if unknown."]
    caught_up_in_ms: _CaughtUpIn


class TopicLagDocument(LagSumDocument, frozen=True):
    """The lag of a topic."""

    topic: Annotated[str, "The topic."]


class OpenTransactionDocument(msgspec.Struct, frozen=True):
    """A transaction that holds records back."""

    producer_id: Annotated[int, "The producer id."]
    producer_epoch: Annotated[int, "The producer epoch."]
    transactional_id: Annotated[str | None, "The transactional id; null if this user may not read it."]
    start_offset: Annotated[Offset, "The first offset of the transaction."]
    began_at: Annotated[Instant | None, "Since when it is open."]
    began_at_ms: Annotated[EpochMs | None, "Since when it is open."]


class PartitionLagDocument(msgspec.Struct, frozen=True, gc=False):
    """The lag of a partition."""

    topic: Annotated[str, "The topic."]
    partition: Annotated[Count, "The partition."]
    committed: Annotated[Offset | None, "The committed offset, or the start offset of a share group; null without."]
    first_unread: Annotated[Offset | None, "The first offset that is unread and still in the log."]
    log_start: Annotated[Offset | None, "The log start offset."]
    log_end: Annotated[Offset | None, "The log end offset."]
    measured_against: Annotated[
        Offset | None, "The offset that lag is measured against; log end or last stable offset."
    ]
    lag: Annotated[Count | None, "Unread records; null if unknown."]
    phantom_count: Annotated[Count, "Offsets after the commit that hold no record; they are not in lag."]
    held_back_count: Annotated[
        Count | None, "Offsets between the last stable offset and the log end; null if not read."
    ]
    open_transaction: Annotated[OpenTransactionDocument | None, "The transaction that holds them back."]
    time_lag_ms: Annotated[Ms | None, "Age of the first unread record; 0 if nothing is unread, null if unknown."]
    time_lag_at_most_ms: Annotated[Ms | None, "An upper bound of that age, where a share group has no exact one."]
    time_lag_unknown_reason: Annotated[str | None, "Why no age follows from the timestamps of its records."]
    last_commit_at: Annotated[Instant | None, "When the group committed last."]
    last_commit_at_ms: Annotated[EpochMs | None, "When the group committed last."]
    lag_status: Annotated[str | None, LagStatus, "Burrow's status; null if unknown."]
    lag_status_began_at: Annotated[Instant | None, "Since when the status is as it is."]
    lag_status_began_at_ms: Annotated[EpochMs | None, "Since when the status is as it is."]
    lag_status_unknown_reason: Annotated[str | None, "Why the status is unknown."]
    in_per_s: Annotated[PerSecond | None, "Offsets that producers write."]
    out_per_s: Annotated[PerSecond | None, "Offsets that the group commits."]
    rate_span_ms: Annotated[Ms | None, "The span of time that the rates are measured over."]
    growth_per_s: Annotated[PerSecond | None, "How fast the lag grows; negative if it shrinks."]
    pace: Annotated[LagTrend | None, "The trend of the lag; null if unknown."]
    caught_up_in_ms: _CaughtUpIn
    retention_left_ms: _RetentionLeft
    member_id: Annotated[str | None, "The member that the partition is assigned to."]
    client_id: Annotated[str | None, "The client id of that member."]
    host: Annotated[str | None, "The address of that member."]
    leader_broker_id: Annotated[int | None, "The broker that leads the partition."]
    error_code: Annotated[str | None, "Why the partition or its commit cannot be read, as a code."]
    lag_unknown_reason: Annotated[str | None, "Why the lag is unknown."]


class LaggingPartitions(msgspec.Struct, frozen=True):
    """What the partitions that lag have in common."""

    pattern: Annotated[LagShape, "Which partitions lag."]
    subject: Annotated[str | None, "The member, broker or topic that they have in common."]
    partitions: Annotated[tuple[PartitionName, ...], "Partitions that lag."]
    partition_count: Annotated[Count, "Number of partitions with a known lag."]


class OtherGroupsDocument(msgspec.Struct, frozen=True):
    """The other groups of the topics."""

    keeping_up: Annotated[tuple[str, ...], "Groups that keep up."]
    lagging: Annotated[tuple[str, ...], "Groups that lag."]
    unknown: Annotated[tuple[str, ...], "Groups whose trend is unknown."]
    without_reader: Annotated[
        tuple[str, ...], "Empty groups with unread records; their lag shows nothing about the topic."
    ]
    quiet: Annotated[tuple[str, ...], "Groups that did not commit lately."]
    unseen_reason: Annotated[str | None, "Why some groups were not read."]


class VerdictLineDocument(msgspec.Struct, frozen=True):
    """A line of the page."""

    word: Annotated[str, "The word at the start of the line."]
    text: Annotated[str, "The sentence."]


class ConclusionDocument(msgspec.Struct, frozen=True):
    """What is concluded of a group."""

    cause: Annotated[Trouble, "The cause."]
    alternatives: Annotated[
        tuple[Trouble, ...],
        "What it may be as well: what was read does not distinguish these. Empty: none of this list.",
    ]
    places: Annotated[tuple[ConcludedPlace, ...], "Partitions where it is; empty if it is about the whole group."]


class VerdictDocument(msgspec.Struct, frozen=True):
    """The interpretation of a group's lag."""

    state_began_at: Annotated[Instant | None, "Since when the group has its state."]
    state_began_at_ms: Annotated[EpochMs | None, "Since when the group has its state."]
    lag_status: Annotated[str | None, LagStatus, "The worst status of a partition; null if unknown."]
    draining: Annotated[bool | None, "Whether the lag shrinks; null if unknown."]
    shape: Annotated[LaggingPartitions, "Which partitions lag, and what they have in common."]
    stuck_partitions: Annotated[
        tuple[PartitionName, ...], "Partitions whose committed offset does not move although records are unread."
    ]
    retention_left_ms: _RetentionLeft
    other_groups: Annotated[OtherGroupsDocument | None, "Other groups that read the same topics; null if not read."]
    lines: Annotated[tuple[VerdictLineDocument, ...], "The lines of the page, for people."]
    next: Annotated[str | None, "The next fact to check, for people."]
    conclusion: Annotated[ConclusionDocument | None, "The same for programs."]
    commands: Annotated[tuple[str, ...], "Commands that follow, the most urgent first."]


class _LagHead(LagSumDocument, frozen=True):
    group: Annotated[str, "The group."]
    state: Annotated[str, "The state, as the broker reports it."]
    isolation: Annotated[Isolation, "What lag is measured against."]
    is_upper_bound: Annotated[
        bool,
        "Whether its lags are upper bounds: of a streaming query with asynchronous progress, or in real-time mode.",
    ]


class GroupLagDocument(_LagHead, frozen=True, kw_only=True):
    """The lag of a group."""

    hidden_commits: Annotated[
        tuple[PartitionName, ...] | None, "Partitions whose commits this user may not read; null if unknown."
    ]
    topics: Annotated[tuple[TopicLagDocument, ...], "The same for each topic."]
    partitions: Annotated[tuple[PartitionLagDocument, ...], "The same for each partition."]
    violations: Annotated[tuple[Violation, ...], "Bounds (--max-lag and others) that do not hold."]
    verdict: Annotated[VerdictDocument | None, "The interpretation; null unless the command names one group."]
    pending_catchups: Annotated[
        tuple[PendingCatchup, ...] | None,
        "Catch-ups that are not finished; null if the ledger cannot be read.",
    ]


def lag_document(
    report: GroupLag,
    violations: tuple[Violation, ...] = (),
    verdict: GroupVerdict | None = None,
    pending: Sequence[PendingCatchup] | None = None,
) -> GroupLagDocument:
    return GroupLagDocument(
        group=report.group,
        state=report.state,
        isolation=report.isolation,
        is_upper_bound=report.at_most is not None,
        **_sum(report.total),
        hidden_commits=partition_names(report.hidden_commits),
        topics=tuple(TopicLagDocument(str(each.topic), **_sum(each)) for each in report.topics),
        partitions=tuple(map(_partition, report.partitions)),
        violations=violations,
        verdict=None if verdict is None else verdict_document(verdict),
        pending_catchups=None if pending is None else tuple(pending),
    )


def verdict_document(verdict: GroupVerdict) -> VerdictDocument:
    report, evidence, shape, found = verdict.report, verdict.evidence, verdict.shape, verdict.concluded
    return VerdictDocument(
        state_began_at=rfc3339(evidence.state_since_ms),
        state_began_at_ms=evidence.state_since_ms,
        lag_status=_code(report.total.status),
        draining=None if report.total.outlook.pace is LagTrend.UNKNOWN else is_draining(report),
        shape=LaggingPartitions(shape.kind, shape.subject, _names(shape.behind), shape.of),
        stuck_partitions=_names(stuck_of(report)),
        retention_left_ms=None if verdict.safe is None else verdict.safe.left_ms,
        other_groups=None if verdict.siblings is None else _other_groups(verdict.siblings),
        lines=tuple(VerdictLineDocument(line.word.lower(), line.text) for line in verdict_lines(verdict)),
        next=verdict.next,
        conclusion=None if found is None else ConclusionDocument(found.cause, found.alternatives, found.places),
        commands=verdict.commands,
    )


def _other_groups(others: OtherGroupsLag) -> OtherGroupsDocument:
    return OtherGroupsDocument(
        keeping_up=others.keeping_up,
        lagging=others.lagging,
        unknown=others.unknown,
        without_reader=others.without_reader,
        quiet=others.quiet,
        unseen_reason=others.unseen,
    )


def _partition(row: PartitionLag) -> PartitionLagDocument:
    p, commit, log, owner = row.partition, row.partition.commit, row.partition.log, row.partition.owner
    return PartitionLagDocument(
        topic=p.topic,
        partition=p.partition,
        committed=commit.offset if commit else None,
        first_unread=row.first,
        log_start=log.start if log else None,
        log_end=log.end if log else None,
        measured_against=row.end,
        lag=row.lag,
        phantom_count=row.phantom,
        held_back_count=row.held_back,
        open_transaction=None if row.open_transaction is None else _transaction(row.open_transaction),
        time_lag_ms=row.time_lag_ms,
        time_lag_at_most_ms=row.time_lag_at_most_ms,
        time_lag_unknown_reason=row.time_why,
        last_commit_at=rfc3339(row.last_commit_ms),
        last_commit_at_ms=row.last_commit_ms,
        **_status_and_rates(row),
        retention_left_ms=row.retention_left.left_ms if row.retention_left else None,
        member_id=owner.member_id if owner else None,
        client_id=owner.client_id if owner else None,
        host=owner.host if owner else None,
        leader_broker_id=row.leader,
        error_code=p.error,
        lag_unknown_reason=row.why if row.lag is None else None,
    )


def _sum(row: LagSum) -> dict[str, Any]:
    return {
        "lag": row.lag,
        "unknown_partition_count": row.unknown,
        "time_lag_ms": row.time_lag_ms,
        "time_lag_at_least_ms": row.time_lag_at_least_ms,
        "time_lag_at_most_ms": row.time_lag_at_most_ms,
        "largest_partition": None if row.largest is None else PartitionName(*row.largest.partition.tp),
        "oldest_partition": None if row.oldest is None else PartitionName(*row.oldest.partition.tp),
        **_status_and_rates(row),
    }


def _status_and_rates(row: PartitionLag | LagSum) -> dict[str, Any]:
    status, rates, outlook = row.status_result, row.rates, row.outlook
    return {
        "lag_status": _code(status.status),
        "lag_status_began_at": rfc3339(status.since_ms),
        "lag_status_began_at_ms": status.since_ms,
        "lag_status_unknown_reason": status.why if status.status is None else None,
        "in_per_s": _rounded(rates.incoming),
        "out_per_s": _rounded(rates.outgoing),
        "rate_span_ms": rates.span_ms,
        "growth_per_s": _rounded(rates.growth),
        "pace": None if outlook.pace is LagTrend.UNKNOWN else outlook.pace,
        "caught_up_in_ms": None if outlook.seconds is None else round(outlook.seconds * 1000),
    }


def _transaction(transaction: BlockingTransaction) -> OpenTransactionDocument:
    return OpenTransactionDocument(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transactional_id=transaction.transactional_id,
        start_offset=transaction.start_offset,
        began_at=rfc3339(transaction.since_ms),
        began_at_ms=transaction.since_ms,
    )


def _names(rows: Iterable[PartitionLag]) -> tuple[PartitionName, ...]:
    return tuple(PartitionName(*row.partition.tp) for row in rows)


def _code(status: LagStatus | None) -> str | None:
    return None if status is None else status.code


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 3)
