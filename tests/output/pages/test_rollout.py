"""The page of a rollout: unfinished groups first, who is missing, what to convert again."""

from __future__ import annotations

from typing import Any

from kgroup.groups.migration.rollout import ClassicMemberDocument, GroupRollout
from kgroup.model.blocks import Table, Title
from kgroup.output.pages.rollout import page, records
from tests.helpers.pages import written


def rolled(name: str, *missing: str, reverted: int = 0, kind: str = "consumer") -> GroupRollout:
    return GroupRollout(
        group=name,
        type=kind,
        state="Stable",
        finished=not missing,
        member_count=2,
        classic_member_count=len(missing),
        consumer_member_count=2 - len(missing),
        first_group_epoch=None,
        group_epoch=7,
        assignment_epoch=7,
        moved_partition_count=3,
        reverted_count=reverted,
        waited_ms=61_000,
        remaining_members=tuple(ClassicMemberDocument("", client, None, "10.0.0.1") for client in missing),
    )


def titles(*groups: GroupRollout) -> list[str]:
    return [block.text for block in page(groups, "consumer").blocks if isinstance(block, Title)]


def lines(*groups: GroupRollout) -> list[str]:
    return written(page(groups, "consumer").blocks)


def rows(*groups: GroupRollout) -> list[tuple[Any, ...]]:
    (table,) = (block for block in page(groups, "consumer").blocks if isinstance(block, Table))
    return [tuple(row) for row in table.rows]


def test_the_first_line_says_whether_it_is_done() -> None:
    assert titles(rolled("pay")) == ["DONE  rollout of pay to the consumer protocol"]
    assert titles(rolled("pay"), rolled("svc", "old-1")) == ["NOT YET  rollout of 2 groups to the consumer protocol"]
    assert titles() == []


def test_unfinished_groups_come_first_with_the_members_that_are_missing() -> None:
    found = rows(rolled("pay"), rolled("svc", "old-1"))
    assert [row[0] for row in found] == ["svc", "pay"]
    assert found[0][1:] == ("consumer", "Stable", 1, 1, 7, 3, None, "1m1s")
    assert lines(rolled("pay"), rolled("svc", "old-1")) == [
        "Members that do not use the consumer protocol yet:",
        "  svc: old-1 10.0.0.1",
    ]
    assert lines(rolled("pay")) == []


def test_a_group_that_went_back_is_converted_again() -> None:
    again = "-> stop svc, then convert it again: kgroup migrate svc --protocol consumer --wait-empty"
    assert lines(rolled("svc", reverted=1, kind="classic")) == [again]
    assert lines(rolled("svc", reverted=1)) == [], "it is of that type again"
    assert lines(rolled("svc", kind="classic")) == []
    assert rows(rolled("svc", reverted=1))[0][7] == 1


def test_no_more_than_twenty_rows() -> None:
    many = [rolled(f"svc-{number}") for number in range(21)]
    assert (len(rows(*many[:20])), lines(*many[:20])) == (20, [])
    assert (len(rows(*many)), lines(*many)) == (20, ["1 more: -o csv has all rows"])


def test_csv_has_all_rows_in_the_order_of_the_groups() -> None:
    found = records([rolled("pay"), rolled("svc", "old-1")])
    rows_ = [dict(zip(found.header, row, strict=True)) for row in found.rows]
    assert [(row["group"], row["finished"], row["waited_ms"]) for row in rows_] == [
        ("pay", "true", 61_000),
        ("svc", "false", 61_000),
    ]
