"""What a member catches up of the partitions that it was just assigned, and which older plans are in its way. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kgroup.groups.catchup.behind import BehindBound
from kgroup.groups.catchup.model import GapRange, PlanSnapshot, PlanState
from kgroup.groups.commit_tags import CatchupCommitTag
from kgroup.model.commit import Commit
from kgroup.model.topic_partition import TopicPartition
from kgroup.model.topic_settings import TopicSettings

Commits = Mapping[TopicPartition, Commit | None]


class UnreadLog(msgspec.Struct, frozen=True):
    """What was read of a partition's log; fields as in PartitionLog. ``oldest_ms`` None: no record can be read."""

    start: int
    last_stable: int
    last_stable_epoch: int | None
    high_watermark: int
    oldest_ms: int | None
    topic_id: str | None
    settings: TopicSettings | None


def may_be_behind(
    commits: Commits,
    ends: Mapping[TopicPartition, int | None],
    since: Mapping[TopicPartition, int | None],
    bound: BehindBound,
) -> dict[TopicPartition, Commit]:
    """The partitions whose log ends, and offsets since the bound's age, leave it open whether they are behind.

    ``since`` is only needed for an age; None there: no record is that new. A partition without a commit is never
    behind: where it starts, the application decides.
    """

    def limit(tp: TopicPartition) -> int:
        end = ends.get(tp) or 0
        if bound.records is not None:
            return end - bound.records
        newer = since.get(tp, 0)
        return end if newer is None else newer

    return {tp: commit for tp, commit in commits.items() if commit is not None and commit.offset < limit(tp)}


def behind_ranges(
    commits: Mapping[TopicPartition, Commit], logs: Mapping[TopicPartition, UnreadLog], bound: BehindBound, now_ms: int
) -> tuple[GapRange, ...]:
    """The gaps of the partitions that are behind, by partition; each ends at the last stable offset.

    Without a record that can be read there is no gap. The same goes for a commit above the log end: the log was
    truncated, or the topic recreated. A range keeps no metadata of the group's commit, see ``GroupMember.committed``.
    """
    ranges = []
    for tp, commit in sorted(commits.items()):
        log = logs.get(tp)
        if log is None or log.oldest_ms is None or commit.offset > log.high_watermark:
            continue
        start, end = max(commit.offset, log.start), log.last_stable
        late = end - start > bound.records if bound.records is not None else _is_older(log.oldest_ms, bound, now_ms)
        if late and start < end:
            before = Commit(commit.offset, commit.leader_epoch, "")
            compacted = log.settings is not None and log.settings.compacted
            records, deadline = None if compacted else end - start, _deadline_ms(log, log.oldest_ms)
            epoch, oldest = log.last_stable_epoch, log.oldest_ms
            ranges.append(GapRange(*tp, start, end, before, epoch, log.topic_id, None, records, None, oldest, deadline))
    return tuple(ranges)


def _is_older(oldest_ms: int, bound: BehindBound, now_ms: int) -> bool:
    return bound.age_s is not None and now_ms - oldest_ms > bound.age_s * 1000


def _deadline_ms(log: UnreadLog, oldest_ms: int) -> int | None:
    """When retention may delete the first record by its age. By size it is unknown: that takes the rate of the log."""
    if log.settings is None or log.settings.retention_ms is None:
        return None
    return oldest_ms + log.settings.retention_ms


class PlansInTheWay(msgspec.Struct, frozen=True):
    """Open plans that have some of the same offsets.

    ``void`` have moved nothing that is still moved: they can be closed. ``kept`` is, by partition, the plan that keeps
    it from being caught up.
    """

    void: tuple[PlanSnapshot, ...]
    kept: Mapping[TopicPartition, str]


def plans_in_the_way(ranges: Iterable[GapRange], plans: Iterable[PlanSnapshot], committed: Commits) -> PlansInTheWay:
    """Sort the open plans of the group. ``committed`` has the commits of all their partitions that could be read."""
    void: list[PlanSnapshot] = []
    kept: dict[TopicPartition, str] = {}
    wanted = {item.tp: item for item in ranges}
    for plan in plans:
        shared = [
            item.tp
            for item in plan.plan.ranges
            if (own := wanted.get(item.tp)) is not None and max(own.start, item.start) < min(own.end, item.end)
        ]
        if not shared or not plan.state.state.is_open:
            continue
        if is_void(plan, committed):
            void.append(plan)
        else:
            kept.update(dict.fromkeys(shared, plan.plan.id))
    return PlansInTheWay(tuple(void), kept)


def is_void(snapshot: PlanSnapshot, committed: Commits) -> bool:
    """Whether closing a plan loses nothing: the group, or a later plan, has all of it from its start on.

    Only for the owner of one of its partitions: then the member that made the plan is no longer in the group in that
    generation, and can commit nothing more.
    """
    if snapshot.damage is not None or snapshot.state.state not in (PlanState.PLANNED, PlanState.RELEASING):
        return False
    return snapshot.state.state is PlanState.PLANNED or all(
        _is_unread(snapshot.plan.id, item, committed.get(item.tp)) for item in snapshot.plan.ranges
    )


def _is_unread(plan_id: str, item: GapRange, now: Commit | None) -> bool:
    if now is None or item.before is None:
        return False
    mark = CatchupCommitTag.of(now.metadata)
    if mark is not None and mark.plan_id == plan_id:
        return False
    return now.offset == item.before.offset or (mark is not None and mark.start == item.start)
