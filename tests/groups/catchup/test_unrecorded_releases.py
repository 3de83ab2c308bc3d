"""What the marks of a group say of releases that the ledger does not have; tables, without a broker."""

from __future__ import annotations

import pytest

from kgroup.groups.catchup.model import PlanSnapshot, PlanState
from kgroup.groups.catchup.unrecorded_releases import UnrecordedRelease, find_unrecorded_releases, range_words
from kgroup.groups.commit_tags import CatchupCommitTag, TagPurpose
from kgroup.model.commit import Commit
from kgroup.model.groups import Group, Partition
from kgroup.model.records import OffsetRange
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.cases import described
from tests.helpers.catchup.plans import gap_range, ledgered, make_plan


def group(*commits: tuple[int, str]) -> Group:
    partitions = [
        Partition(TopicPartition("orders", number), Commit(offset, None, metadata), None, None, None)
        for number, (offset, metadata) in enumerate(commits)
    ]
    return described.group([*partitions, without_commit()], name="svc", state="Empty", assignor=None)


def without_commit() -> Partition:
    return Partition(TopicPartition("orders", 99), None, None, None, None)


def release(plan_id: str = "cu-7f3a", start: int | None = 70) -> str:
    return CatchupCommitTag(plan_id, 1, TagPurpose.RELEASE, start).metadata


def orders(partition: int, start: int, end: int) -> OffsetRange:
    return OffsetRange("orders", partition, start, end)


@pytest.mark.parametrize(
    ("commits", "found"),
    [
        ([(120, "the app's own")], ()),
        ([(120, CatchupCommitTag("cu-7f3a", 1, TagPurpose.BACK).metadata)], ()),
        ([(120, release("cu-2222"))], ()),
        ([(70, release())], ()),
        ([(120, release()), (5, ""), (50, release(start=20))], (("cu-7f3a", (orders(0, 70, 120), orders(2, 20, 50))),)),
    ],
)
def test_releases_that_the_ledger_does_not_have(
    commits: list[tuple[int, str]], found: tuple[tuple[str, tuple[OffsetRange, ...]], ...]
) -> None:
    assert find_unrecorded_releases(group(*commits), lambda plan_id: plan_id in ("cu-2222", "cu-9999")) == tuple(
        UnrecordedRelease(*row) for row in found
    )


def test_two_plans() -> None:
    (one, other) = find_unrecorded_releases(group((120, release("cu-9999")), (120, release())), lambda _: False)

    assert (one.plan_id, one.ranges) == ("cu-7f3a", (orders(1, 70, 120),))
    assert (other.plan_id, other.offsets) == ("cu-9999", 50)


def test_a_mark_of_an_older_version_does_not_say_how_much() -> None:
    (found,) = find_unrecorded_releases(group((120, release(start=None)), (120, release())), lambda _: False)

    assert (found.offsets, found.ranges) == (None, (orders(1, 70, 120),))
    assert found.text == "an unknown number in cu-7f3a"


def covered(state: PlanState, named: bool = False) -> PlanSnapshot:
    plan = make_plan(gap_range(0, 80, 90), gap_range(0, 110, 130), group="svc" if named else None)
    return ledgered(plan, state)


def test_ranges_that_another_plan_was_made_for_are_in_good_hands() -> None:
    of_group = group((120, release("cu-9999")))

    (found,) = find_unrecorded_releases(of_group, lambda _: False, [covered(PlanState.DONE)])

    assert found.ranges == (orders(0, 70, 80), orders(0, 90, 110))
    for other in (covered(PlanState.CANCELLED), covered(PlanState.RELEASED, named=True)):
        assert find_unrecorded_releases(of_group, lambda _: False, [other])[0].ranges == (orders(0, 70, 120),)


def test_the_words_of_a_command() -> None:
    assert range_words([orders(0, 70, 120), orders(1, 20, 50)]) == ("--range", "orders:0=70-120,orders:1=20-50")
    assert range_words([]) == ()
