"""The LAG line: the number of unread records, the partition with most of them, and their age."""

from __future__ import annotations

from kgroup.groups.lag.evidence import Isolation, LagEvidence, Source
from kgroup.groups.lag.report import GroupLag
from kgroup.groups.verdict.plain import amount
from kgroup.model.groups import Group
from kgroup.support.durations import format_duration
from kgroup.support.units import human_count


def measured_line(group: Group, report: GroupLag, evidence: LagEvidence) -> str:
    """The LAG line of a measured group, with the age of the oldest unread record and the phantom offsets."""
    text = amount(group, [(p.lag, p.where) for p in report.partitions if p.lag is not None])
    if not report.total.lag:
        return text + _phantom(report)
    against = " below the last stable offset" if report.isolation is Isolation.READ_COMMITTED else ""
    return f"{text}{against}; {_age(report, evidence)}{_phantom(report)}"


def _age(report: GroupLag, evidence: LagEvidence) -> str:
    oldest = report.total.oldest
    if oldest is None or oldest.behind_ms is None:
        return f"age unknown: {evidence.why_unknown(Source.TIME)}"
    where = "" if oldest is report.total.largest else f" on {oldest.where}"
    least = "at least " if report.total.behind_ms is None else ""
    return f"oldest unread record {least}{format_duration(oldest.behind_ms // 1000)}{where}"


def _phantom(report: GroupLag) -> str:
    phantom = sum(p.phantom for p in report.partitions)
    return f"; {human_count(phantom)} more offsets hold no record" if phantom else ""
