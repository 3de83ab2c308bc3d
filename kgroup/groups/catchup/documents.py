"""The JSON of a plan: the same fields before ``--execute``, during the replay and at the end; null is unknown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from kgroup.groups.catchup.delivered import lowest_undelivered
from kgroup.groups.catchup.gap import Gap, NotMoved, total
from kgroup.groups.catchup.model import Chunk, GapRange, PlanSnapshot, RangeVerification
from kgroup.groups.catchup.risks import Risk
from kgroup.groups.catchup.verification import Verification, deleted_before
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.instants import rfc3339


class PlanSummary(msgspec.Struct, frozen=True):
    """What a plan's document has at its top, with the words of the tables.

    ``phase`` is the state as one word, ``pending`` the offsets that are not delivered yet, ``destination`` the sink's
    name; None before there is a plan, or a sink.
    """

    phase: str | None = None
    pending: int | None = None
    destination: str | None = None


def gap_document(gap: Gap, chunks: Sequence[Chunk], risks: Iterable[Risk], destination: str | None) -> dict[str, Any]:
    """What ``start`` prints without ``--execute``; there is no plan id yet, and no delivery."""
    deadlines = [item.retention_deadline_ms for item in gap.ranges if item.retention_deadline_ms is not None]
    deadline = min(deadlines, default=None)
    return {
        "plan_id": None,
        "group": gap.group,
        "state": None,
        "phase": None,
        "created_at": None,
        "created_at_ms": None,
        "created_by": None,
        "comment": None,
        "release_point": gap.release_point,
        "sink": None,
        "destination": destination,
        "order": None,
        "task_count": None,
        "tuning": None,
        "retention_deadline_at": rfc3339(deadline),
        "retention_deadline_at_ms": deadline,
        "ranges": [_range(item, gap.group, None) for item in gap.ranges],
        "abandoned": [row.document() for row in gap.abandoned],
        "already_deleted": [row.document() for row in gap.already_deleted],
        "not_moved": [row.document() for row in gap.not_moved],
        "rewinds": [],
        "totals": _totals(gap.ranges, len(chunks), None, None),
        "risks": [risk.document() for risk in risks],
    }


def plan_document(
    ledgered: PlanSnapshot,
    verification: Verification | None,
    summary: PlanSummary,
    risks: Iterable[Risk] = (),
    not_moved: Iterable[NotMoved] = (),
) -> dict[str, Any]:
    """A plan of the ledger and what was delivered of it. ``verification`` None: the delivery was not checked."""
    plan, delivery = ledgered.plan, ledgered.delivery
    partitions = () if verification is None else verification.partitions
    verified = {(row.topic, row.partition, row.start): row for row in partitions}
    deadline = next_deadline_ms(ledgered) if summary.pending else None
    return {
        "plan_id": plan.id,
        "group": plan.group,
        "state": ledgered.state.state.value,
        "phase": summary.phase,
        "created_at": rfc3339(plan.created_ms or None),
        "created_at_ms": plan.created_ms or None,
        "created_by": plan.who,
        "comment": plan.reason,
        "release_point": plan.release_point,
        "sink": None if delivery is None else delivery.sink,
        "destination": summary.destination,
        "order": None if delivery is None else delivery.order.value,
        "task_count": None if delivery is None else len(delivery.tasks),
        "tuning": None if delivery is None else dict(delivery.tuning),
        "retention_deadline_at": rfc3339(deadline),
        "retention_deadline_at_ms": deadline,
        "ranges": [_range(item, plan.group, verified.get((*item.tp, item.start))) for item in plan.ranges],
        "abandoned": [row.document() for row in plan.abandoned],
        "already_deleted": [row.document() for row in deleted_before(plan)],
        "not_moved": [row.document() for row in not_moved],
        "rewinds": []
        if verification is None
        else [
            {
                "topic": row.topic,
                "partition": row.partition,
                "start": row.start,
                "end": row.end,
                "rewound_at": rfc3339(row.at_ms),
                "rewound_at_ms": row.at_ms,
                "commit_deleted": row.deleted,
            }
            for row in verification.rewinds
        ],
        "totals": _totals(plan.ranges, len(plan.chunks), verification, summary.pending),
        "risks": [risk.document() for risk in risks],
    }


def _range(item: GapRange, group: str | None, verified: RangeVerification | None) -> dict[str, Any]:
    """``old_offset`` None: there was no commit, or no group is moved; ``new_offset`` None: no group is moved."""
    return {
        "topic": item.topic,
        "partition": item.partition,
        "old_offset": None if item.before is None else item.before.offset,
        "new_offset": None if group is None else item.end,
        "start": item.start,
        "end": item.end,
        "estimated_record_count": item.records,
        "estimated_bytes": item.size,
        "oldest_record_at": rfc3339(item.oldest_ms),
        "oldest_record_at_ms": item.oldest_ms,
        "maybe_processed_until": item.maybe_processed_until,
        "retention_deadline_at": rfc3339(item.retention_deadline_ms),
        "retention_deadline_at_ms": item.retention_deadline_ms,
        "delivered_to": None if verified is None else verified.delivered_to,
        "read_to_end": None if verified is None else verified.read_to_end,
        "record_count": None if verified is None else verified.records,
        "delivered_count": None if verified is None else verified.delivered,
        "filtered_count": None if verified is None else verified.filtered,
        "dead_lettered_count": None if verified is None else verified.dead,
        "bytes": None if verified is None else verified.size,
        "possible_duplicate_count": None if verified is None else verified.may_repeat,
        "lost": None if verified is None else [row.document() for row in verified.lost],
        "undelivered": None
        if verified is None
        else [{"start": row.start, "end": row.end, "offset_count": row.offsets} for row in verified.undelivered],
        "contradictions": None if verified is None else list(verified.contradictions),
        "chunk_count": None if verified is None else verified.chunks,
        "finished_chunk_count": None if verified is None else verified.finished_chunks,
        "verified": None if verified is None else verified.complete,
    }


_UNVERIFIED = (
    "read_to_end_count",
    "record_count",
    "delivered_count",
    "filtered_count",
    "dead_lettered_count",
    "bytes",
    "lost_offset_count",
    "undelivered_offset_count",
    "possible_duplicate_count",
    "finished_chunk_count",
    "verified",
)


def _totals(
    ranges: Sequence[GapRange], chunks: int, verification: Verification | None, pending: int | None
) -> dict[str, Any]:
    planned = {
        "partition_count": len(ranges),
        "offset_count": sum(item.offsets for item in ranges),
        "pending_offset_count": pending,
        "estimated_record_count": total(item.records for item in ranges),
        "estimated_bytes": total(item.size for item in ranges),
        "chunk_count": chunks,
    }
    if verification is None:
        return {**planned, **dict.fromkeys(_UNVERIFIED)}
    sums = verification.totals()
    return {**planned, **{name: sums[name] for name in ("chunk_count", *_UNVERIFIED)}}


def next_deadline_ms(ledgered: PlanSnapshot) -> int | None:
    """When retention may delete the first undelivered record, as known when the plan was made.

    None if everything is delivered or no deadline is known. ``catchup list`` sorts by it, earliest first.
    """
    pending: dict[TopicPartition, int] = lowest_undelivered(ledgered.plan, ledgered.progress)
    deadlines = (item.retention_deadline_ms for item in ledgered.plan.ranges if item.tp in pending)
    return min((deadline for deadline in deadlines if deadline is not None), default=None)
