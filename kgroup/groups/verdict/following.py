"""The line below the verdict that begins with ``->``: at most one further fact to check, no advice."""

from __future__ import annotations

from kgroup.groups.lag.evidence import LagEvidence
from kgroup.groups.lag.rates import LagTrend
from kgroup.groups.lag.report import GroupLag, PartitionLag
from kgroup.groups.lag.status import LagStatus
from kgroup.groups.verdict.pace import is_draining
from kgroup.groups.verdict.plain import assignment_sentence, members_sentence
from kgroup.groups.verdict.safe import Safety
from kgroup.groups.verdict.shape import LagShape, Shape, Siblings, member_words
from kgroup.groups.verdict.stuck import held_back, is_crash_loop, stuck_of
from kgroup.model.groups import Group
from kgroup.support.durations import format_duration
from kgroup.support.instants import short_time
from kgroup.support.units import percent, plural

_HOT = 3


def next_of(
    group: Group, report: GroupLag, evidence: LagEvidence, shape: Shape, safe: Safety | None, siblings: Siblings | None
) -> str | None:
    """The most urgent fact about a group; None if there is none.

    The order: a crash loop (before a rebalance, which would hide it), members and rebalances, records that retention
    deletes, blocking transactions, stuck partitions, what the lagging partitions have in common, and idle members.
    """
    if is_crash_loop(report, evidence.churn):
        return "members join and vanish before their first commit: a crash loop"
    if plain := members_sentence(group):
        return plain
    stuck = stuck_of(report)
    if safe is not None and safe.too_late and not stuck:
        return "retention takes unread records before they are read"
    row = held_back(report)
    if row is not None:
        return f"read_committed consumers of {row.where} get no further until that transaction ends"
    if stuck:
        return _of_stuck(group, evidence, shape, stuck)
    if shape.behind:
        found = _of_shape(group, report, shape, siblings)
        if found:
            return found
    return assignment_sentence(group)


def _of_stuck(group: Group, evidence: LagEvidence, shape: Shape, stuck: list[PartitionLag]) -> str:
    first = stuck[0]
    if shape.kind is LagShape.ONE_BROKER and len(stuck) > 1:
        return f"broker {shape.subject} leads all that stand still"
    owner = first.partition.owner
    if owner is None:
        seen = group.members is not None and all(m.assignment is not None for m in group.members)
        return f"{first.where} has no owner" if seen else f"who owns {first.where} is not known"
    who = member_words(group, owner.member_id)
    if first.status is LagStatus.STALL:
        return f"{who} goes on committing {first.where} at {first.first}: it polls, and does not get past it"
    owns = f"{who} owns {first.where}"
    others = sum(p.partition.owner is not None and p.partition.owner.member_id == owner.member_id for p in stuck) - 1
    if others:
        owns += f" and {others} more that stand still"
    facts = evidence.members.get(owner.member_id)
    owns += _alive(first, evidence.now_ms, None if facts is None else facts.session_timeout_ms)
    if facts is None or facts.max_poll_interval_ms is None:
        return owns
    until = ""
    if first.last_commit_ms is not None:
        end_ms = first.last_commit_ms + facts.max_poll_interval_ms
        if end_ms > evidence.now_ms:
            until = f", so the group keeps it until about {short_time(end_ms, evidence.now_ms)}"
    interval = format_duration(facts.max_poll_interval_ms / 1000)
    return f"{owns}; its max.poll.interval.ms is {interval}{until}"


def _alive(row: PartitionLag, now_ms: int, session_ms: int | None) -> str:
    """Whether a member is alive: a killed member stays in the group until its session ends."""
    if session_ms is None:
        return " and is still a member"
    if row.last_commit_ms is not None and now_ms - row.last_commit_ms > session_ms:
        return " and still heartbeats"
    return f" and still heartbeats, or did less than {format_duration(session_ms / 1000)} ago"


def _of_shape(group: Group, report: GroupLag, shape: Shape, siblings: Siblings | None) -> str | None:
    if is_draining(report):
        return "draining, leave it alone"
    if siblings is not None and siblings.all_lag:
        return "other groups lag on the same records: it is not this group alone"
    if shape.kind is LagShape.ONE_BROKER:
        return f"broker {shape.subject} leads all that are behind"
    if shape.kind is LagShape.ONE_PARTITION:
        return _hot(report, shape.behind[0])
    if shape.kind is LagShape.ONE_MEMBER:
        return f"{member_words(group, shape.subject)} owns all that are behind"
    if shape.kind is LagShape.EVERY and report.total.outlook.pace is LagTrend.NEVER and group.members:
        return f"{plural(len(group.members), 'member')} for {plural(len(report.partitions), 'partition')}"
    return None


def _hot(report: GroupLag, row: PartitionLag) -> str | None:
    """The sentence about a partition that gets at least 3 times its share of arriving records; None if it does not."""
    same = [p for p in report.partitions if p.partition.topic == row.partition.topic]
    rates = [p.rates.incoming for p in same if p.rates.incoming is not None]
    if row.rates.incoming is None or len(rates) < len(same) or len(same) < 2 or not sum(rates):
        return None
    if row.rates.incoming * len(same) < _HOT * sum(rates):
        return None
    share = percent(round(row.rates.incoming * 1000), round(sum(rates) * 1000))
    return f"{row.where} gets {share} of what arrives on {row.partition.topic}: keys are not spread evenly"
