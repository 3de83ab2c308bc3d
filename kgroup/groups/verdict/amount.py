"""LAG and RANGE: how much is unread, where most of it is, how old it is; and what is gone."""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.durations import format_duration
from kgroup.groups.lag.evidence import Evidence, Isolation, Source
from kgroup.groups.lag.report import GroupLag
from kgroup.model import Group, Partition
from kgroup.units import human_count, percent, plural


def lag_line(group: Group) -> str:
    """Largest partition before the total: ``3.94M on orders:7, 96% of 4.10M``; of a group alone, without evidence."""
    known = [(lag, f"{p.topic}:{p.partition}") for p in group.partitions if (lag := p.lag) is not None]
    return _amount(group, known)


def measured_line(group: Group, report: GroupLag, evidence: Evidence) -> str:
    """The same from a measurement: with the age of the oldest unread record, and what does not count."""
    text = _amount(group, [(p.lag, p.where) for p in report.partitions if p.lag is not None])
    if not report.total.lag:
        return text + _phantom(report)
    against = " below the last stable offset" if report.isolation is Isolation.READ_COMMITTED else ""
    return f"{text}{against}; {_age(report, evidence)}{_phantom(report)}"


def _age(report: GroupLag, evidence: Evidence) -> str:
    oldest = report.total.oldest
    if oldest is None or oldest.behind_ms is None:
        return f"age unknown: {evidence.why_unknown(Source.TIME)}"
    where = "" if oldest is report.total.largest else f" on {oldest.where}"
    least = "at least " if report.total.behind_ms is None else ""
    return f"oldest unread record {least}{format_duration(oldest.behind_ms // 1000)}{where}"


def _phantom(report: GroupLag) -> str:
    phantom = sum(p.phantom for p in report.partitions)
    return f"; {human_count(phantom)} more offsets hold no record" if phantom else ""


def _amount(group: Group, known: Sequence[tuple[int, str]]) -> str:
    if not known:
        return "unknown: " + _why_unknown(group)
    total = sum(lag for lag, _ in known)
    lag, where = max(known, key=lambda pair: pair[0])
    unknown = len(group.partitions) - len(known)
    beside = f"; unknown on {plural(unknown, 'other partition')}" if unknown else ""
    if total == 0:
        return f"0 on {plural(len(known), 'partition')}{beside}"
    if len(known) == 1:
        return f"{human_count(total)} on {where}{beside}"
    lagging = sum(lag > 0 for lag, _ in known)
    return (
        f"{human_count(lag)} on {where}, {percent(lag, total)} of {human_count(total)} "
        f"over {lagging} of {plural(len(known), 'partition')}{beside}"
    )


def _why_unknown(group: Group) -> str:
    if not group.partitions:
        return "no committed offset, and no partition is assigned"
    if any(partition.error for partition in group.partitions):
        return "the offsets or the logs could not be read"
    return "nothing is committed yet"


def range_line(outside: Sequence[Partition]) -> str:
    """What is gone, or why an offset can't be right, of the first such partition; and how many more there are."""
    first = outside[0]
    assert first.commit is not None
    assert first.log is not None
    where, offset = f"{first.topic}:{first.partition}", first.commit.offset
    if first.out_of_range == "BELOW_START":
        gone = first.log.start - offset
        what = f"committed {offset} lies below the log start {first.log.start}: {plural(gone, 'offset')} gone"
    else:
        what = f"committed {offset} lies above the log end {first.log.end}: topic recreated, or log truncated?"
    more = f"; {len(outside) - 1} more out of range" if len(outside) > 1 else ""
    return f"{where} {what}{more}"
