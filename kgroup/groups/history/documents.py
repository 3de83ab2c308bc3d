"""The JSON form of a history's parts: null for unknown, offsets as integers, times as RFC 3339 and in milliseconds."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from kgroup.groups.history.model import HistoryStep, HistoryTotals, PresentMember, Signature
from kgroup.groups.history.offset_jumps import CommitReport, OffsetJump, undo_jump
from kgroup.model.group_log import Partitions, ScannedRange
from kgroup.support.instants import rfc3339


def step_document(step: HistoryStep) -> dict[str, Any]:
    """A generation or an epoch; also one line of ``--follow``."""
    return {
        "protocol": step.protocol.value,
        "number": step.number,
        "step_kind": step.kind.value,
        "recorded_at": rfc3339(step.at_ms),
        "recorded_at_ms": step.at_ms,
        "log_offset": step.log_offset,
        "causes": [
            {"cause": reason.cause.value, "members": list(reason.members), "inferred": reason.inferred}
            for reason in step.reasons
        ],
        "leader": step.leader,
        "assignor": step.assignor,
        "members": [_present(present) for present in step.members],
        "moved_count": step.moved,
        "moved_needlessly_count": step.moved_needlessly,
        "never_completed_count": step.never_completed,
        "returned_members": list(step.returned),
        "completed": step.completed,
        "joined_at": rfc3339(step.joined_ms),
        "took_ms": step.took_ms,
        "quiet_ms": step.quiet_ms,
        "lasted_ms": step.lasted_ms,
    }


def _present(present: PresentMember) -> dict[str, Any]:
    return {
        "name": present.name,
        "member_id": present.member_id,
        "instance_id": present.instance_id,
        "client_id": present.client_id,
        "host": present.host,
        "assignment": _assignment(present.partitions),
        "changed": present.other,
        "left_temporarily": present.away,
        "session_timeout_ms": present.session_ms,
        "rebalance_timeout_ms": present.poll_ms,
    }


def _assignment(partitions: Partitions | None) -> list[dict[str, Any]] | None:
    if partitions is None:
        return None
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()]


def totals_document(totals: HistoryTotals) -> dict[str, Any]:
    """The sums over the steps."""
    return {
        "rebalance_count": totals.rebalances,
        "never_completed_count": totals.never_completed,
        "overtaken_count": totals.overtaken,
        "rebalances_per_hour": totals.per_hour,
        "longest_took_ms": totals.longest_took_ms,
        "longest_quiet_ms": totals.longest_quiet_ms,
        "quiet_ms": totals.quiet_ms,
        "moved_count": totals.moved,
        "moved_needlessly_count": totals.moved_needlessly,
        "moved_unknown_count": totals.moved_unknown,
        "returned_count": totals.returned,
        "median_gap_ms": totals.median_gap_ms,
        "last_rebalance_at": rfc3339(totals.last_ms),
        "causes": [{"cause": cause.value, "step_count": count} for cause, count in totals.by_cause],
        "members": [
            {"name": one.name, "joined_count": one.joined, "left_count": one.went, "rebalance_count": one.rebalances}
            for one in totals.by_member
        ],
    }


def signature_document(one: Signature) -> dict[str, Any]:
    """A recognised pattern of rebalances."""
    return {
        "signature": one.kind.value,
        "began_at": rfc3339(one.from_ms),
        "ended_at": rfc3339(one.to_ms),
        "first_log_offset": one.first,
        "last_log_offset": one.last,
        "rebalance_count": one.rebalances,
        "members": list(one.members),
        "text": one.text,
    }


def commits_document(group: str, commits: CommitReport, closed: Container[str]) -> dict[str, Any]:
    """The jumps of committed offsets; ``closed`` are finished catch-ups."""
    return {
        "jumps": [_jump(group, jump, closed) for jump in commits.jumps],
        "aborted_count": commits.aborted,
        "open_count": commits.open,
    }


def _jump(group: str, jump: OffsetJump, closed: Container[str]) -> dict[str, Any]:
    return {
        "recorded_at": rfc3339(jump.at_ms),
        "recorded_at_ms": jump.at_ms,
        "log_offset": jump.log_offset,
        "move": jump.move.value,
        "author": jump.by.value,
        "author_name": jump.who,
        "moved_offsets": jump.moved,
        "step_number": jump.step,
        "emptied_at": rfc3339(jump.empty_since_ms),
        "rebalance_distance_ms": jump.rebalance_distance_ms,
        "partitions": [
            {"topic": topic, "partition": partition, "old_offset": old, "new_offset": new}
            for topic, partition, old, new in jump.changes
        ],
        "command": undo_jump(group, jump, closed),
    }


def scan_document(reach: ScannedRange) -> dict[str, Any]:
    """The range of the log that was read."""
    return {
        "from": rfc3339(reach.oldest_ms),
        "stopped_reason": reach.stopped,
        "start_offset": reach.start,
        "end_offset": reach.end,
        "complete_from_offset": reach.whole_from,
        "to_log_start": reach.to_log_start,
        "open_transaction_began_at": rfc3339(reach.open_since_ms),
    }
