"""The JSON of a plan: the same fields before ``--execute``, during the replay and at the end; null is unknown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kgroup.groups.catchup.delivered import lowest_undelivered
from kgroup.groups.catchup.gap import Gap, NotMoved, total
from kgroup.groups.catchup.model import Abandoned, CatchupPlan, Chunk, GapRange, PlanSnapshot
from kgroup.groups.catchup.risks import Risk
from kgroup.groups.catchup.verification import PartitionVerification, Verification, gone_before
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.instants import rfc3339


def gap_document(gap: Gap, chunks: Sequence[Chunk], risks: Iterable[Risk]) -> dict[str, Any]:
    """What ``start`` prints without ``--execute``; there is no plan id yet, and no delivery."""
    return {
        "plan_id": None,
        "group": gap.group,
        "state": None,
        "created": None,
        "created_ms": None,
        "who": None,
        "reason": None,
        "released_at": gap.released_at,
        "sink": None,
        "order": None,
        "tasks": None,
        "tuning": None,
        "ranges": [_range(item, None) for item in gap.ranges],
        "given_up": [_given_up(row) for row in gap.given_up],
        "gone": [_given_up(row) for row in gap.gone],
        "not_moved": [row.document() for row in gap.not_moved],
        "twice": [],
        "totals": _totals(gap.ranges, len(chunks), None),
        "warnings": [risk.document() for risk in risks],
    }


def plan_document(
    ledgered: PlanSnapshot, proof: Verification | None, risks: Iterable[Risk] = (), not_moved: Iterable[NotMoved] = ()
) -> dict[str, Any]:
    """A plan of the ledger and what was delivered of it. ``proof`` None: the delivery was not checked."""
    plan, delivery = ledgered.plan, ledgered.delivery
    proofs = {} if proof is None else {(row.topic, row.partition, row.start): row for row in proof.partitions}
    return {
        "plan_id": plan.id,
        "group": plan.group,
        "state": ledgered.state.state.value,
        "created": rfc3339(plan.created_ms),
        "created_ms": plan.created_ms,
        "who": plan.who,
        "reason": plan.reason,
        "released_at": plan.released_at,
        "sink": None if delivery is None else delivery.sink,
        "order": None if delivery is None else delivery.order.value,
        "tasks": None if delivery is None else len(delivery.tasks),
        "tuning": None if delivery is None else dict(delivery.tuning),
        "ranges": [_range(item, proofs.get((*item.tp, item.start))) for item in plan.ranges],
        "given_up": [_given_up(row) for row in plan.given_up],
        "gone": [_given_up(row) for row in gone_before(plan)],
        "not_moved": [row.document() for row in not_moved],
        "twice": []
        if proof is None
        else [
            {
                "topic": row.topic,
                "partition": row.partition,
                "start": row.start,
                "end": row.end,
                "at": rfc3339(row.at_ms),
                "at_ms": row.at_ms,
                "deleted": row.deleted,
            }
            for row in proof.rewinds
        ],
        "totals": _totals(plan.ranges, len(plan.chunks), proof),
        "warnings": [risk.document() for risk in risks],
    }


def _range(item: GapRange, proof: PartitionVerification | None) -> dict[str, Any]:
    return {
        "topic": item.topic,
        "partition": item.partition,
        "committed": None if item.before is None else item.before.offset,
        "start": item.start,
        "end": item.end,
        "records_estimate": item.records,
        "bytes_estimate": item.size,
        "oldest": rfc3339(item.oldest_ms),
        "oldest_ms": item.oldest_ms,
        "maybe_processed_until": item.maybe_processed_until,
        "retention_deadline": rfc3339(item.retention_deadline_ms),
        "retention_deadline_ms": item.retention_deadline_ms,
        "delivered_to": None if proof is None else proof.delivered_to,
        "read_to_end": None if proof is None else proof.read_to_end,
        "records": None if proof is None else proof.records,
        "delivered": None if proof is None else proof.delivered,
        "filtered": None if proof is None else proof.filtered,
        "dead": None if proof is None else proof.dead,
        "bytes": None if proof is None else proof.size,
        "may_repeat": None if proof is None else proof.may_repeat,
        "delivered_again": None if proof is None else proof.delivered_again,
        "lost": None if proof is None else [row.document() for row in proof.lost],
        "undelivered": None
        if proof is None
        else [{"start": row.start, "end": row.end, "offsets": row.offsets} for row in proof.undelivered],
        "disputed": None if proof is None else list(proof.contradictions),
        "chunks": None if proof is None else proof.chunks,
        "chunks_done": None if proof is None else proof.chunks_done,
        "complete": None if proof is None else proof.complete,
    }


_UNPROVED = (
    "read_to_end",
    "records",
    "delivered",
    "filtered",
    "dead",
    "bytes",
    "lost_offsets",
    "undelivered_offsets",
    "may_repeat",
    "delivered_again",
    "chunks_done",
    "complete",
)


def _totals(ranges: Sequence[GapRange], chunks: int, proof: Verification | None) -> dict[str, Any]:
    estimates = {
        "partitions": len(ranges),
        "offsets": sum(item.end - item.start for item in ranges),
        "records_estimate": total(item.records for item in ranges),
        "bytes_estimate": total(item.size for item in ranges),
        "chunks": chunks,
    }
    if proof is None:
        return {**estimates, **dict.fromkeys(_UNPROVED)}
    proved = proof.totals()
    return {**estimates, **{name: proved[name] for name in _UNPROVED}}


def _given_up(row: Abandoned) -> dict[str, Any]:
    return {
        "topic": row.topic,
        "partition": row.partition,
        "start": row.start,
        "end": row.end,
        "offsets": row.end - row.start,
        "why": row.why,
    }


def next_deadline_ms(ledgered: PlanSnapshot) -> int | None:
    """When retention may delete the first undelivered record, as known when the plan was made.

    None if everything is delivered or no deadline is known. ``catchup list`` sorts by it, earliest first.
    """
    owed: dict[TopicPartition, int] = lowest_undelivered(ledgered.plan, ledgered.progress)
    deadlines = (item.retention_deadline_ms for item in _owing(ledgered.plan, owed))
    return min((deadline for deadline in deadlines if deadline is not None), default=None)


def _owing(plan: CatchupPlan, owed: dict[TopicPartition, int]) -> Iterable[GapRange]:
    return (item for item in plan.ranges if item.tp in owed)
