"""A gap that a second group reads: where it begins, and what its commits show."""

from __future__ import annotations

import pytest

from kgroup.groups.catchup.model import ChunkProgress
from kgroup.groups.catchup.second_group import (
    gap_commit,
    hand_over,
    is_mark,
    new_progress,
    next_ends,
    overrun,
    past_end,
)
from kgroup.groups.commit_tags import CatchupCommitTag, TagPurpose
from kgroup.model.commit import Commit
from kgroup.model.records import LostOffsets
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.catchup.plans import PLAN_ID, gap_range, made, make_plan

HERE, THERE = TopicPartition("orders", 0), TopicPartition("orders", 1)
PLAN = make_plan(gap_range(0, 70, 120), gap_range(1, 20, 50, None))
BEGUN = {0: made(0, 70), 1: made(1, 20)}
MARK, OTHERS_MARK = gap_commit(PLAN_ID, 2, 70), gap_commit("cu-2222", 2, 70)
RELEASE = Commit(120, None, CatchupCommitTag(PLAN_ID, 2, TagPurpose.RELEASE, 70).metadata)
OWN_OF_APPLICATION = Commit(90, None, "")


def test_the_mark_of_a_second_group() -> None:
    assert MARK.metadata == "kgroup cu-7f3a 2 gap"
    assert CatchupCommitTag.of(MARK.metadata) == CatchupCommitTag(PLAN_ID, 2, TagPurpose.GAP)
    assert [is_mark(commit, PLAN_ID) for commit in (MARK, OTHERS_MARK, RELEASE, OWN_OF_APPLICATION)] == [
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("progress", "committed", "starts", "commits", "used"),
    [
        # Nothing is there yet.
        ({}, {}, {}, {HERE: 70, THERE: 20}, []),
        # Killed after one of two commits, or before the ledger knew.
        ({}, {HERE: MARK}, {}, {THERE: 20}, []),
        ({}, {HERE: MARK, THERE: MARK}, {}, {}, []),
        # A client that began by itself: where, is unknown.
        ({}, {HERE: OWN_OF_APPLICATION}, {}, {THERE: 20}, [HERE]),
        ({}, {HERE: OTHERS_MARK}, {}, {THERE: 20}, [HERE]),
        ({}, {HERE: RELEASE}, {}, {THERE: 20}, [HERE]),
        # Handed over: its own commits are progress; another plan's mark is not.
        (BEGUN, {HERE: OWN_OF_APPLICATION, THERE: Commit(20, None, "")}, {}, {}, []),
        (BEGUN, {HERE: OTHERS_MARK, THERE: MARK}, {}, {}, [HERE]),
        # Its commits were deleted, or have expired: from what the ledger has.
        ({0: made(0, 90), 1: made(1, 20)}, {}, {}, {HERE: 90, THERE: 20}, []),
        # A partition that is delivered needs nothing, also if the group is deleted.
        ({0: made(0, 120), 1: made(1, 20)}, {}, {}, {THERE: 20}, []),
        ({0: made(0, 120), 1: made(1, 50)}, {}, {}, {}, []),
        # Never below the log start, nor above the gap's end.
        ({}, {}, {HERE: 80, THERE: 10}, {HERE: 80, THERE: 20}, []),
        ({}, {}, {HERE: 500}, {HERE: 120, THERE: 20}, []),
    ],
)
def test_what_is_left_of_the_handover(
    progress: dict[int, ChunkProgress],
    committed: dict[TopicPartition, Commit],
    starts: dict[TopicPartition, int],
    commits: dict[TopicPartition, int],
    used: list[TopicPartition],
) -> None:
    left = hand_over(PLAN, progress, committed, starts, 2)

    assert {tp: commit.offset for tp, commit in left.commits.items()} == commits
    assert all(is_mark(commit, PLAN_ID) for commit in left.commits.values())
    assert list(left.used) == used


def test_the_leader_epoch_is_kept_with_its_own_offset_only() -> None:
    assert hand_over(PLAN, {}, {}, {}, 2).commits[HERE].leader_epoch == 3
    assert hand_over(PLAN, {0: made(0, 90)}, {}, {}, 2).commits[HERE].leader_epoch is None


@pytest.mark.parametrize(
    ("progress", "commit", "log_start", "rows"),
    [
        # The mark confirms the handover; before it, a commit of another client shows nothing.
        ({}, MARK, 0, [(0, 70, 0)]),
        ({}, OWN_OF_APPLICATION, 0, []),
        ({}, OTHERS_MARK, 0, []),
        (BEGUN, MARK, 0, []),
        (BEGUN, OTHERS_MARK._replace(offset=120), 0, []),
        (BEGUN, OWN_OF_APPLICATION, 0, [(0, 90, 0)]),
        (BEGUN, Commit(119, None, ""), 0, [(0, 119, 0)]),
        (BEGUN, Commit(120, None, ""), 0, [(0, 120, 0)]),
        (BEGUN, Commit(130, None, ""), 0, [(0, 120, 10)]),
        # It never goes back, and the overrun grows.
        ({0: made(0, 100)}, OWN_OF_APPLICATION, 0, []),
        ({0: made(0, 120, may_repeat=10)}, Commit(125, None, ""), 0, []),
        ({0: made(0, 120, may_repeat=10)}, Commit(140, None, ""), 0, [(0, 120, 20)]),
        # Below the gap, as after a reset.
        (BEGUN, Commit(5, None, ""), 0, []),
    ],
)
def test_what_a_commit_shows(
    progress: dict[int, ChunkProgress], commit: Commit, log_start: int, rows: list[tuple[int, int, int]]
) -> None:
    found = new_progress(PLAN, progress, {HERE: commit}, {HERE: log_start}, epoch=2, at_ms=9)

    assert [(row.chunk, row.delivered_to, row.may_repeat) for row in found] == rows
    assert not any(row.lost for row in found)


@pytest.mark.parametrize(
    ("progress", "commit", "log_start", "lost"),
    [
        # Retention overtook the application. Whether it read on at 80, or jumped to the end, is unknown.
        (BEGUN, Commit(90, None, ""), 80, (70, 90)),
        (BEGUN, Commit(130, None, ""), 80, (70, 120)),
        ({0: made(0, 85)}, Commit(90, None, ""), 80, None),
        (BEGUN, Commit(70, None, ""), 80, None),
        # kgroup itself began at the log start.
        ({}, gap_commit(PLAN_ID, 2, 80), 80, (70, 80)),
        ({}, gap_commit(PLAN_ID, 2, 80), 0, (70, 80)),
    ],
)
def test_what_the_application_may_have_passed_over_is_lost(
    progress: dict[int, ChunkProgress], commit: Commit, log_start: int, lost: tuple[int, int] | None
) -> None:
    rows = new_progress(PLAN, progress, {HERE: commit}, {HERE: log_start}, epoch=2, at_ms=9)

    assert [(one.start, one.end) for row in rows for one in row.lost] == ([] if lost is None else [lost])


def test_several_chunks_of_a_partition() -> None:
    chunks = tuple(
        type(PLAN.chunks[0])("orders", 0, start, end, number)
        for number, (start, end) in enumerate([(70, 90), (90, 110), (110, 120)])
    )
    plan = make_plan(gap_range(0, 70, 120), chunks=chunks)
    begun = {number: made(number, start) for number, start in enumerate((70, 90, 110))}

    inside = new_progress(plan, begun, {HERE: Commit(100, None, "")}, {}, epoch=2, at_ms=9)
    after = new_progress(plan, begun, {HERE: Commit(123, None, "")}, {}, epoch=2, at_ms=9)
    jumped = new_progress(plan, begun, {HERE: Commit(100, None, "")}, {HERE: 75}, epoch=2, at_ms=9)

    assert [(row.chunk, row.delivered_to, row.may_repeat) for row in inside] == [(0, 90, 0), (1, 100, 0)]
    assert [(row.chunk, row.delivered_to, row.may_repeat) for row in after] == [(0, 90, 0), (1, 110, 0), (2, 120, 3)]
    assert [row.lost[0].start for row in jumped] == [70, 90]
    progress = {row.chunk: row for row in after}
    assert (past_end(plan, progress), overrun(progress)) == (frozenset({HERE}), 3)
    assert past_end(plan, begun | {row.chunk: row for row in inside}) == frozenset()


def test_what_was_lost_before_stays_lost() -> None:
    gone = LostOffsets(70, 75, "deleted")

    (row,) = new_progress(PLAN, {0: made(0, 75, lost=(gone,))}, {HERE: Commit(90, None, "")}, {}, epoch=2, at_ms=9)

    assert row.lost == (gone,)


@pytest.mark.parametrize(
    ("progress", "ends"),
    [({}, {HERE: 120, THERE: 50}), ({0: made(0, 100)}, {HERE: 120, THERE: 50}), ({0: made(0, 120)}, {THERE: 50})],
)
def test_the_next_batch_of_a_fork(progress: dict[int, ChunkProgress], ends: dict[TopicPartition, int]) -> None:
    assert next_ends(PLAN, progress) == ends
