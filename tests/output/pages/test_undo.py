"""What only the page of an undo has: offsets moved since, groups that change type, other changes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kgroup.groups.change_plan import ChangePlan, ChangeRow
from kgroup.groups.change_result import Result
from kgroup.groups.undo_plan import TypeUndo, UndoRow
from kgroup.model.blocks import Block, Records, Table, Text
from kgroup.model.commit import Commit
from kgroup.model.groups import RowError
from kgroup.output.pages.change import ROWS_ON_A_PAGE
from kgroup.output.pages.undo import TYPES_HEADER, other_changes, put_back, restored_offsets, types_table
from kgroup.output.terminal.layout import draw_table

BEFORE, AFTER = Commit(5, None, ""), Commit(12, None, "")
ERROR = RowError("not-empty", "it has members")


def drawn(blocks: Sequence[Block]) -> list[list[str]]:
    """The words of each line."""
    lines: list[str] = []
    for block in blocks:
        lines += draw_table(block, None, True, lambda text, style: text) if isinstance(block, Table) else []
        lines += block.lines if isinstance(block, Text) else ()
    return [line.split() for line in lines]


def undo(*partitions: int, now: Commit = AFTER, group: str = "svc") -> tuple[list[ChangeRow], list[UndoRow]]:
    rows = [ChangeRow(group, "orders", number, now, BEFORE) for number in partitions]
    return rows, [UndoRow(group, "orders", number, BEFORE, AFTER, now) for number in partitions]


def result(rows: Sequence[ChangeRow]) -> Result:
    return Result(ChangePlan((), tuple(rows)), ())


def test_an_offset_is_changed_to_something_only_where_it_was_moved_since() -> None:
    rows, traces = undo(0)
    assert drawn(restored_offsets(result(rows), traces, verbose=False)) == [
        ["PARTITION", "OLD-OFFSET", "NEW-OFFSET", "SKIPPED", "REPEATED"],
        ["orders:0", "12", "5", "0", "7"],
    ]
    rows, traces = undo(0, now=Commit(14, None, ""))
    assert drawn(restored_offsets(result(rows), traces, verbose=False)) == [
        ["PARTITION", "OLD-OFFSET", "NEW-OFFSET", "CHANGED-TO", "SKIPPED", "REPEATED"],
        ["orders:0", "14", "5", "12", "0", "9"],
    ]


def test_errors_first_and_no_more_rows_than_a_page_has() -> None:
    rows, traces = undo(*range(ROWS_ON_A_PAGE + 2))
    rows[-1] = rows[-1].failing(ERROR)

    shown = drawn(restored_offsets(result(rows), traces, verbose=False))
    assert shown[1][0] == f"orders:{ROWS_ON_A_PAGE + 1}"
    assert "not-empty: it has members" in " ".join(shown[1])
    assert shown[-1] == ["2", "more:", "--verbose"]
    assert len(drawn(restored_offsets(result(rows), traces, verbose=True))) == ROWS_ON_A_PAGE + 3


def test_groups_are_named_where_there_are_several() -> None:
    (one, of_one), (two, of_two) = undo(0), undo(0, group="other")
    shown = drawn(restored_offsets(result(one + two), of_one + of_two, verbose=False))
    assert [line[0] for line in shown] == ["GROUP", "svc", "other"]
    assert restored_offsets(result(()), (), verbose=False) == []


def restore(done: bool | None = None, error: RowError | None = None) -> TypeUndo:
    code, message = (error.code, error.message) if error else (None, None)
    configs = {"consumer.session.timeout.ms": None}
    return TypeUndo("svc", "consumer", "classic", 2, configs, done, "ch-2222", code, message, "ch-1111")


@pytest.mark.parametrize(
    ("done", "error", "end", "in_csv"),
    [
        (None, None, "unset", ""),
        (True, None, "unset yes", "true"),
        (False, ERROR, "unset no not-empty: it has members", "false"),
    ],
)
def test_a_group_that_changes_type(done: bool | None, error: RowError | None, end: str, in_csv: str) -> None:
    (_, line) = drawn(types_table([restore(done, error)], verbose=False))
    assert " ".join(line) == f"svc consumer classic 2 consumer.session.timeout.ms {end}"
    (row,) = Records.of(TYPES_HEADER, [restore(done, error)]).rows
    assert [row[0], row[4] or "", row[6]] == ["svc", in_csv, error and error.code]


def test_many_groups_that_change_type() -> None:
    many = [restore()] * (ROWS_ON_A_PAGE + 1)
    assert drawn(types_table(many, verbose=False))[-1] == ["1", "more:", "--verbose"]
    assert len(drawn(types_table(many, verbose=True))) == ROWS_ON_A_PAGE + 2
    assert types_table([], verbose=False) == []


def test_only_commits_that_are_gone_are_put_back() -> None:
    gone = ChangeRow("svc", "orders", 1, None, BEFORE)
    rows, _ = undo(0)
    assert put_back(result(rows), verbose=False) == []
    shown = drawn(put_back(result([*rows, gone]), verbose=False))
    assert [line[0] for line in shown] == ["PARTITION", "orders:1"]


def test_other_changes_are_the_newest_ten() -> None:
    changes = [(f"ch-{number}", "12:00:00Z", "me@here", "reset svc", "done") for number in range(12)]
    assert other_changes([]) == ()
    assert len(drawn(other_changes(changes[:10]))) == 12
    shown = drawn(other_changes(changes))
    assert shown[2][0] == "ch-0"
    assert " ".join(shown[-1]) == "2 older changes not shown"
