"""Whether the lag began with a change of the group's members. Pure."""

from __future__ import annotations

from kgroup.groups.history.roster import RosterChange
from kgroup.groups.lag.evidence import LagEvidence
from kgroup.groups.lag.report import GroupLag, PartitionLag
from kgroup.groups.thresholds import BEHIND_SHARE, LAG_FOLLOWS, LEAST_UNREAD


def change_moments(evidence: LagEvidence) -> tuple[int, int] | None:
    """When the last change of the members began, and until when a lag begins with it; None without a change."""
    change = evidence.roster
    return None if change is None else (change.began_ms, min(evidence.now_ms, change.ended_ms + LAG_FOLLOWS.value))


def lag_began_with(report: GroupLag, evidence: LagEvidence) -> RosterChange | None:
    """The last change of the members, if the lag was small then, and was not within ``LAG_FOLLOWS``.

    Small is a fifth of what it was after that. None if the lag of one of these moments is unknown, or has gone since.
    """
    rows = [row for row in report.partitions if row.lag]
    moments_ms = change_moments(evidence)
    if moments_ms is None or not rows:
        return None
    before, later = (_lag_at(moments_ms, index, rows, evidence) for index in (0, 1))
    if before is None or later is None or later < LEAST_UNREAD.value or 100 * before > BEHIND_SHARE.value * later:
        return None
    lag = sum(row.lag or 0 for row in rows)
    return evidence.roster if 100 * lag > BEHIND_SHARE.value * later else None


def _lag_at(moments_ms: tuple[int, int], index: int, rows: list[PartitionLag], evidence: LagEvidence) -> int | None:
    """The lag by the last commit before that moment; what was committed before the oldest known one is unknown."""
    lag = 0
    for row in rows:
        tp = row.partition.tp
        ends, known = evidence.change_ends.get(tp), evidence.partitions.get(tp)
        commits = known.commits if known else ()
        committed = [commit.offset for commit in commits if commit.timestamp_ms <= moments_ms[index]]
        if ends is None or not committed:
            return None
        lag += max(0, ends[index] - committed[-1])
    return lag
