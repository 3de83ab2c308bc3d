"""The JSON form of a history's parts: null for unknown, offsets as integers, times as RFC 3339 and in milliseconds."""

from __future__ import annotations

from typing import Any

from kgroup.groups.history.model import HistoryStep, HistoryTotals, PresentMember, Signature
from kgroup.groups.history.offset_jumps import SLICES, CommitReport, CommitTrend, OffsetJump
from kgroup.model.group_log import Partitions, ScannedRange
from kgroup.support.instants import rfc3339


def step_document(step: HistoryStep) -> dict[str, Any]:
    """A generation or an epoch; also one line of ``--follow``."""
    return {
        "protocol": step.protocol.value,
        "number": step.number,
        "kind": step.kind.value,
        "at": rfc3339(step.at_ms),
        "at_ms": step.at_ms,
        "log_offset": step.log_offset,
        "causes": [
            {"cause": reason.cause.value, "members": list(reason.members), "inferred": reason.inferred}
            for reason in step.reasons
        ],
        "leader": step.leader,
        "assignor": step.assignor,
        "members": [_present(present) for present in step.members],
        "moved": step.moved,
        "moved_needlessly": step.moved_needlessly,
        "never_completed": step.never_completed,
        "returned": list(step.returned),
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
        "away": present.away,
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
        "rebalances": totals.rebalances,
        "never_completed": totals.never_completed,
        "overtaken": totals.overtaken,
        "per_hour": totals.per_hour,
        "longest_took_ms": totals.longest_took_ms,
        "longest_quiet_ms": totals.longest_quiet_ms,
        "quiet_ms": totals.quiet_ms,
        "moved": totals.moved,
        "moved_needlessly": totals.moved_needlessly,
        "moved_unknown": totals.moved_unknown,
        "returned": totals.returned,
        "median_gap_ms": totals.median_gap_ms,
        "last": rfc3339(totals.last_ms),
        "causes": [{"cause": cause.value, "steps": count} for cause, count in totals.by_cause],
        "members": [
            {"name": one.name, "joined": one.joined, "went": one.went, "rebalances": one.rebalances}
            for one in totals.by_member
        ],
    }


def signature_document(one: Signature) -> dict[str, Any]:
    """A recognised pattern of rebalances."""
    return {
        "signature": one.kind.value,
        "from": rfc3339(one.from_ms),
        "to": rfc3339(one.to_ms),
        "first_log_offset": one.first,
        "last_log_offset": one.last,
        "rebalances": one.rebalances,
        "members": list(one.members),
        "text": one.text,
    }


def commits_document(commits: CommitReport, span_ms: int) -> dict[str, Any]:
    """The committed offsets over time; ``span_ms`` is the length of the span that was asked for."""
    return {
        "jumps": [_jump(jump) for jump in commits.jumps],
        "partitions": [_trend(trend) for trend in commits.trends],
        "slice_ms": max(0, span_ms) / SLICES,
        "aborted": commits.aborted,
        "open": commits.open,
    }


def _jump(jump: OffsetJump) -> dict[str, Any]:
    return {
        "at": rfc3339(jump.at_ms),
        "at_ms": jump.at_ms,
        "log_offset": jump.log_offset,
        "move": jump.move.value,
        "by": jump.by.value,
        "who": jump.who,
        "moved": jump.moved,
        "during": jump.step,
        "empty_since": rfc3339(jump.empty_since_ms),
        "beside_rebalance_ms": jump.rebalance_distance_ms,
        "partitions": [
            {"topic": topic, "partition": partition, "old": old, "new": new}
            for topic, partition, old, new in jump.changes
        ],
    }


def _trend(trend: CommitTrend) -> dict[str, Any]:
    return {
        "topic": trend.topic,
        "partition": trend.partition,
        "commits": trend.commits,
        "first_commit": rfc3339(trend.first_ms),
        "last_commit": rfc3339(trend.last_ms),
        "first_offset": trend.first,
        "last_offset": trend.last,
        "rate": trend.rate,
        "rates": list(trend.rates),
        "jumps_back": trend.back,
        "jumps_forward": trend.forward,
        "same_offset": trend.repeated,
    }


def of_reach(reach: ScannedRange) -> dict[str, Any]:
    """The range of the log that was read."""
    return {
        "start": reach.start,
        "end": reach.end,
        "oldest": rfc3339(reach.oldest_ms),
        "whole_from": reach.whole_from,
        "to_log_start": reach.to_log_start,
        "stopped": reach.stopped,
        "open_transaction_since": rfc3339(reach.open_since_ms),
    }
