"""The commits of a release and of a move back, and the records that the group reads twice because of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kgroup.groups.catchup.delivered import delivered_to
from kgroup.groups.catchup.model import CatchupPlan, Chunk, ExplainedRange, GapRange
from kgroup.groups.catchup.release_evidence import move_back_target
from kgroup.groups.catchup.steps import OffsetMove, Situation
from kgroup.groups.commit_tags import CatchupCommitTag, TagPurpose
from kgroup.model.commit import Commit
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.units import plural


def offset_of(commit: Commit | None) -> int | None:
    """The offset of the commit; None if there is no commit."""
    return None if commit is None else commit.offset


def release_moves(now: Situation, ranges: Iterable[GapRange]) -> tuple[OffsetMove, ...]:
    """The commits at the frozen ends, with kgroup's tag."""
    plan = now.ledgered.plan
    return tuple(
        OffsetMove(*item.tp, now.committed.get(item.tp), (release_commit(plan, item, now.epoch),)) for item in ranges
    )


def release_commit(plan: CatchupPlan, item: GapRange, epoch: int) -> Commit:
    """The commit that releases a partition."""
    mark = CatchupCommitTag(plan.id, epoch, TagPurpose.RELEASE, item.start)
    return Commit(item.end, item.end_leader_epoch, mark.metadata)


def move_back(now: Situation, item: GapRange, target: int) -> OffsetMove | None:
    """The move of a partition back to ``target``; None if its commit is already there, or lower: never forward.

    Never below the log start offset either: such a commit is out of range, and clients use their auto.offset.reset.
    """
    tp, mark = item.tp, CatchupCommitTag(now.ledgered.plan.id, now.epoch, TagPurpose.BACK).metadata
    current = now.committed.get(tp)
    target = max(target, min(now.log_starts.get(tp, target), item.end))
    if current is not None and current.offset <= target:
        return None
    own = _own(item, target)
    return OffsetMove(*tp, current, (Commit(target, own.leader_epoch, mark), own))


def back_to_origin(now: Situation, ranges: Iterable[GapRange]) -> tuple[OffsetMove, ...]:
    """The moves back of partitions of which nothing was delivered."""
    plan = now.ledgered.plan
    return tuple(move for item in ranges if (move := move_back(now, item, move_back_target(plan, item))) is not None)


def _own(item: GapRange, target: int) -> Commit:
    """The group's commit as it was, at ``target``; the leader epoch is kept only if the offset is the same."""
    before = item.before
    if before is None:
        return Commit(target, None, "")
    return Commit(target, before.leader_epoch if before.offset == target else None, before.metadata)


def restore_moves(now: Situation) -> Iterator[OffsetMove]:
    """Moves that restore the group's metadata on partitions that were moved back and still have kgroup's tag."""
    for item in now.ledgered.plan.ranges:
        current = now.committed.get(item.tp)
        mark = None if current is None else CatchupCommitTag.of(current.metadata)
        if current is None or mark is None or mark.plan_id != now.ledgered.plan.id:
            continue
        if mark.moved is TagPurpose.BACK:
            yield OffsetMove(*item.tp, current, (_own(item, current.offset),))


def find_reprocessed(now: Situation, moves: Iterable[OffsetMove]) -> tuple[ExplainedRange, ...]:
    """What the group reads again after a move back: offsets that the replay delivered, and that it processed itself."""
    plan = now.ledgered.plan
    chunks: dict[TopicPartition, list[Chunk]] = {}
    for chunk in plan.chunks:
        chunks.setdefault(chunk.tp, []).append(chunk)
    ends = {item.tp: item.end for item in plan.ranges}
    return tuple(row for move in moves for row in _of_move(now, move, chunks.get(move.tp, ()), ends[move.tp]))


def _of_move(now: Situation, move: OffsetMove, chunks: Iterable[Chunk], end: int) -> Iterator[ExplainedRange]:
    tp, group, progress = move.tp, now.ledgered.plan.group, now.ledgered.progress
    for chunk in chunks:
        done, known = delivered_to(chunk, progress), progress.get(chunk.number)
        if max(chunk.start, move.offset) < done:
            yield ExplainedRange(*tp, max(chunk.start, move.offset), done, "delivered by the replay")
        if known is not None and known.may_repeat and done < chunk.end:
            yield ExplainedRange(
                *tp, done, chunk.end, f"up to {plural(known.may_repeat, 'record')} processed by the replay"
            )
    current = offset_of(move.old_commit)
    if current is not None and current > end:
        yield ExplainedRange(*tp, max(end, move.offset), current, f"processed by {group} since the release")
    for row in now.set_back:
        if row.tp == tp and row.end > move.offset:
            deleted, rewound = f"the commit of {group} was deleted", f"{group} was rewound after the release"
            why = deleted if row.commit_deleted else rewound
            yield ExplainedRange(*tp, max(row.start, move.offset), row.end, why)
