"""What a member catches up, and which older plans are in its way."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.catchup.behind import BehindBound
from kgroup.groups.catchup.member_gap import UnreadLog, behind_ranges, is_void, may_be_behind, plans_in_the_way
from kgroup.groups.catchup.model import PlanSnapshot, PlanState, StateRecord
from kgroup.groups.commit_tags import CatchupCommitTag, TagPurpose, is_plan_id, new_member_plan_id
from kgroup.model.commit import Commit
from kgroup.model.topic_partition import TopicPartition
from kgroup.model.topic_settings import TopicSettings
from kgroup.support.errors import UsageError
from tests.helpers.catchup.plans import ME, NOW_MS, gap_range, make_plan

HERE, THERE = TopicPartition("orders", 0), TopicPartition("orders", 1)
AT_70, TEN_MINUTES, FORTY = Commit(70, 3, ""), BehindBound(age_s=600), BehindBound(records=40)
HOUR_AGO, JUST_NOW = NOW_MS - 3_600_000, NOW_MS - 1_000
LOG = UnreadLog(0, 120, 4, 120, HOUR_AGO, "id", TopicSettings(retention_ms=86_400_000))


@pytest.mark.parametrize(
    ("bound", "end", "since", "suspected"),
    [
        (FORTY, 120, None, True),
        (FORTY, 111, None, True),
        (FORTY, 110, None, False),
        (TEN_MINUTES, 120, 90, True),
        (TEN_MINUTES, 120, 71, True),
        (TEN_MINUTES, 120, 70, False),
        (TEN_MINUTES, 120, 60, False),
        # No record is that new: all unread ones are older.
        (TEN_MINUTES, 120, None, True),
        (TEN_MINUTES, 70, None, False),
    ],
)
def test_what_may_be_behind(bound: BehindBound, end: int, since: int | None, suspected: bool) -> None:
    found = may_be_behind({HERE: AT_70, THERE: None}, {HERE: end, THERE: 500}, {HERE: since, THERE: None}, bound)

    assert found == ({HERE: AT_70} if suspected else {})


def test_a_log_that_could_not_be_read_is_not_behind() -> None:
    assert may_be_behind({HERE: AT_70}, {}, {}, FORTY) == {}
    assert may_be_behind({HERE: AT_70}, {}, {}, TEN_MINUTES) == {}
    assert behind_ranges({HERE: AT_70}, {}, FORTY, NOW_MS) == ()


@pytest.mark.parametrize(
    ("bound", "log", "span"),
    [
        (FORTY, LOG, (70, 120)),
        (FORTY, replace(LOG, last_stable=110), None),
        (FORTY, replace(LOG, last_stable=115), (70, 115)),
        (TEN_MINUTES, LOG, (70, 120)),
        (TEN_MINUTES, replace(LOG, oldest_ms=NOW_MS - 600_000), None),
        (TEN_MINUTES, replace(LOG, oldest_ms=JUST_NOW), None),
        # Only markers are left, as of a topic with transactions that is idle.
        (TEN_MINUTES, replace(LOG, oldest_ms=None), None),
        (TEN_MINUTES, replace(LOG, last_stable=70), None),
        # Retention took a part of it, or all.
        (TEN_MINUTES, replace(LOG, start=90), (90, 120)),
        (TEN_MINUTES, replace(LOG, start=120), None),
        # Above the log end: the topic was recreated, or the log truncated.
        (TEN_MINUTES, replace(LOG, last_stable=60, high_watermark=60), None),
    ],
)
def test_the_gap_of_a_partition(bound: BehindBound, log: UnreadLog, span: tuple[int, int] | None) -> None:
    found = behind_ranges({HERE: AT_70}, {HERE: log}, bound, NOW_MS)

    assert [(item.start, item.end) for item in found] == ([] if span is None else [span])
    assert all(item.before == AT_70 for item in found)


@pytest.mark.parametrize(
    ("settings", "records", "deadline"),
    [
        (LOG.settings, 50, HOUR_AGO + 86_400_000),
        (TopicSettings(), 50, None),
        (TopicSettings(cleanup_policy="compact"), None, None),
        (None, 50, None),
    ],
)
def test_what_is_known_of_a_gap(settings: TopicSettings | None, records: int | None, deadline: int | None) -> None:
    (item,) = behind_ranges({HERE: AT_70}, {HERE: replace(LOG, settings=settings)}, TEN_MINUTES, NOW_MS)

    assert (item.records, item.retention_deadline_ms, item.end_leader_epoch) == (records, deadline, 4)
    assert (item.topic_id, item.oldest_ms) == ("id", HOUR_AGO)


def snapshot(state: PlanState, *partitions: int) -> PlanSnapshot:
    plan = replace(make_plan(*(gap_range(number) for number in partitions or (0,))), by_member=True)
    return PlanSnapshot(plan, 5, StateRecord(state, NOW_MS, ME, 1, 7), None, None, {})


def marked(offset: int, plan_id: str, start: int) -> Commit:
    """As confluent-kafka stores it, and as it comes back from it."""
    return Commit(offset, 4, CatchupCommitTag(plan_id, 1, TagPurpose.RELEASE, start).metadata + "\0")


@pytest.mark.parametrize(
    ("state", "there", "void"),
    [
        (PlanState.PLANNED, None, True),
        (PlanState.RELEASING, AT_70, True),
        # Its other partition was caught up by its next owner, from the same start.
        (PlanState.RELEASING, marked(150, "cu-2222", 70), True),
        # It was released, or it is unknown whether it was: the group has read on, or its commit was not read.
        (PlanState.RELEASING, marked(120, "cu-7f3a", 70), False),
        (PlanState.RELEASING, Commit(75, 4, ""), False),
        (PlanState.RELEASING, marked(150, "cu-2222", 120), False),
        (PlanState.RELEASING, None, False),
        (PlanState.RELEASED, AT_70, False),
        (PlanState.CANCELLING, AT_70, False),
    ],
)
def test_a_plan_is_void_if_the_group_or_a_later_plan_has_all_of_it(
    state: PlanState, there: Commit | None, void: bool
) -> None:
    assert is_void(snapshot(state, 0, 1), {HERE: AT_70, THERE: there}) is void


def test_plans_in_the_way() -> None:
    mine = (gap_range(0, 70, 150), gap_range(1, 70, 150), gap_range(2, 120, 150))
    interrupted, pending, closed = (
        snapshot(PlanState.RELEASING),
        snapshot(PlanState.RELEASED, 1, 2),
        PlanState.CANCELLED,
    )

    found = plans_in_the_way(mine, [interrupted, pending, snapshot(closed)], {HERE: AT_70})

    assert found.void == (interrupted,)
    # Of partition 2 the pending plan has what is before the gap.
    assert found.kept == {THERE: "cu-7f3a"}


@pytest.mark.parametrize(
    ("text", "bound"),
    [("10m", TEN_MINUTES), ("40", FORTY), ("100k", BehindBound(records=100_000)), ("1h30m", BehindBound(age_s=5400))],
)
def test_a_bound(text: str, bound: BehindBound) -> None:
    assert BehindBound.parse(text, "behind") == bound


def test_what_is_no_bound() -> None:
    with pytest.raises(UsageError, match="behind soon: neither a duration nor a number of records"):
        BehindBound.parse("soon", "behind")


def test_the_id_of_a_member_s_plan_is_longer() -> None:
    assert is_plan_id(made := new_member_plan_id())
    assert len(made) == len("cu-7f3a2k9x")
