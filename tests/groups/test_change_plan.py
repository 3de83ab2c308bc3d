"""What a change of an offset means for the records between."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.change_plan import (
    ChangePlan,
    ChangeRow,
    unusual_shift,
)
from kgroup.groups.change_result import OffsetChange
from kgroup.groups.reset_plan import unusual_reset
from kgroup.groups.reset_targets import ShiftBy
from kgroup.model.commit import Commit
from kgroup.model.groups import Group, LogRange, Partition, RowError
from kgroup.model.records import OffsetRange
from kgroup.model.topic_partition import TopicPartition


def row(old: int | None, new: int | None, log: tuple[int, int] | None = (100, 120)) -> ChangeRow:
    def commit(offset: int | None) -> Commit | None:
        return None if offset is None else Commit(offset, None, "")

    return ChangeRow("svc", "orders", 7, commit(old), commit(new), LogRange(*log) if log else None)


@pytest.mark.parametrize(
    ("old", "new", "skipped", "repeated"),
    [
        (105, 110, 5, 0),
        (110, 105, 0, 5),
        (105, 105, 0, 0),
        (100, 120, 20, 0),
        (120, 100, 0, 20),
        (5, 110, 10, 0),  # what lies below the log start is gone anyway
        (5, 100, 0, 0),
        (150, 100, 0, 20),  # nothing lies above the log end
        (150, 120, 0, 0),
        (None, 110, None, None),
        (110, None, None, None),
        (None, None, None, None),
    ],
)
def test_records_skipped_and_read_again(
    old: int | None, new: int | None, skipped: int | None, repeated: int | None
) -> None:
    found = row(old, new)
    assert (found.skipped, found.repeated) == (skipped, repeated)


@pytest.mark.parametrize(("old", "gone"), [(5, 95), (99, 1), (100, 0), (110, 0)])
def test_what_is_gone(old: int, gone: int) -> None:
    assert (row(old, 110).gone or 0) == gone


def test_a_commit_is_changed_by_its_metadata_too() -> None:
    plain, told = Commit(5, None, ""), Commit(5, None, "by hand")
    assert not ChangeRow("svc", "orders", 7, plain, plain).changes
    assert ChangeRow("svc", "orders", 7, plain, told).changes
    assert ChangeRow("svc", "orders", 7, plain, Commit(5, 3, "")).changes
    assert ChangeRow("svc", "orders", 7, plain, None).changes
    assert ChangeRow("svc", "orders", 7, None, plain).changes


def test_names_and_documents() -> None:
    found = row(5, 110)
    assert (found.name, found.tp) == ("orders:7", ("orders", 7))
    assert OffsetChange.of(found, "c1") == OffsetChange(
        group="svc",
        topic="orders",
        partition=7,
        old_offset=5,
        new_offset=110,
        skipped_count=10,
        repeated_count=0,
        clamped_reason=None,
        note=None,
        log_start=100,
        log_end=120,
        old_leader_epoch=None,
        new_leader_epoch=None,
        done=None,
        read_back_offset=None,
        error_code=None,
        error_message=None,
        change_id="c1",
    )
    failed = OffsetChange.of(found.failing(RowError("unknown-partition", "there is no such partition")), None)
    assert (failed.error_code, failed.skipped_count, failed.repeated_count) == ("unknown-partition", None, None)


def test_totals_of_a_plan() -> None:
    plan = ChangePlan((), (row(105, 110), row(110, 101), row(None, 101), row(5, 101)))
    assert plan.moves == (6, 9)
    assert plan.affected_groups == ("svc",)
    assert {group: len(rows) for group, rows in plan.by_group().items()} == {"svc": 4}
    assert plan.with_rows(plan.rows[:1]).size == 1


def stalled_half(count: int) -> tuple[list[ChangeRow], set[tuple[str, str, int]]]:
    """A shift of this many partitions of many groups, every other one of which is stalled."""
    rows = [
        ChangeRow(
            f"svc-{number // 20}", "orders", number % 20, Commit(5, None, ""), Commit(6, None, ""), LogRange(0, 9)
        )
        for number in range(count)
    ]
    return rows, {(row.group, row.topic, row.partition or 0) for row in rows[::2]}


class Counting(set[tuple[str, str, int]]):
    """A set that counts how often it is asked."""

    asked = 0

    def __contains__(self, place: object) -> bool:
        self.asked += 1
        return super().__contains__(place)


def test_an_unusual_shift_looks_at_each_row_a_few_times_only() -> None:
    rows, stuck = stalled_half(10_000)
    counting = Counting(stuck)
    assert unusual_shift(rows, counting)
    assert counting.asked <= 4 * len(rows)


@pytest.mark.parametrize(
    ("olds", "by", "warns"),
    [
        ((3, 3, 3, 3), 1, "skips a record in each of 4 partitions. One alone: --topic orders:0"),
        ((3, 3), 2, "skips records in each of 2 partitions. One alone: --topic orders:0"),
        ((3,), 1, None),
        ((3, 9, 9, 9), 1, None),  # three have nothing to skip
        ((3, 3, 3, 3), -1, None),
    ],
)
def test_a_shift_of_a_whole_topic_is_unusual(olds: tuple[int, ...], by: int, warns: str | None) -> None:
    rows = [
        ChangeRow("svc", "orders", at, Commit(old, None, ""), Commit(min(old + by, 9), None, ""), LogRange(0, 9))
        for at, old in enumerate(olds)
    ]
    assert unusual_shift(rows, ()) == ((warns,) if warns else ())


def test_an_unusual_shift() -> None:
    rows, stuck = stalled_half(4)
    assert unusual_shift(rows, stuck), "two of four"
    assert unusual_shift(rows[:1], {("svc-0", "orders", 0)}) == (), "just the one that is stalled"


def test_a_plan_and_its_parts() -> None:
    given = (
        row(105, 110),
        row(110, 105),
        row(105, 112).failing(RowError("no-right", "no READ")),
        replace(row(108, 115), group="other"),
        row(None, 110),
        row(110, None),
    )
    plan = ChangePlan((), given, deleted=frozenset({"gone"}))
    assert (plan.size, plan.affected_groups, plan.moves) == (7, ("svc", "other", "gone"), (12, 5))
    assert plan.skipped_ranges == [OffsetRange("orders", 7, 105, 115)], "merged: both groups skip 108 and 109"
    assert [*plan.without(()).rows] == [one for one in given if not one.error]
    assert [*plan.without({"svc"}).rows] == [given[3]]


def test_an_unusual_reset_of_several_groups_names_the_stalled_partition() -> None:
    log = LogRange(100, 120)
    offsets = {"svc": (119, 120, 120), "idle": (120, 120, 120)}
    groups = [
        Group(
            name, "classic", "Empty", "", None, None, None, None, None, None, (),
            tuple(
                Partition(TopicPartition("orders", at), Commit(offset, None, ""), None, None, None)
                for at, offset in enumerate(own)
            ),
        )
        for name, own in offsets.items()
    ]  # fmt: skip
    rows = [
        ChangeRow(name, "orders", at, Commit(offset, None, ""), Commit(offset + 1, None, ""), log)
        for name, own in offsets.items()
        for at, offset in enumerate(own)
    ]
    lines = unusual_reset(groups, (), rows, ShiftBy(1))
    assert lines == (
        "moves 6 partitions, 1 is stalled: skips one good record in 5 of them.",
        "Only the stalled one: --topic orders:0",
    )
