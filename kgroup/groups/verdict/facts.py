"""What lag and evidence show: stuck partitions, crash loops, transactions that hold back, the retention left."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec
from msgspec.structs import replace

from kgroup.groups import thresholds
from kgroup.groups.history.runs import job_words
from kgroup.groups.history.slow_polls import SlowPolls
from kgroup.groups.lag.evidence import (
    EvidenceSource,
    Isolation,
    LagEvidence,
    Retention,
    is_by_tool,
)
from kgroup.groups.lag.rates import LagTrend, Rates, rate_words, span_words
from kgroup.groups.lag.report import GroupLag, PartitionLag
from kgroup.groups.lag.status import LagStatus
from kgroup.groups.repeated_falls import RepeatedFalls, Writers, repeated_falls
from kgroup.groups.timeline.steps import CrashLoop
from kgroup.groups.verdict.shape import LagShape, shape_of
from kgroup.model.groups import LoggedCommit, Member
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.durations import format_duration
from kgroup.support.instants import short_time
from kgroup.support.units import human_bytes, plural

LineSeverity = Literal["bad", "warn"]
"""``bad``: records are lost or not read now. ``warn``: they may be lost or not be read soon."""


def stuck_of(report: GroupLag) -> list[PartitionLag]:
    """Partitions that are not read at all, the longest first; those with an unknown time come before all others."""
    stuck = [p for p in report.partitions if p.status is not None and p.status.is_stuck]
    return sorted(stuck, key=lambda p: (p.status_result.since_ms or 0, -(p.lag or 0)))


def fell_repeatedly(report: GroupLag) -> PartitionLag | None:
    """The partition with the largest lag whose offset falls back and returns again and again; None without one."""
    rows = [p for p in report.partitions if p.status is LagStatus.REWIND and p.status_result.back is None]
    return max(rows, key=lambda p: p.lag or 0, default=None)


class SilentMember(msgspec.Struct, frozen=True):
    """A static member that commits nothing while others do, and whose session may last: it is gone, or hangs.

    Without a session that ends, the group gives the partitions of a static member to no other.
    """

    member: Member
    since_ms: int
    session_ms: int

    def words(self, now_ms: int) -> str:
        since, until = (short_time(at_ms, now_ms) for at_ms in (self.since_ms, self.since_ms + self.session_ms))
        return (
            f"no commit of it since {since}: if its process is gone, its partitions wait until about {until} (session "
            f"{format_duration(self.session_ms / 1000)}), or until it is evicted; or it hangs, the log does not show "
            "which"
        )


def silent_member(report: GroupLag, evidence: LagEvidence) -> SilentMember | None:
    """The owner of what is stuck for longest, if it is static, silent for less than its session, and others commit.

    None if an open transaction explains it, or if one broker leads all that is stuck.
    """
    stuck = stuck_of(report)
    row = next(iter(stuck), None)
    owner = None if row is None else row.partition.owner
    if row is None or owner is None or owner.instance_id is None or row.status is not LagStatus.STOP:
        return None
    facts = evidence.members.get(owner.member_id)
    session_ms = None if facts is None else facts.session_timeout_ms
    rows = [p for p in report.partitions if p.partition.owner is not None and p.last_commit_ms is not None]
    own = [p.last_commit_ms or 0 for p in rows if p.partition.owner == owner]
    others = [p.last_commit_ms or 0 for p in rows if p.partition.owner != owner]
    since_ms = max(own, default=None)
    if since_ms is None or session_ms is None or report.now_ms - since_ms > session_ms:
        return None
    if evidence.open_commits or (len(stuck) > 1 and shape_of(report).kind is LagShape.ONE_BROKER):
        return None
    is_silent = since_ms == row.last_commit_ms and max(others, default=0) > since_ms
    return SilentMember(owner, since_ms, session_ms) if is_silent else None


def stopped_together(report: GroupLag) -> str | None:
    """``all 12 partitions of 3 members stopped within 2s: ...``; None unless all that is unread is of such members.

    A record that fails stops one partition, or one member. A transaction that is open, and the only broker that leads
    them, are the caller's.
    """
    rows = [p for p in report.partitions if p.partition.owner is not None and p.lag]
    times = [p.last_commit_ms for p in rows if p.status is LagStatus.STOP and p.last_commit_ms is not None]
    members = {p.partition.owner.member_id for p in rows if p.partition.owner is not None}
    if len(members) < 2 or len(times) < len(rows) or max(times) - min(times) > thresholds.LEAST_SILENCE.value:
        return None
    within = format_duration((max(times) - min(times)) // 1000 + 1)
    return (
        f"all {len(rows)} partitions of {len(members)} members with unread records stopped within {within}: a record "
        "is less likely the cause than what all members call, or the broker"
    )


class TwoWriters(msgspec.Struct, frozen=True):
    """A partition that two clients commit, whatever its lag is: each goes its own way. ``since_ms`` is the first fall.

    The next owner begins where the last of the two commits.
    """

    row: PartitionLag
    falls: RepeatedFalls
    since_ms: int

    def words(self, owner: str | None, now_ms: int) -> str:
        """``orders:0 has two writers since 15:02:10Z: one commits 10, one 5000 to 5400; ...``."""
        low, high = (
            f"{offsets[0]}" if offsets[0] == offsets[-1] else f"{offsets[0]} to {offsets[-1]}"
            for offsets in (self.falls.lows, self.falls.highs)
        )
        owns = "" if owner is None else f"; {owner} owns it, and the other one has lost it, or is no member"
        since = short_time(self.since_ms, now_ms)
        return f"{self.row.where} has two writers since {since}: one commits {low}, one {high}{owns}"


def two_writers(report: GroupLag, evidence: LagEvidence) -> tuple[TwoWriters, ...]:
    """The partitions whose offset fell back in the last two minutes, as two writers commit; most falls first."""
    writers = []
    for row in report.partitions:
        commits = evidence.partitions[row.partition.tp].commits if row.partition.tp in evidence.partitions else ()
        if not _fell_lately(commits, report.now_ms - thresholds.STORM_ONGOING.value):
            continue
        for falls in list(repeated_falls(commits))[-1:]:
            if falls.writers is Writers.TWO:
                writers.append(TwoWriters(row, falls, commits[falls.indices[0]].timestamp_ms))
    return tuple(sorted(writers, key=lambda one: -len(one.falls.indices)))


def _fell_lately(commits: Sequence[LoggedCommit], since_ms: int) -> bool:
    later: LoggedCommit | None = None
    for commit in reversed(commits):
        if later is not None:
            if later.timestamp_ms < since_ms:
                return False
            if later.offset < commit.offset:
                return True
        later = commit
    return False


def unsubscribed_in(report: GroupLag) -> list[str]:
    """The topics with unread records that no member subscribes to, the largest lag first."""
    left = [topic for topic in report.topics if topic.topic is not None and topic.status is LagStatus.UNSUBSCRIBED]
    return [str(topic.topic) for topic in sorted(left, key=lambda topic: -(topic.lag or 0))]


def left_in(report: GroupLag, evidence: LagEvidence) -> list[str]:
    """Those of them that the group has left, as far as the log shows.

    No other service that shares it read them, and the last commit and the first unread record of each partition are
    old: a wrong deployment would have been noticed.
    """
    left = [topic for topic in unsubscribed_in(report) if topic not in evidence.of_some]
    return [topic for topic in left if report.now_ms - _last_sign_ms(report, topic) >= thresholds.LEFT.value]


def _last_sign_ms(report: GroupLag, topic: str) -> int:
    """When a partition of it was last committed or first had an unread record; now, if neither is known."""
    rows = [row for row in report.partitions if row.partition.topic == topic]
    times = (ms for row in rows for ms in (row.last_commit_ms, row.status_result.since_ms) if ms is not None)
    return max(times, default=report.now_ms)


def crash_loops_in(report: GroupLag, evidence: LagEvidence) -> tuple[CrashLoop, ...]:
    """The crash loops of the log whose record is unread, and was before the owners went. The first has most owners."""
    lagging = {p.partition.tp: p for p in report.partitions if p.lag}
    found = []
    for suspect in evidence.crash_loops:
        row = lagging.get(suspect.tp)
        if row is None or row.partition.commit is None or not suspect.is_at(row.partition.commit.offset):
            continue
        loop = suspect.since(None if row.time_lag_ms is None else report.now_ms - row.time_lag_ms)
        if loop is not None:
            found.append(replace(loop, offset=row.partition.commit.offset))
    # Beside a loop others seem to be one for a while: they stand until a life lasts long enough to read them.
    most = max((len(loop.gone) for loop in found), default=0)
    return tuple(loop for loop in found if 2 * len(loop.gone) >= most)


def not_due(report: GroupLag, evidence: LagEvidence) -> str | None:
    """That an Empty group is or may be a job that is not due, in words; None if its consumers are missing."""
    rows = [p for p in report.partitions if p.status is LagStatus.NO_READER]
    ages_ms = [p.time_lag_ms for p in rows if p.time_lag_ms is not None]
    if not rows or len(ages_ms) < len(rows) or any(map(is_by_tool, evidence.partitions.values())):
        return None
    arrives = any(p.spans[0].incoming != 0 for p in rows)
    quiet = not arrives and sum(p.lag or 0 for p in rows) < thresholds.LEAST_LAG.value
    return job_words(evidence.runs, report.now_ms - max(ages_ms), report.now_ms, quiet=quiet)


def slow_polls_in(report: GroupLag, evidence: LagEvidence) -> SlowPolls | None:
    """The slow polls of the log at places with records that were unread then; None without any.

    One alone counts if it left the group Empty: else its partitions are read by other members. So does the last of
    several that have not come back for longer than they did before.
    """
    found, is_empty = evidence.slow_polls, report.state == "Empty"
    if found is None:
        return None
    rows = {p.partition.tp: p for p in report.partitions}
    # Without a commit, an Empty group has no partition.
    places = tuple(tp for tp in found.places if (is_empty if (row := rows.get(tp)) is None else _is_unread(row)))
    ages_ms = [row.time_lag_ms for tp in places if (row := rows.get(tp)) and row.time_lag_ms is not None]
    left = tuple(one for one in found.left if not ages_ms or one.at_ms > report.now_ms - max(ages_ms))
    if is_empty and len(left) > 1:
        pauses_ms = max(later.at_ms - earlier.at_ms for earlier, later in pairwise(left))
        left = left if report.now_ms - left[-1].at_ms <= pauses_ms + thresholds.RESTART.value else left[-1:]
    if not places or not left:
        return None
    if len(left) == 1:
        emptied_ms = {run.ended_ms for run in evidence.runs[-1:]}
        if not is_empty or not left[0].sure or not emptied_ms <= {left[0].at_ms}:
            return None
    return replace(found, places=places, left=left)


def _is_unread(row: PartitionLag) -> bool:
    log = row.partition.log
    return bool(row.lag) or (row.partition.commit is None and log is not None and log.end > log.start)


def slow_polls_at(found: SlowPolls, report: GroupLag) -> str:
    """Where they may be: ``orders:0 offset 12 or orders:1 offset 7``; ``orders:0 and 3 more partitions``."""
    offsets = {p.partition.tp: f" offset {p.first}" for p in report.partitions if p.first is not None}
    named = [f"{tp}{offsets.get(tp, '')}" for tp in found.places]
    return " or ".join(named) if len(named) < 3 else f"{named[0]} and {plural(len(named) - 1, 'more partition')}"


def how_stuck(row: PartitionLag, now_ms: int, arrivals: Rates | None) -> str:
    """``no commit for 22m while 1.8/s (1m) arrive``: a stuck partition in words."""
    result = row.status_result
    age = "" if result.since_ms is None else format_duration(max(0, now_ms - result.since_ms) // 1000)
    age = f"over {age}" if result.at_least and age else age
    arriving = f" while {rate_words(arrivals.incoming or 0)}{span_words(arrivals.span_ms)} arrive" if arrivals else ""
    if row.status is LagStatus.STALL:
        since = f" in {age}" if age else ""
        if result.lowest is not None:
            commits = plural(result.repeats or 0, "commit")
            return f"{commits} back and forth{since}, none past {result.highest}{arriving}"
        return f"{plural(result.repeats or 0, 'commit')} of the same offset{since}{arriving}"
    if row.status is LagStatus.NO_READER:
        return f"no reader for {age}{arriving}" if age else f"no reader{arriving}"
    return f"no commit for {age}{arriving}" if age else f"no commit{arriving}"


def held_back(report: GroupLag) -> PartitionLag | None:
    """The partition where an open transaction blocks the most records; None if there is none, or it was not read.

    Every transaction blocks its records for a moment. So a transaction younger than a minute does not count. One with
    an unknown start counts only if the lag is measured against the last stable offset.
    """
    rows = [p for p in report.partitions if p.held_back and holds_back(p, report)]
    return max(rows, key=lambda p: (p.open_transaction is not None, p.held_back or 0)) if rows else None


def holds_back(row: PartitionLag, report: GroupLag) -> bool:
    """Whether the transaction of the partition is old enough to count, for ``held_back``."""
    transaction = row.open_transaction
    if transaction is None or transaction.since_ms is None:
        return report.isolation is Isolation.READ_COMMITTED
    return report.now_ms - transaction.since_ms >= thresholds.LONG_TRANSACTION.value


def is_draining(report: GroupLag) -> bool:
    """Whether every partition keeps up or drains, and at least one drains."""
    return report.total.outlook.pace is LagTrend.DRAINING


class RetentionVerdict(msgspec.Struct, frozen=True):
    """The retention left of the partition whose unread records are deleted first."""

    text: str
    style: LineSeverity | None
    left_ms: int | None
    """0 if that can happen at any moment; None if retention deletes none, or the time is unknown."""
    too_late: bool = False
    """Whether records are deleted before the partition has caught up at the present rates."""
    unknown: bool = False
    """Whether it could not be found out."""


def retention_verdict(report: GroupLag, evidence: LagEvidence) -> RetentionVerdict | None:
    """The retention left of the unread records; None if nothing is unread."""
    lagging = [p for p in report.partitions if p.lag]
    if not lagging:
        return None
    dated = [
        (p.retention_left.left_ms, p)
        for p in lagging
        if p.retention_left is not None and p.retention_left.left_ms is not None
    ]
    if not dated:
        return _safety_without_time(lagging, evidence)
    left_ms, first = min(dated, key=lambda pair: (pair[0], pair[1].status_result.caught_up))
    retention = evidence.partitions[TopicPartition(first.partition.topic, first.partition.partition)].retention
    assert retention is not None
    unknown = sum(
        p.retention_left is None or (p.retention_left.left_ms is None and not p.retention_left.endless) for p in lagging
    )
    beside = f"; unknown on {unknown} of {len(lagging)} lagging partitions" if unknown else ""
    where = "the first unread record" + (f" of {first.where}" if len(report.partitions) > 1 else "")
    what = _what(retention, first)
    by_time = first.retention_left is not None and first.retention_left.by == "time"
    if left_ms == 0 and by_time and first.status_result.caught_up:
        # Records with the times of older events are that old when they arrive.
        return RetentionVerdict(f"{what} may delete {where} at any moment, but the group keeps up{beside}", "warn", 0)
    if left_ms == 0:
        return RetentionVerdict(f"{what} may delete {where} at any moment{beside}", "bad", 0, too_late=True)
    about = "about " if first.retention_left is not None and first.retention_left.by == "size" else ""
    text = f"{what} deletes {where} in {about}{format_duration(left_ms / 1000)}"
    late = _too_late(dated)
    if late is not None:
        left_of_late_ms, row = late
        when = f"catches up only in {format_duration(row.outlook.seconds or 0)}"
        place = "" if row is first else f"; {row.where} has {format_duration(left_of_late_ms / 1000)} left"
        text += f"{place}, {when} at this rate"
    style = _style(left_ms, late=late is not None)
    return RetentionVerdict(text + beside, style, left_ms, too_late=late is not None)


def _style(left_ms: int, *, late: bool) -> LineSeverity | None:
    if left_ms < thresholds.RETENTION_SOON.value:
        return "bad"
    return "warn" if late or left_ms < thresholds.RETENTION_CLOSE.value else None


def _too_late(dated: list[tuple[int, PartitionLag]]) -> tuple[int, PartitionLag] | None:
    """The first partition that drains too slowly. RATE and STUCK report those that never catch up."""
    draining = [(left_ms, p) for left_ms, p in dated if p.outlook.pace is LagTrend.DRAINING]
    late = [(left_ms, p) for left_ms, p in draining if (p.outlook.seconds or 0) * 1000 > left_ms]
    return min(late, key=lambda pair: pair[0]) if late else None


def _safety_without_time(lagging: list[PartitionLag], evidence: LagEvidence) -> RetentionVerdict:
    known = [p for p in lagging if p.retention_left is not None]
    if not known:
        why = evidence.why_unknown(EvidenceSource.RETENTION)
        return RetentionVerdict(f"unknown: {why}", None, None, unknown=True)
    compacted = [p for p in known if p.retention_left is not None and p.retention_left.compacted]
    if compacted:
        topic = compacted[0].partition.topic
        return RetentionVerdict(
            f"{topic} is compacted: an unread record is deleted if its key has a newer one", None, None
        )
    if all(p.retention_left is not None and p.retention_left.endless for p in known):
        return RetentionVerdict("unread records are not deleted: retention has no limit", None, None)
    if evidence.unusable_times:
        text = "unknown: it goes by the timestamps of the records, which are not usable"
        return RetentionVerdict(text, None, None, unknown=True)
    why = evidence.why_unknown(EvidenceSource.TIME)
    return RetentionVerdict(f"unknown: age of the first unread record: {why}", None, None, unknown=True)


def _what(retention: Retention, first: PartitionLag) -> str:
    if first.retention_left is not None and first.retention_left.by == "size" and retention.limit_bytes is not None:
        return f"retention.bytes ({human_bytes(retention.limit_bytes)})"
    return f"retention ({format_duration((retention.time_ms or 0) / 1000)})"
