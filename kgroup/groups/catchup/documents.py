"""The JSON of a plan: the same fields before ``--execute``, during the replay and at the end; null is unknown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec.structs import asdict, replace

from kgroup.groups.catchup.dead_letters import DeadLetters
from kgroup.groups.catchup.delivered import next_deadline_ms
from kgroup.groups.catchup.gap import NotMoved, total
from kgroup.groups.catchup.model import (
    ExplainedRange,
    GapRange,
    Order,
    PlanPhase,
    PlanState,
    RangeVerification,
    ReleasePoint,
)
from kgroup.groups.catchup.plan_state import VerifiedPlan
from kgroup.groups.catchup.release_evidence import OffsetRewind
from kgroup.groups.catchup.results import Cancellation, MovedOffset, StartPlan
from kgroup.groups.catchup.risks import Risk
from kgroup.groups.catchup.start_condition import Unstarted, UnstartedReason
from kgroup.groups.catchup.steps import Close, MoveBack
from kgroup.groups.catchup.unrecorded_releases import UnrecordedRelease
from kgroup.groups.catchup.verification import CatchupTotals, deleted_before
from kgroup.groups.catchup.yielding import LIVE, OFF
from kgroup.model.pending_catchup import PendingCatchup
from kgroup.model.records import EndOffset, FirstOffset, OffsetRange
from kgroup.model.topic_partition import PartitionName
from kgroup.support.instants import rfc3339
from kgroup.support.json_types import Bytes, Count, EpochMs, Instant, Ms, Offset, PerSecond


class CatchupRange(PartitionName, frozen=True, kw_only=True):
    """A range of a plan, and what was delivered of it."""

    old_offset: Annotated[
        Offset | None, "The committed offset when the plan was made; null without one, or if no group is moved."
    ]
    new_offset: Annotated[Offset | None, "The committed offset after the release; null if no group is moved."]
    start: FirstOffset
    end: EndOffset
    estimated_record_count: Annotated[Count | None, "Estimated number of records."]
    estimated_bytes: Annotated[Bytes | None, "Estimated size."]
    oldest_record_at: Annotated[Instant | None, "The time of the first record."]
    oldest_record_at_ms: Annotated[EpochMs | None, "The time of the first record."]
    maybe_processed_until: Annotated[Offset | None, "Records below it may have been processed; null if unknown."]
    retention_deadline_at: Annotated[
        Instant | None, "When retention may delete the first record; null for never and unknown."
    ]
    retention_deadline_at_ms: Annotated[
        EpochMs | None, "When retention may delete the first record; null for never and unknown."
    ]
    delivered_to: Annotated[Offset | None, "All offsets below it are delivered."] = None
    read_to_end: Annotated[bool | None, "Whether all offsets were read."] = None
    record_count: Annotated[Count | None, "Records that were read."] = None
    delivered_count: Annotated[Count | None, "Records that were delivered."] = None
    filtered_count: Annotated[Count | None, "Records that were filtered."] = None
    dead_lettered_count: Annotated[Count | None, "Records that were dead-lettered."] = None
    bytes: Annotated[Bytes | None, "Size of what was read."] = None
    possible_duplicate_count: Annotated[Count | None, "Records that may be delivered twice."] = None
    lost: Annotated[tuple[ExplainedRange, ...] | None, "Offsets that could not be read."] = None
    undelivered: Annotated[tuple[OffsetRange, ...] | None, "Offsets that are not delivered yet."] = None
    contradictions: Annotated[tuple[str, ...] | None, "Contradictions in the results, for people."] = None
    chunk_count: Annotated[Count | None, "Number of chunks."] = None
    finished_chunk_count: Annotated[Count | None, "Chunks that are delivered to their end."] = None
    verified: Annotated[bool | None, "Whether every record is delivered, filtered or dead-lettered."] = None


class CatchupThrottle(msgspec.Struct, frozen=True, kw_only=True):
    """The limit of an open plan's replay: as it was set, and what its run applies over all tasks."""

    rate: Annotated[str | None, "The limit as typed; null for none."]
    yield_to: Annotated[str | None, "The lag of the group to which the replay yields, as typed; null for none."]
    set_at: Annotated[Instant | None, "When catchup throttle set it; null if start or resume did."]
    set_at_ms: Annotated[EpochMs | None, "When catchup throttle set it; null if start or resume did."]
    set_by: Annotated[str | None, "USER@HOST who set it with catchup throttle."]
    applied: Annotated[bool, "Whether a run replays the plan and applies a rate."]
    records_per_second: Annotated[PerSecond | None, "The limit that the run applies in records; null for none."]
    bytes_per_second: Annotated[PerSecond | None, "The limit that the run applies in bytes; null for none."]
    halving_count: Annotated[Count | None, "How often the run has halved the rate, because the group is late."]
    time_lag_ms: Annotated[Ms | None, "How late the group is; null if it is not read."]


class CatchupPlanDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A plan; before ``--execute`` it has no id, and nothing that the ledger adds."""

    plan_id: Annotated[str | None, "The plan; null if it is not written to the ledger."] = None
    group: Annotated[str | None, "The group; null with --range, which moves no group."]
    state: Annotated[PlanState | None, "The state in the ledger; null if the plan is not written to it."] = None
    phase: Annotated[
        PlanPhase | None, "The state as tables show it; null if the plan is not written to the ledger."
    ] = None
    created_at: Annotated[Instant | None, "When the plan was made."] = None
    created_at_ms: Annotated[EpochMs | None, "When the plan was made."] = None
    created_by: Annotated[str | None, "USER@HOST who made it."] = None
    comment: Annotated[str | None, "The text of --reason."] = None
    release_point: Annotated[ReleasePoint | None, "Where the group starts; null if it is not released."]
    sink: Annotated[str | None, "The kind of sink; null if no sink is chosen."] = None
    destination: Annotated[str | None, "The sink, its target and its filter; null if no sink is chosen."]
    order: Annotated[Order | None, "What delivery keeps in order."] = None
    task_count: Annotated[Count | None, "Number of tasks."] = None
    tuning: Annotated[Mapping[str, str] | None, "map of any or null", "Options that limit the replay."] = None
    throttle: Annotated[CatchupThrottle | None, "The limit of its replay; null for a plan that is not open."] = None
    retention_deadline_at: Annotated[
        Instant | None, "When retention may delete the first undelivered record; null for never and unknown."
    ]
    retention_deadline_at_ms: Annotated[
        EpochMs | None, "When retention may delete the first undelivered record; null for never and unknown."
    ]
    ranges: Annotated[tuple[CatchupRange, ...], "The gap by partition."]
    abandoned: Annotated[tuple[ExplainedRange, ...], "Offsets that are not delivered, by the user's choice."]
    already_deleted: Annotated[tuple[ExplainedRange, ...], "Offsets that retention had deleted before the plan."]
    not_moved: Annotated[tuple[NotMoved, ...], "Partitions whose offsets the plan does not move."]
    rewinds: Annotated[
        tuple[OffsetRewind, ...],
        "Commits of other clients that moved backwards into the gap, so that records are processed twice.",
    ] = ()
    totals: Annotated[CatchupTotals, "Sums."]
    risks: Annotated[tuple[Risk, ...], "What may go wrong."]
    dead_letters: Annotated[
        DeadLetters | None, "What was read for --from-dead-letters; null for other plans, and for one in the ledger."
    ] = None


class UnstartedCatchup(CatchupPlanDocument, frozen=True, kw_only=True):
    """What start returns if --if-behind or --if-empty ends it: no plan, and why. The lag is that of kgroup lag."""

    unstarted_reason: Annotated[UnstartedReason, "Why nothing was done."]
    lag: Annotated[Count | None, "Unread records; null if unknown or not measured."]
    unknown_partition_count: Annotated[Count | None, "Partitions whose lag is unknown; null if not measured."]
    time_lag_ms: Annotated[Ms | None, "Age of the first unread record; null if unknown or not measured."]
    time_lag_at_least_ms: Annotated[
        Ms | None, "Age of the oldest unread record whose age is known; null if none is known."
    ]
    largest_partition: Annotated[PartitionName | None, "The partition with the largest lag."]
    oldest_partition: Annotated[PartitionName | None, "The partition with the oldest unread record."]


class CancelledPlan(CatchupPlanDocument, frozen=True, kw_only=True):
    """A plan, and what its cancellation moves, repeats and abandons."""

    moves: Annotated[tuple[MovedOffset, ...], "Where the group's offsets move."]
    possible_duplicates: Annotated[
        tuple[ExplainedRange, ...], "Offsets that the group reads again though some were processed."
    ]
    abandoned_by_cancel: Annotated[tuple[ExplainedRange, ...], "Offsets that neither the replay nor the group reads."]


class CatchupReport(CatchupPlanDocument, frozen=True, kw_only=True):
    """The file of ``--report``."""

    took_ms: Annotated[Ms, "How long the replay took."]
    contradictions: Annotated[tuple[str, ...], "Contradictions in the results, for people."]


class RehearsedReplay(msgspec.Struct, frozen=True):
    """What ``catchup check`` tried; ``errors`` of the document has what failed."""

    passed: Annotated[bool, "Whether a replay with these options could start."]
    checks: Annotated[tuple[str, ...], "Checks that passed, for people."]


def planned_catchup(plan: StartPlan) -> CatchupPlanDocument:
    """What ``start`` prints without ``--execute``."""
    gap = plan.gap
    deadline = min(
        (item.retention_deadline_ms for item in gap.ranges if item.retention_deadline_ms is not None), default=None
    )
    return CatchupPlanDocument(
        group=gap.group,
        release_point=gap.release_point,
        destination=plan.destination,
        retention_deadline_at=rfc3339(deadline),
        retention_deadline_at_ms=deadline,
        ranges=tuple(_range(item, gap.group, None) for item in gap.ranges),
        abandoned=gap.abandoned,
        already_deleted=gap.already_deleted,
        not_moved=gap.not_moved,
        totals=_totals(gap.ranges, len(plan.chunks), None, None),
        risks=plan.risks,
        dead_letters=plan.letters,
    )


def unstarted_catchup(unstarted: Unstarted) -> UnstartedCatchup:
    """What ``start`` prints if its conditions end it."""
    lag = unstarted.lag
    largest, oldest = (None, None) if lag is None else (lag.largest, lag.oldest)
    return UnstartedCatchup(
        group=unstarted.group,
        release_point=None,
        destination=None,
        retention_deadline_at=None,
        retention_deadline_at_ms=None,
        ranges=(),
        abandoned=(),
        already_deleted=(),
        not_moved=(),
        totals=_totals((), 0, None, None),
        risks=(),
        unstarted_reason=unstarted.reason,
        lag=None if lag is None else lag.lag,
        unknown_partition_count=None if lag is None else lag.unknown,
        time_lag_ms=None if lag is None else lag.time_lag_ms,
        time_lag_at_least_ms=None if lag is None else lag.time_lag_at_least_ms,
        largest_partition=None if largest is None else PartitionName(*largest.partition.tp),
        oldest_partition=None if oldest is None else PartitionName(*oldest.partition.tp),
    )


def catchup_plan(state: VerifiedPlan, planned: StartPlan | None = None) -> CatchupPlanDocument:
    """A plan of the ledger and what was delivered of it; with ``planned`` the delivery has not begun."""
    ledgered, pending = state.snapshot, state.known_pending
    plan, delivery = ledgered.plan, ledgered.delivery
    known = planned is None and not state.is_unknown
    verification = state.verification if known else None
    verified = {(*row.tp, row.start): row for row in (verification.partitions if verification else ())}
    deadline = next_deadline_ms(ledgered) if pending else None
    return CatchupPlanDocument(
        plan_id=plan.id,
        group=plan.group,
        state=ledgered.state.state,
        phase=state.phase,
        created_at=rfc3339(plan.created_ms or None),
        created_at_ms=plan.created_ms or None,
        created_by=plan.who,
        comment=plan.reason,
        release_point=plan.release_point,
        sink=delivery.sink if delivery else None,
        destination=state.destination,
        order=delivery.order if delivery else None,
        task_count=len(delivery.tasks) if delivery else None,
        tuning=ledgered.tuning if delivery or ledgered.throttle else None,
        throttle=_throttle(state) if ledgered.state.state.is_open else None,
        retention_deadline_at=rfc3339(deadline),
        retention_deadline_at_ms=deadline,
        ranges=tuple(_range(item, plan.group, verified.get((*item.tp, item.start)), state) for item in plan.ranges),
        abandoned=plan.abandoned,
        already_deleted=deleted_before(plan),
        not_moved=planned.gap.not_moved if planned else (),
        rewinds=verification.rewinds if verification else (),
        totals=_totals(plan.ranges, len(plan.chunks), state.totals if known else None, pending),
        risks=planned.risks if planned else (),
    )


def _throttle(state: VerifiedPlan) -> CatchupThrottle:
    tuning, throttle, applied = state.snapshot.tuning, state.snapshot.throttle, state.applied
    rate, bound = (None if (text := tuning.get(name, OFF)) == OFF else text for name in LIVE)
    return CatchupThrottle(
        rate=rate,
        yield_to=bound,
        set_at=None if throttle is None else rfc3339(throttle.at_ms),
        set_at_ms=None if throttle is None else throttle.at_ms,
        set_by=None if throttle is None else throttle.who,
        applied=applied is not None,
        records_per_second=None if applied is None else applied.records,
        bytes_per_second=None if applied is None else applied.bytes,
        halving_count=None if applied is None else applied.halvings,
        time_lag_ms=None if applied is None else applied.time_lag_ms,
    )


def cancelled_plan(cancellation: Cancellation) -> CancelledPlan:
    decision = cancellation.decision
    return CancelledPlan(
        **asdict(catchup_plan(cancellation.state)),
        moves=cancellation.moves,
        possible_duplicates=decision.reprocessed if isinstance(decision, MoveBack) else (),
        abandoned_by_cancel=decision.abandoned if isinstance(decision, Close) else (),
    )


def catchup_report(state: VerifiedPlan, took_s: float) -> CatchupReport:
    return CatchupReport(
        **asdict(catchup_plan(state)), took_ms=round(took_s * 1000), contradictions=state.verification.contradictions
    )


def pending_catchups(
    states: Sequence[VerifiedPlan], unrecorded: Iterable[UnrecordedRelease]
) -> tuple[PendingCatchup, ...]:
    """The open plans of a group, and the releases that the ledger does not contain."""
    rows = []
    for state in states:
        deadline = next_deadline_ms(state.snapshot)
        rows.append(
            PendingCatchup(
                state.snapshot.plan.id,
                state.snapshot.state.state.value,
                state.phase,
                state.pending,
                rfc3339(deadline),
                deadline,
                state.verification.undelivered if state.pending else (),
            )
        )
    rows += [
        PendingCatchup(row.plan_id, None, PlanPhase.NOT_IN_LEDGER, row.offsets, None, None, row.ranges)
        for row in unrecorded
    ]
    return tuple(rows)


def _range(
    item: GapRange, group: str | None, verified: RangeVerification | None, state: VerifiedPlan | None = None
) -> CatchupRange:
    planned = CatchupRange(
        topic=item.topic,
        partition=item.partition,
        old_offset=item.before.offset if item.before else None,
        new_offset=None if group is None else item.end,
        start=item.start,
        end=item.end,
        estimated_record_count=item.records,
        estimated_bytes=item.size,
        oldest_record_at=rfc3339(item.oldest_ms),
        oldest_record_at_ms=item.oldest_ms,
        maybe_processed_until=item.maybe_processed_until,
        retention_deadline_at=rfc3339(item.retention_deadline_ms),
        retention_deadline_at_ms=item.retention_deadline_ms,
    )
    if verified is None or state is None:
        return planned
    counted, checked = state.counts_records, state.is_checked
    return replace(
        planned,
        delivered_to=verified.delivered_to,
        read_to_end=verified.read_to_end if checked else None,
        record_count=verified.records if counted else None,
        delivered_count=verified.delivered if counted else None,
        filtered_count=verified.filtered if counted else None,
        dead_lettered_count=verified.dead if counted else None,
        bytes=verified.size if counted else None,
        possible_duplicate_count=verified.may_repeat if checked else None,
        lost=verified.lost if checked else None,
        undelivered=verified.undelivered,
        contradictions=verified.contradictions,
        chunk_count=verified.chunks,
        finished_chunk_count=verified.finished_chunks,
        verified=verified.complete if checked else None,
    )


def _totals(
    ranges: Sequence[GapRange], chunks: int, verified: CatchupTotals | None, pending: int | None
) -> CatchupTotals:
    return replace(
        verified
        or CatchupTotals(
            partition_count=len(ranges), offset_count=sum(item.offsets for item in ranges), chunk_count=chunks
        ),
        pending_offset_count=pending,
        estimated_record_count=total(item.records for item in ranges),
        estimated_bytes=total(item.size for item in ranges),
    )
