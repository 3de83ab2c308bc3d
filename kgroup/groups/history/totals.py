"""Sums over the steps of a span of time, and the members that cause most of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from kgroup.groups.history.model import WENT, Blamed, Cause, HistoryStep, HistoryTotals, StepKind

_HOUR_MS = 3_600_000
_PATIENCE_MS = 60_000
_LONGEST_PATIENCE_MS = 300_000


def totals_of(steps: Sequence[HistoryStep], span_ms: int) -> HistoryTotals:
    """The totals of these steps, which happened within ``span_ms``; 41 rebalances in 30 min are 82.0 per hour."""
    rebalances = [step for step in steps if step.kind is StepKind.REBALANCE]
    count = sum(step.rebalances for step in steps)
    took = [step.took_ms for step in rebalances if step.took_ms is not None]
    quiet = [step.quiet_ms for step in rebalances if step.quiet_ms is not None]
    gaps = [later.at_ms - earlier.at_ms for earlier, later in pairwise(rebalances)]
    moved = [step.moved for step in rebalances if step.moved is not None]
    return HistoryTotals(
        rebalances=count,
        never_completed=sum(step.never_completed or 0 for step in steps),
        overtaken=sum(step.completed is False for step in steps),
        per_hour=count * _HOUR_MS / span_ms if span_ms > 0 else None,
        longest_took_ms=max(took, default=None),
        longest_quiet_ms=max(quiet, default=None),
        quiet_ms=sum(quiet) if quiet else None,
        moved=sum(moved),
        moved_needlessly=sum(step.moved_needlessly or 0 for step in rebalances),
        moved_unknown=len(rebalances) - len(moved),
        returned=sum(len(step.returned) for step in steps),
        median_gap_ms=round(median(gaps)) if len(gaps) > 1 else None,
        last_ms=rebalances[-1].at_ms if rebalances else None,
        by_cause=_by_cause(steps),
        by_member=_by_member(steps),
    )


def _by_cause(steps: Sequence[HistoryStep]) -> tuple[tuple[Cause, int], ...]:
    """The number of steps with each cause, highest first; a step may have several causes."""
    counts = Counter(cause for step in steps for cause in step.causes)
    order = list(Cause)
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], order.index(item[0]))))


def _by_member(steps: Sequence[HistoryStep]) -> tuple[Blamed, ...]:
    joined, went, caused = Counter[str](), Counter[str](), Counter[str]()
    for step in steps:
        concerned = set[str]()
        for reason in step.reasons:
            if reason.cause in (Cause.JOIN, Cause.STATIC_REPLACED):
                joined.update(reason.members)
            elif reason.cause in WENT:
                went.update(reason.members)
            elif reason.cause is not Cause.SUBSCRIPTION:
                continue
            concerned.update(reason.members)
        if step.kind is StepKind.REBALANCE:
            caused.update(concerned)
    names = sorted(joined.keys() | went.keys() | caused.keys(), key=lambda name: (-caused[name], name))
    return tuple(Blamed(name, joined[name], went[name], caused[name]) for name in names)


def is_over(totals: HistoryTotals, now_ms: int) -> bool | None:
    """Whether the rebalances have ended; None if there were none.

    That is three median gaps after the last one, within 1 to 5 minutes: one rebalance per hour is no storm.
    """
    if totals.last_ms is None:
        return None
    patience_ms = min(_LONGEST_PATIENCE_MS, max(_PATIENCE_MS, 3 * (totals.median_gap_ms or 0)))
    return now_ms - totals.last_ms > patience_ms
