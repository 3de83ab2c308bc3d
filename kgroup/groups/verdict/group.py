"""A group's verdict: its lines in order, the next fact to check, and its JSON form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kgroup.groups.lag.evidence import LagEvidence, Source
from kgroup.groups.lag.measure import measure
from kgroup.groups.lag.rates import LagTrend
from kgroup.groups.lag.report import GroupLag
from kgroup.groups.verdict.amount import measured_line
from kgroup.groups.verdict.following import next_of
from kgroup.groups.verdict.line import VerdictLine
from kgroup.groups.verdict.pace import is_draining, rate_line
from kgroup.groups.verdict.plain import range_line
from kgroup.groups.verdict.safe import Safety, safety
from kgroup.groups.verdict.shape import Shape, Siblings, shape_of, shape_words, siblings_of, siblings_words
from kgroup.groups.verdict.stuck import back_line, stuck_line, stuck_of, transaction_line
from kgroup.model.groups import Group
from kgroup.support.durations import format_duration


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """A group's lag and its interpretation. ``next`` is the next fact to check, None if nothing is unusual."""

    group: Group
    report: GroupLag
    evidence: LagEvidence
    lines: tuple[VerdictLine, ...]
    next: str | None
    shape: Shape
    safe: Safety | None
    siblings: Siblings | None

    @property
    def state(self) -> str:
        """``Stable for 41m``, or ``Stable, since when is unknown`` if that could not be read."""
        state, since_ms = self.group.state, self.evidence.state_since_ms
        if since_ms is None:
            return f"{state}, since when is unknown" if Source.STATE in self.evidence.unknown else state
        return f"{state} for {format_duration(max(0, self.evidence.now_ms - since_ms) // 1000)}"

    def document(self) -> dict[str, Any]:
        """Its JSON form: the field ``verdict`` of a described group."""
        siblings = self.siblings
        return {
            "state_since_ms": self.evidence.state_since_ms,
            "lag_status": None if self.report.total.status is None else str(self.report.total.status),
            "draining": is_draining(self.report) if self.report.total.outlook.pace is not LagTrend.UNKNOWN else None,
            "shape": {
                "kind": str(self.shape.kind),
                "subject": self.shape.subject,
                "partitions": [p.where for p in self.shape.behind],
                "of": self.shape.of,
            },
            "stuck": [p.where for p in stuck_of(self.report)],
            "retention_left_ms": None if self.safe is None else self.safe.left_ms,
            "siblings": None
            if siblings is None
            else {
                "keeping_up": list(siblings.keeping_up),
                "lagging": list(siblings.lagging),
                "unknown": list(siblings.unknown),
                "quiet": list(siblings.quiet),
                "unseen": siblings.unseen,
            },
            "lines": [{"word": line.word, "text": line.text} for line in self.lines],
            "next": self.next,
        }


def verdict(group: Group, evidence: LagEvidence, report: GroupLag | None = None) -> GroupVerdict:
    """The verdict on a group. ``report`` is its measurement; None: it is measured here."""
    report = report or measure(group, evidence)
    shape, safe = shape_of(report), safety(report, evidence)
    siblings = (
        None
        if evidence.siblings is None
        else siblings_of(evidence.siblings, shape, report, evidence.unknown.get(Source.SIBLINGS))
    )
    return GroupVerdict(
        group=group,
        report=report,
        evidence=evidence,
        lines=tuple(_lines(group, report, evidence, shape, safe, siblings)),
        next=next_of(group, report, evidence, shape, safe, siblings),
        shape=shape,
        safe=safe,
        siblings=siblings,
    )


def _lines(
    group: Group, report: GroupLag, evidence: LagEvidence, shape: Shape, safe: Safety | None, siblings: Siblings | None
) -> list[VerdictLine]:
    lines = [VerdictLine("LAG", measured_line(group, report, evidence))]
    if (text := stuck_line(report, evidence)) is not None:
        lines.append(VerdictLine("STUCK", text, None if text.startswith("unknown") else "bad"))
    if (text := back_line(report)) is not None:
        lines.append(VerdictLine("BACK", text, "warn"))
    if outside := [partition for partition in group.partitions if partition.out_of_range]:
        lines.append(VerdictLine("RANGE", range_line(outside), "bad"))
    if (text := transaction_line(report)) is not None:
        lines.append(VerdictLine("TXN", text, "warn"))
    if group.partitions:
        lines.append(VerdictLine("RATE", rate_line(report, evidence)))
    if safe is not None:
        lines.append(VerdictLine("SAFE", safe.text, safe.style))
    if report.total.lag:
        lines.append(VerdictLine("SHAPE", f"{shape_words(shape, group)}; {_others(evidence, siblings)}"))
    return lines


def _others(evidence: LagEvidence, siblings: Siblings | None) -> str:
    if siblings is None:
        return f"other groups unknown: {evidence.why_unknown(Source.SIBLINGS)}"
    return siblings_words(siblings)
