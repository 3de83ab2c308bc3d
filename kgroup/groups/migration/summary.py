"""Many groups in a few rows: the number of groups by readiness and way of migrating, and the main reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kgroup.groups.migration.about_group import ALREADY
from kgroup.groups.migration.check import How, Readiness, ReadinessResult
from kgroup.groups.migration.checks import CHECKS
from kgroup.groups.migration.verdict import main_check, offline_check

_VERDICTS = (ReadinessResult.DONE, ReadinessResult.READY, ReadinessResult.WARNING, ReadinessResult.BLOCKED)
_HOWS = (How.NONE, How.NOW, How.ROLLING, How.STOP)
_LABELS = {subject.id: subject.label for subject in CHECKS}
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class ReadinessSummary:
    """Groups of one readiness that migrate in one way; ``reason`` is their common one, or counts their reasons."""

    verdict: ReadinessResult
    how: How
    count: int
    reason: str


def summary(readinesses: Iterable[Readiness]) -> tuple[ReadinessSummary, ...]:
    """Rows for done, ready, warning and blocked groups, in this order; each split by how the groups migrate."""
    sorts: dict[tuple[ReadinessResult, How], list[Readiness]] = {}
    for item in readinesses:
        sorts.setdefault((item.verdict, item.how), []).append(item)
    return tuple(
        ReadinessSummary(verdict, how, len(found), _reason(found))
        for verdict in _VERDICTS
        for how in _HOWS
        if (found := sorts.get((verdict, how)))
    )


def _reason(readinesses: Sequence[Readiness]) -> str:
    """The reason if all groups have the same one, else the labels of the reasons with counts, most frequent first."""
    reasons = {item.reason for item in readinesses}
    if len(reasons) == 1:
        return reasons.pop() or ""
    counts = Counter(_label(item) for item in readinesses)
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    named = ", ".join(f"{label} ({count})" for label, count in ordered[:_SHOWN])
    rest = sum(count for _, count in ordered[_SHOWN:])
    return f"{named}, others ({rest})" if rest else named


def _label(item: Readiness) -> str:
    check = main_check(item.checks) or offline_check(item.checks)
    if check is None:
        under_way = any(check.id == ALREADY.id and check.brief for check in item.checks)
        return ALREADY.label if under_way else item.reason or "others"
    if check.id == "kind" and check.brief:
        return check.brief.removeprefix("owned by ").removeprefix("a ").removesuffix(" group")
    return _LABELS.get(check.id, check.id)
