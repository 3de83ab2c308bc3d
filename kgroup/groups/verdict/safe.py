"""The SAFE line: the time until retention deletes unread records."""

from __future__ import annotations

from dataclasses import dataclass

from kgroup.groups.lag.evidence import LagEvidence, Retention, Source
from kgroup.groups.lag.rates import LagTrend
from kgroup.groups.lag.report import GroupLag, PartitionLag
from kgroup.groups.verdict.line import LineSeverity
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.durations import format_duration
from kgroup.support.units import human_bytes

_SOON_MS = 900_000
_CLOSE_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Safety:
    """The retention left of the partition whose unread records are deleted first.

    ``left_ms`` is 0 if that can happen at any moment; None if retention deletes none, or the time is unknown.
    ``too_late`` is whether records will be deleted before the partition has caught up at the present rates.
    """

    text: str
    style: LineSeverity | None
    left_ms: int | None
    too_late: bool = False


def safety(report: GroupLag, evidence: LagEvidence) -> Safety | None:
    """The retention left of the unread records; None if nothing is unread."""
    lagging = [p for p in report.partitions if p.lag]
    if not lagging:
        return None
    dated = [(p.headroom.left_ms, p) for p in lagging if p.headroom is not None and p.headroom.left_ms is not None]
    if not dated:
        return _undated(lagging, evidence)
    left_ms, first = min(dated, key=lambda pair: pair[0])
    retention = evidence.partitions[TopicPartition(first.partition.topic, first.partition.partition)].retention
    assert retention is not None
    unknown = sum(p.headroom is None or (p.headroom.left_ms is None and not p.headroom.endless) for p in lagging)
    beside = f"; unknown on {unknown} of {len(lagging)} lagging partitions" if unknown else ""
    where = "the first unread record" + (f" of {first.where}" if len(report.partitions) > 1 else "")
    what = _what(retention, first)
    if left_ms == 0:
        return Safety(f"{what} may take {where} at any moment{beside}", "bad", 0, too_late=True)
    about = "about " if first.headroom is not None and first.headroom.by == "size" else ""
    text = f"{what} takes {where} in {about}{format_duration(left_ms / 1000)}"
    late = _too_late(dated)
    if late is not None:
        left, row = late
        never = row.outlook.pace is LagTrend.NEVER
        when = "never caught up" if never else f"caught up only in {format_duration(row.outlook.seconds or 0)}"
        place = "" if row is first else f"; {row.where} has {format_duration(left / 1000)} left"
        text += f"{place}, {when} at this rate"
    style: LineSeverity | None = "bad" if left_ms < _SOON_MS else "warn" if left_ms < _CLOSE_MS or late else None
    return Safety(text + beside, style, left_ms, too_late=late is not None)


def _too_late(dated: list[tuple[int, PartitionLag]]) -> tuple[int, PartitionLag] | None:
    """The first partition that drains too slowly. RATE and STUCK report those that never catch up."""
    draining = [(left, p) for left, p in dated if p.outlook.pace is LagTrend.DRAINING]
    late = [(left, p) for left, p in draining if (p.outlook.seconds or 0) * 1000 > left]
    return min(late, key=lambda pair: pair[0]) if late else None


def _undated(lagging: list[PartitionLag], evidence: LagEvidence) -> Safety:
    known = [p for p in lagging if p.headroom is not None]
    if not known:
        return Safety(f"unknown: {evidence.why_unknown(Source.RETENTION)}", None, None)
    compacted = [p for p in known if p.headroom is not None and p.headroom.compacted]
    if compacted:
        topic = compacted[0].partition.topic
        return Safety(f"{topic} is compacted: an unread record goes where its key has a newer one", None, None)
    if all(p.headroom is not None and p.headroom.endless for p in known):
        return Safety("nothing takes unread records: retention is without limit", None, None)
    return Safety(f"unknown: age of the first unread record: {evidence.why_unknown(Source.TIME)}", None, None)


def _what(retention: Retention, first: PartitionLag) -> str:
    if first.headroom is not None and first.headroom.by == "size" and retention.limit_bytes is not None:
        return f"retention.bytes ({human_bytes(retention.limit_bytes)})"
    return f"retention ({format_duration((retention.time_ms or 0) / 1000)})"
