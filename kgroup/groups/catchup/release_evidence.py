"""Whether a partition was released, found after a crash from the group's commit records. Pure.

A committed offset that equals the end is no evidence, because the group may have reached it by itself. So kgroup's own
commits carry a tag, and the plan's last tagged commit decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from kgroup.groups.catchup.model import CatchupPlan, ExplainedRange, GapRange
from kgroup.groups.commit_tags import CatchupCommitTag, TagPurpose
from kgroup.model.commit import Commit
from kgroup.model.group_log import CommitWritten
from kgroup.model.records import OffsetRange
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.instants import rfc3339
from kgroup.support.json_types import EpochMs, Instant


class ReleaseEvidence(StrEnum):
    """What happened to a partition's release."""

    RELEASED = "released"
    """The plan's last own commit is a release."""
    NOT_RELEASED = "not-released"
    """The plan's last own commit, if it has one, is a move back; the committed offset is as before the plan."""
    CONTINUED = "continued"
    """As NOT_RELEASED, but the group reads on by itself: its offset changed, or it has members."""
    IN_DOUBT = "in-doubt"
    """As NOT_RELEASED, but the group has members, one of which made the plan: it may be about to commit the release."""
    DELETED = "deleted"
    """As NOT_RELEASED, but the commit from before the plan is deleted: where the group continues is unknown."""
    UNKNOWN = "unknown"
    """The history could not be read, or compaction removed the commits that would decide."""


@dataclass(frozen=True, slots=True)
class ReleaseHistory:
    """The group's commit records from a noted position to the end of the log at the time of reading, in log order.

    ``compacted`` is whether offsets are missing in between. Then older commits of a partition may be gone; the newest
    commit of each partition is always there. ``unread`` is why the log could not be read to its end; None: it was.
    """

    commits: tuple[CommitWritten, ...]
    compacted: bool = False
    unread: str | None = None

    def by_partition(self) -> dict[TopicPartition, list[CommitWritten]]:
        """The commits of each partition, in log order."""
        commits: dict[TopicPartition, list[CommitWritten]] = {}
        for commit in self.commits:
            commits.setdefault(commit.tp, []).append(commit)
        return commits


def find_evidence(
    plan: CatchupPlan,
    history: ReleaseHistory,
    committed: Mapping[TopicPartition, Commit | None],
    *,
    live: bool,
    assumed: Mapping[TopicPartition, bool] | None = None,
) -> dict[TopicPartition, ReleaseEvidence]:
    """What happened to the release of each partition of the plan.

    ``history`` starts at the position that was noted in ``releasing``. ``committed`` are the current commits; read them
    after the history, while only kgroup can commit, or the result may be outdated. ``live`` is whether the group has
    members other than kgroup's own. ``assumed`` is the user's ``--assume`` by partition (True: released). It counts
    only for partitions for which the history does not decide.
    """
    by_partition = history.by_partition()
    evidence: dict[TopicPartition, ReleaseEvidence] = {}
    for item in plan.ranges:
        now = committed.get(item.tp)
        released = _was_released(plan.id, item, history, by_partition.get(item.tp, ()), now)
        if released is None and assumed is not None:
            released = assumed.get(item.tp)
        if released is None:
            evidence[item.tp] = ReleaseEvidence.UNKNOWN
        elif released:
            evidence[item.tp] = ReleaseEvidence.RELEASED
        elif now is None and item.before is not None:
            # A new member starts by its auto.offset.reset, which may be before the gap.
            evidence[item.tp] = ReleaseEvidence.DELETED
        else:
            evidence[item.tp] = _unreleased(plan, item, now, live=live)
    return evidence


def _unreleased(plan: CatchupPlan, item: GapRange, now: Commit | None, *, live: bool) -> ReleaseEvidence:
    """What became of a partition that the plan has not released."""
    if not _stands_as_before(item, now):
        return ReleaseEvidence.CONTINUED
    if not live:
        return ReleaseEvidence.NOT_RELEASED
    # Only kgroup's own member can be removed from the group before the evidence is read.
    return ReleaseEvidence.IN_DOUBT if plan.by_member else ReleaseEvidence.CONTINUED


def _was_released(
    plan_id: str, item: GapRange, history: ReleaseHistory, commits: Sequence[CommitWritten], now: Commit | None
) -> bool | None:
    """Whether the plan's last own commit of a partition is a release; None if unknown."""
    # The current commit is the last one of all: if it is our own, no history is needed.
    own = None if now is None else _mark(plan_id, now.metadata)
    if own is None and history.unread is not None:
        return None
    own = own or next((mark for commit in reversed(commits) if (mark := _mark(plan_id, commit.metadata))), None)
    # Compaction keeps the newest record of a partition: if there is none, nothing was committed since. But a tombstone
    # is removed too, after delete.retention.ms (a day): then the current commit differs from the one before the plan.
    if own is None and history.compacted and (commits or not _stands_as_before(item, now)):
        return None
    return own is not None and own.moved is TagPurpose.RELEASE


def _mark(plan_id: str, metadata: str) -> CatchupCommitTag | None:
    mark = CatchupCommitTag.of(metadata)
    return mark if mark is not None and mark.plan_id == plan_id else None


def _stands_as_before(item: GapRange, now: Commit | None) -> bool:
    before = item.before
    return (None if before is None else before.offset) == (None if now is None else now.offset)


class OffsetRewind(OffsetRange, frozen=True):
    """Another client moved a released partition below its end: the group and the replay both read [start, end).

    The instant is that of the first such commit. If a commit was deleted, or has expired, the group continues by its
    ``auto.offset.reset``, and there may be no duplicates.
    """

    rewound_at: Annotated[Instant | None, "When it was committed."]
    rewound_at_ms: Annotated[EpochMs, "When it was committed."]
    commit_deleted: Annotated[bool, "Whether the commit was deleted."] = False


def find_rewinds(plan: CatchupPlan, history: ReleaseHistory) -> tuple[OffsetRewind, ...]:
    """The partitions that a client other than kgroup committed below their end after the release, or deleted.

    Commits before the plan's own release do not count. In a compacted or unread history, some may be missing.
    """
    by_partition = history.by_partition()
    rewinds: list[OffsetRewind] = []
    for item in sorted(plan.ranges, key=lambda one: one.tp):
        below = list(_below(plan.id, item, by_partition.get(item.tp, ())))
        if below:
            deleted = any(commit.offset is None for commit in below)
            lowest = min((commit.offset for commit in below if commit.offset is not None), default=item.start)
            start = item.start if deleted else max(lowest, item.start)
            at_ms = below[0].at_ms
            rewinds.append(OffsetRewind(*item.tp, min(start, item.end), item.end, rfc3339(at_ms), at_ms, deleted))
    return tuple(row for row in rewinds if row.start < row.end)


def _below(plan_id: str, item: GapRange, commits: Sequence[CommitWritten]) -> Iterator[CommitWritten]:
    released = False
    for commit in commits:
        own = _mark(plan_id, commit.metadata)
        if own is not None:
            released = own.moved is TagPurpose.RELEASE
        elif released and (commit.offset is None or commit.offset < item.end):
            yield commit


def move_back_target(plan: CatchupPlan, item: GapRange) -> int:
    """The offset to which a released partition is moved back if nothing of it was delivered.

    It is the start of the range, or the start of what was given up directly below. A commit at 70 with [70, 90) given
    up by ``--skip-before`` and the range [90, 120) is moved back to 70. A commit at 70 whose log started at 90 is moved
    back to 90, because a commit below the log start offset is out of range for clients.
    """
    if item.before is None:
        return item.start
    lowest = item.start
    for row in sorted(_abandoned(plan, item.tp), key=lambda one: -one.end):
        if row.end == lowest and row.start >= item.before.offset:
            lowest = row.start
    return lowest


def _abandoned(plan: CatchupPlan, tp: TopicPartition) -> list[ExplainedRange]:
    return [row for row in plan.abandoned if row.tp == tp]
