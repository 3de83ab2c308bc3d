"""Which commits a release and a move back consist of, and what comes twice because of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kgroup.catchup.delivered import delivered_to
from kgroup.catchup.model import CatchupPlan, Chunk, ChunkProgress, GapRange, Place
from kgroup.catchup.release_evidence import origin
from kgroup.catchup.steps import OffsetMove, Reprocessed, Situation
from kgroup.groups.commit_tags import CatchupCommitTag, TagPurpose
from kgroup.model.groups import Commit
from kgroup.support.units import plural


def offset_of(commit: Commit | None) -> int | None:
    """Its offset; None where there is no commit."""
    return None if commit is None else commit.offset


def releases(now: Situation, ranges: Iterable[GapRange]) -> tuple[OffsetMove, ...]:
    """The commits at the frozen ends, with kgroup's mark."""
    plan = now.ledgered.plan
    return tuple(
        OffsetMove(*item.place, now.committed.get(item.place), (at_end(plan, item, now.epoch),)) for item in ranges
    )


def at_end(plan: CatchupPlan, item: GapRange, epoch: int) -> Commit:
    """The commit that releases a partition."""
    mark = CatchupCommitTag(plan.id, epoch, TagPurpose.RELEASE, item.start)
    return Commit(item.end, item.end_leader_epoch, mark.metadata)


def back(now: Situation, item: GapRange, target: int) -> OffsetMove | None:
    """The move of a partition back to ``target``; None where it stands there already, or lower: never forward.

    Nor below the log start: what is gone would make clients jump, and not all of them to where it begins.
    """
    place, mark = item.place, CatchupCommitTag(now.ledgered.plan.id, now.epoch, TagPurpose.BACK).metadata
    stands = now.committed.get(place)
    target = max(target, min(now.log_starts.get(place, target), item.end))
    if stands is not None and stands.offset <= target:
        return None
    own = _own(item, target)
    return OffsetMove(*place, stands, (Commit(target, own.leader_epoch, mark), own))


def back_to_origin(now: Situation, ranges: Iterable[GapRange]) -> tuple[OffsetMove, ...]:
    """The moves of partitions of which nothing was delivered."""
    plan = now.ledgered.plan
    return tuple(move for item in ranges if (move := back(now, item, origin(plan, item))) is not None)


def _own(item: GapRange, target: int) -> Commit:
    """The group's commit as it was, at ``target``: a leader epoch goes with its own offset alone."""
    before = item.before
    if before is None:
        return Commit(target, None, "")
    return Commit(target, before.leader_epoch if before.offset == target else None, before.metadata)


def restores(now: Situation) -> Iterator[OffsetMove]:
    """Partitions that stand where they were moved back to, with kgroup's mark still."""
    for item in now.ledgered.plan.ranges:
        stands = now.committed.get(item.place)
        mark = None if stands is None else CatchupCommitTag.of(stands.metadata)
        if stands is None or mark is None or mark.plan_id != now.ledgered.plan.id:
            continue
        if mark.moved is TagPurpose.BACK:
            yield OffsetMove(*item.place, stands, (_own(item, stands.offset),))


def comes_again(now: Situation, moves: Iterable[OffsetMove]) -> tuple[Reprocessed, ...]:
    """What the group gets again when it is moved back: what was delivered above, and what it handled itself."""
    plan = now.ledgered.plan
    chunks: dict[Place, list[Chunk]] = {}
    for chunk in plan.chunks:
        chunks.setdefault((chunk.topic, chunk.partition), []).append(chunk)
    ends = {item.place: item.end for item in plan.ranges}
    return tuple(row for move in moves for row in _of_move(now, move, chunks.get(move.place, ()), ends[move.place]))


def _in_buckets(now: Situation, chunk: Chunk) -> int:
    """Records of a chunk that is not delivered which were, with buckets of keys; which ones is not known."""
    delivery, known = now.ledgered.delivery, now.ledgered.progress[chunk.number]
    return known.records - known.filtered - known.dead if delivery is not None and delivery.buckets else 0


def _once_in_target(chunk: Chunk, done: int, known: ChunkProgress, move: OffsetMove) -> Iterator[Reprocessed]:
    """What the target topic has above the part that is delivered, and what it had."""
    for start, end in known.kept:
        if max(start, move.offset) < end:
            yield Reprocessed(*move.place, max(start, move.offset), end, "delivered by the replay")
    if known.again:
        why = f"{plural(known.again, 'record')} delivered by the replay, and gone from the target topic since"
        yield Reprocessed(*move.place, done, chunk.end, why)


def _of_move(now: Situation, move: OffsetMove, chunks: Iterable[Chunk], end: int) -> Iterator[Reprocessed]:
    place, group, progress = move.place, now.ledgered.plan.group, now.ledgered.progress
    for chunk in chunks:
        done, known = delivered_to(chunk, progress), progress.get(chunk.number)
        if max(chunk.start, move.offset) < done:
            yield Reprocessed(*place, max(chunk.start, move.offset), done, "delivered by the replay")
        if known is not None and done < chunk.end:
            yield from _once_in_target(chunk, done, known, move)
        if known is not None and known.may_repeat and done < chunk.end:
            yield Reprocessed(
                *place, done, chunk.end, f"up to {plural(known.may_repeat, 'record')} handled by the replay"
            )
        if known is not None and done < chunk.end and (some := _in_buckets(now, chunk)):
            yield Reprocessed(*place, done, chunk.end, f"{plural(some, 'record')} delivered by the replay")
    stands = offset_of(move.stands)
    if stands is not None and stands > end:
        yield Reprocessed(*place, max(end, move.offset), stands, f"handled by {group} since")
    for row in now.set_back:
        if (row.topic, row.partition) == place and row.end > move.offset:
            why = f"the commit of {group} was deleted" if row.deleted else f"{group} was set back meanwhile"
            yield Reprocessed(*place, max(row.start, move.offset), row.end, why)
