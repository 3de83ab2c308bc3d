"""What may go wrong with a catch-up, listed before it starts: retention, skew, order, possible duplicates. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from kgroup.groups.catchup.gap import Gap, LastActivity, PartitionLog
from kgroup.groups.catchup.model import GapRange, ReleasePoint
from kgroup.model.kafka_tools import acl_hint
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.durations import format_duration
from kgroup.support.errors import RETENTION
from kgroup.support.json_types import Count, ExplainedEnum
from kgroup.support.units import human_count, percent, plural

_SAFETY = 2.0
"""The replay time is an estimate: warn if less than twice that time is left."""

_LONG_S = 86_400.0
"""If the replay time is unknown: warn if less is left."""


class RiskLevel(ExplainedEnum):
    """How bad a risk is; with BLOCKED the catch-up does not start."""

    NOTE = "note", "worth knowing"
    WARNING = "warning", "may go wrong"
    BLOCKED = "blocked", "will go wrong"


class Risk(msgspec.Struct, frozen=True):
    """One risk of a catch-up.

    ``code`` is ``order``, ``possible-duplicates``, ``skew``, ``retention``, ``retention-unknown``,
    ``already-deleted``, ``abandoned``, ``below-log-end``, ``until``, ``guess``, ``committers-unknown`` or
    ``hidden-commits``.
    """

    level: Annotated[RiskLevel, "How bad it is."]
    code: Annotated[str, "A stable code."]
    message: Annotated[str, "What may go wrong, for people."]
    topic: Annotated[str | None, "The topic; null if the whole plan is affected."] = None
    partition: Annotated[Count | None, "The partition; null if the whole plan is affected."] = None
    hint: Annotated[str | None, "A command, or what to do next."] = None


class ReplayPace(msgspec.Struct, frozen=True):
    """The expected speed of the replay; a rate of None is no limit.

    ``startup_s`` passes before the first record. ``guessed`` is True if the pace is assumed.
    """

    records_per_s: float | None
    bytes_per_s: float | None = None
    startup_s: float = 0.0
    guessed: bool = False


def duration_s(gap: Gap, pace: ReplayPace) -> float | None:
    """The expected seconds of the replay, its start-up included; None if no rate is known.

    Offsets are counted if the number of records is unknown. 10,000 records at 500/s and a start-up of 3 s: 23.0.
    """
    times = []
    if pace.records_per_s:
        times.append((gap.offsets if gap.records is None else gap.records) / pace.records_per_s)
    if pace.bytes_per_s and gap.size is not None:
        times.append(gap.size / pace.bytes_per_s)
    return pace.startup_s + max(times) if times else None


def risks(
    gap: Gap,
    logs: Mapping[TopicPartition, PartitionLog],
    work: LastActivity,
    pace: ReplayPace,
    now_ms: int,
    *,
    marked: bool = True,
) -> tuple[Risk, ...]:
    """All risks that apply: BLOCKED first, then WARNING, then NOTE; by partition within each.

    ``marked`` is whether kgroup delivers the records, and so can mark those that may have been processed.
    """
    unsorted = [*_of_plan(gap, work, pace, marked=marked), *_retention(gap, logs, pace, now_ms), *_rows(gap, logs)]
    order = [RiskLevel.BLOCKED, RiskLevel.WARNING, RiskLevel.NOTE]
    return tuple(sorted(unsorted, key=lambda risk: order.index(risk.level)))


def _of_plan(gap: Gap, work: LastActivity, pace: ReplayPace, *, marked: bool) -> Iterator[Risk]:
    if gap.group is not None and gap.offsets:
        yield Risk(
            RiskLevel.NOTE,
            "order",
            f"The gap is NOT ordered against new records: {gap.group} processes new records while older ones of the "
            "same key are not delivered yet.",
        )
    if gap.group is not None and gap.release_point is ReleasePoint.UNTIL:
        yield Risk(RiskLevel.NOTE, "until", f"{gap.group} is released at --until and not at the log end.")
    yield from _twice(gap, work, marked=marked)
    yield from _skew(gap)
    if pace.guessed and gap.offsets and duration_s(gap, pace) is not None:
        rate = "" if pace.records_per_s is None else f" {human_count(round(pace.records_per_s))} records/s"
        yield Risk(RiskLevel.NOTE, "guess", f"The replay time assumes{rate}; it depends on the destination.")


def _twice(gap: Gap, work: LastActivity, *, marked: bool) -> Iterator[Risk]:
    if gap.group is None or not gap.offsets:
        return
    count = sum(item.maybe_processed_until - item.start for item in gap.ranges if item.maybe_processed_until)
    owned = [item for item in gap.ranges if item.before is not None and item.end > item.start]
    unknown = sum(item.maybe_processed_until is None for item in owned)
    if count:
        last = max((commit.at_ms for commit in work.commits.values()), default=None)
        when = "" if last is None else f" ({datetime.fromtimestamp(last / 1000, UTC):%H:%M:%SZ})"
        records = "record" if count == 1 else "records"
        header = " They have the header kgroup.maybe-processed." if marked else ""
        yield Risk(
            RiskLevel.NOTE,
            "possible-duplicates",
            f"Up to {human_count(count)} {records} after the last commit{when} may be processed already.{header}",
        )
    if unknown:
        yield Risk(
            RiskLevel.NOTE,
            "possible-duplicates",
            f"It is unknown how many records of {plural(unknown, 'partition')} were processed after the last commit. "
            "They may be processed twice, and have no header.",
        )


def _skew(gap: Gap) -> Iterator[Risk]:
    sizes = [item.offsets for item in gap.ranges if item.end > item.start]
    if len(sizes) > 1:
        yield Risk(
            RiskLevel.NOTE,
            "skew",
            f"the largest partition is {percent(max(sizes), sum(sizes))} of the gap "
            f"({percent(1, len(sizes))} would be even)",
        )


def _retention(gap: Gap, logs: Mapping[TopicPartition, PartitionLog], pace: ReplayPace, now_ms: int) -> Iterator[Risk]:
    """Whether retention deletes records before the replay has read them.

    The replay reads the first record of a partition when it starts. It reads the last record, which was written just
    before, at the latest when it ends. So it cannot succeed if the first record is deleted before the start, or if the
    replay takes longer than records are retained. Between these two, a partition may wait for its turn: that is a
    warning. A record that is past its retention and still there shares a segment with younger records. It is deleted
    together with them, at an unknown time.
    """
    takes = duration_s(gap, pace)
    unread = {
        item.topic: why
        for item in gap.ranges
        if item.end > item.start and (why := _why_unknown(item.topic, logs.get(item.tp)))
    }
    for topic, why in sorted(unread.items()):
        message = f"{topic}: it is unknown whether retention deletes records before they are replayed: {why}"
        hint = acl_hint("DescribeConfigs", "topic", topic)
        yield Risk(RiskLevel.WARNING, "retention-unknown", message, topic, hint=hint if "CONFIGS" in why else None)
    for item in gap.ranges:
        if item.retention_deadline_ms is None:
            continue
        left_s = (item.retention_deadline_ms - now_ms) / 1000
        log = logs.get(item.tp)
        kept_ms = None if log is None or log.retention is None else log.retention.time_ms
        kept_s = None if kept_ms is None else kept_ms / 1000
        first = "retention deletes the first record of the gap"
        if takes is not None and kept_s is not None and takes > kept_s:
            kept = f"retention keeps records for {format_duration(kept_s)}"
            yield _overtaken(RiskLevel.BLOCKED, item, f"{kept}, and the replay needs about {format_duration(takes)}")
        elif left_s <= 0:
            yield _overtaken(RiskLevel.WARNING, item, f"{first} at any moment: the limit of retention is passed")
        elif left_s <= pace.startup_s:
            yield _overtaken(
                RiskLevel.BLOCKED, item, f"{first} in {format_duration(left_s)}, before the replay can begin"
            )
        elif takes is None and left_s > _LONG_S:
            continue
        elif takes is None:
            unknown = "the time of the replay is unknown"
            yield _overtaken(RiskLevel.WARNING, item, f"{first} in {format_duration(left_s)}; {unknown}")
        elif left_s < takes * _SAFETY:
            about = f"the replay needs about {format_duration(takes)}"
            yield _overtaken(RiskLevel.WARNING, item, f"{first} in {format_duration(left_s)}; {about}")


def _why_unknown(topic: str, log: PartitionLog | None) -> str | None:
    """Why it is unknown when retention deletes records of the log; None: it is known."""
    if log is None:
        return None
    if log.retention is None:
        return f"no DESCRIBE_CONFIGS on {topic}"
    if log.retention.limit_bytes is not None and log.retention.size_bytes is None:
        return f"{topic} has retention.bytes, but the size of its logs could not be read"
    return None


def _overtaken(level: RiskLevel, item: GapRange, what: str) -> Risk:
    return Risk(
        level,
        RETENTION,
        f"{item.tp}: {what}",
        *item.tp,
        hint=f"raise retention.ms (and retention.bytes) of {item.topic} until the replay is done",
    )


def _rows(gap: Gap, logs: Mapping[TopicPartition, PartitionLog]) -> Iterator[Risk]:
    for row in gap.already_deleted:
        lost = plural(row.offsets, "offset")
        message = f"{row.tp}: [{row.start}, {row.end}) is already deleted ({lost}): {row.reason}"
        yield Risk(RiskLevel.WARNING, "already-deleted", message, row.topic, row.partition)
    for row in gap.abandoned:
        lost = plural(row.offsets, "offset")
        message = f"{row.tp}: [{row.start}, {row.end}) is abandoned ({lost}): {row.reason}"
        yield Risk(RiskLevel.WARNING, "abandoned", message, row.topic, row.partition)
    for item in gap.ranges:
        log = logs.get(item.tp)
        if gap.group is not None and log is not None and item.end == log.last_stable < log.high_watermark:
            behind = plural(log.high_watermark - item.end, "offset")
            yield Risk(
                RiskLevel.WARNING,
                "below-log-end",
                f"{item.tp}: an open transaction holds the last stable offset. The group is released at "
                f"{item.end}, {behind} below the log end.",
                *item.tp,
            )
