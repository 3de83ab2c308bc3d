"""A gap that the application itself reads, in a second group: where it begins, and how far it is. Pure.

The second group's commits are the proof: what lies below a commit was handed to the application. A chunk has progress
from the moment on that its start is known to be committed there. Before that, a commit that is not kgroup's shows
nothing: without an offset, an application begins where ``auto.offset.reset`` says.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kgroup.groups.catchup.delivered import delivered_to, undelivered
from kgroup.groups.catchup.model import CatchupPlan, Chunk, ChunkProgress, GapRange
from kgroup.groups.commit_tags import CatchupCommitTag, TagPurpose
from kgroup.model.commit import Commit
from kgroup.model.records import LostOffsets
from kgroup.model.topic_partition import TopicPartition

SECOND_GROUP = "group"
"""The sink of a plan whose gap another group reads."""

DELETE_GROUP = "delete-group"
"""The option of a Delivery that deletes that group after the verification."""

SecondCommits = Mapping[TopicPartition, Commit]
ProgressByChunk = Mapping[int, ChunkProgress]


class Handover(msgspec.Struct, frozen=True):
    """What is left to do until the second group begins in the gap.

    ``commits`` are to be written to it. ``used`` are partitions of the gap on which it has commits that are not this
    plan's: it cannot be known where its application began.
    """

    commits: SecondCommits
    used: SecondCommits


def hand_over(
    plan: CatchupPlan,
    progress: ProgressByChunk,
    committed: SecondCommits,
    log_starts: Mapping[TopicPartition, int],
    epoch: int,
) -> Handover:
    """The handover to a group that has ``committed`` these offsets; a partition that is delivered needs nothing.

    It never begins below the log start: where ``auto.offset.reset`` is latest, it would jump to the log end from there.
    """
    lowest: dict[TopicPartition, int] = {}
    for row in undelivered(plan, progress):
        lowest.setdefault(row.tp, row.start)
    begun = {chunk.tp for chunk in plan.chunks if chunk.number in progress}
    by_tp = {item.tp: item for item in plan.ranges}
    commits, used = {}, {}
    for tp, start in lowest.items():
        now = committed.get(tp)
        if now is None:
            first = max(start, min(log_starts.get(tp, start), by_tp[tp].end))
            commits[tp] = gap_commit(plan.id, epoch, first, by_tp[tp].before)
        elif not _counts(now, plan.id, begun=tp in begun):
            used[tp] = now
    return Handover(commits, used)


def gap_commit(plan_id: str, epoch: int, offset: int, before: Commit | None = None) -> Commit:
    """The commit of a second group that begins at ``offset``; ``before`` is the plan's own group's."""
    leader_epoch = before.leader_epoch if before is not None and before.offset == offset else None
    return Commit(offset, leader_epoch, CatchupCommitTag(plan_id, epoch, TagPurpose.GAP).metadata)


def is_mark(commit: Commit, plan_id: str) -> bool:
    """Whether kgroup made the commit of a second group for this plan: its application has committed nothing since."""
    tag = CatchupCommitTag.of(commit.metadata)
    return tag is not None and tag.plan_id == plan_id and tag.moved is TagPurpose.GAP


def is_mark_of_another(commit: Commit, plan_id: str) -> bool:
    """Whether kgroup made the commit for another plan."""
    tag = CatchupCommitTag.of(commit.metadata)
    return tag is not None and tag.plan_id != plan_id


def _counts(commit: Commit, plan_id: str, *, begun: bool) -> bool:
    """Whether it shows where the application is: not before the handover, and not if it is another plan's mark."""
    return is_mark(commit, plan_id) or (begun and CatchupCommitTag.of(commit.metadata) is None)


def new_progress(
    plan: CatchupPlan,
    progress: ProgressByChunk,
    committed: SecondCommits,
    log_starts: Mapping[TopicPartition, int],
    *,
    epoch: int,
    at_ms: int,
) -> tuple[ChunkProgress, ...]:
    """The progress that differs from what the ledger has, by the commits of a second group.

    Only partitions count that were handed over, or whose commit is the plan's mark: that shows the handover. A commit
    at 130 of a gap [70, 120): delivered to 120, and 10 possible duplicates, as the plan's group reads these too.
    Progress never goes back. ``log_starts`` were read after the commits. If one has passed what was committed before,
    then the group may have jumped to wherever ``auto.offset.reset`` says: what it passed over counts as lost.
    """
    chunks: dict[TopicPartition, list[Chunk]] = {}
    for chunk in plan.chunks:
        chunks.setdefault(chunk.tp, []).append(chunk)
    begun = {chunk.tp for chunk in plan.chunks if chunk.number in progress}
    rows: list[ChunkProgress] = []
    for item in plan.ranges:
        commit = committed.get(item.tp)
        if commit is not None and _counts(commit, plan.id, begun=item.tp in begun):
            rows += _of_range(item, chunks.get(item.tp, []), progress, commit, log_starts.get(item.tp, 0), epoch, at_ms)
    return tuple(rows)


def _of_range(
    item: GapRange,
    chunks: list[Chunk],
    progress: ProgressByChunk,
    commit: Commit,
    log_start: int,
    epoch: int,
    at_ms: int,
) -> list[ChunkProgress]:
    position = next((at for one in chunks if (at := delivered_to(one, progress)) < one.end), item.end)
    if CatchupCommitTag.of(commit.metadata) is not None:
        jumped, why = position < commit.offset, f"the log started at {commit.offset} when the gap was handed over"
    else:
        jumped = position < min(log_start, commit.offset)
        why = f"the log starts at {log_start}, and {position} was committed before: the application may have jumped"
    rows = []
    for chunk in chunks:
        known = progress.get(chunk.number)
        before = delivered_to(chunk, progress)
        after = max(before, min(commit.offset, chunk.end))
        over = max(0, commit.offset - item.end) if chunk.end == item.end else 0
        lost = () if known is None else known.lost
        if jumped and before < after:
            lost = (*lost, LostOffsets(before, after, why))
        repeats = max(over, 0 if known is None else known.may_repeat)
        row = ChunkProgress(chunk.number, after, 0, 0, 0, 0, at_ms, epoch, lost, repeats)
        if known is None or (known.delivered_to, known.may_repeat) != (after, repeats):
            rows.append(row)
    return rows


def next_ends(plan: CatchupPlan, progress: ProgressByChunk) -> dict[TopicPartition, int]:
    """The end of the first chunk that is left, of each partition that has one: the next batch of a fork."""
    ends: dict[TopicPartition, int] = {}
    for chunk in plan.chunks:
        if chunk.tp not in ends and delivered_to(chunk, progress) < chunk.end:
            ends[chunk.tp] = chunk.end
    return ends


def past_end(plan: CatchupPlan, progress: ProgressByChunk) -> frozenset[TopicPartition]:
    """The partitions of which nothing is left: the application need not read them any more."""
    return frozenset(item.tp for item in plan.ranges) - {row.tp for row in undelivered(plan, progress)}


def overrun(progress: ProgressByChunk) -> int:
    """How many offsets after the gap the second group has passed; the plan's group reads them too."""
    return sum(row.may_repeat for row in progress.values())
