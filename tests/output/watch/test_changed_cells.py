"""What ``--watch`` marks between two pages."""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.model.blocks import Cell, Column, Screen, Styled, Table, Text
from kgroup.output.terminal.layout import draw_table
from kgroup.output.watch.changed_cells import mark_changes

COLUMNS = (Column("PARTITION"), Column("LAG", right=True), Column("TIME-LAG"), Column("STATUS"))


def page(*rows: Sequence[Cell]) -> Screen:
    return Screen((Text(("above",)), Table(COLUMNS, rows)))


def rows(screen: Screen) -> Sequence[Sequence[Cell]]:
    (table,) = [block for block in screen.blocks if isinstance(block, Table)]
    return [list(row) for row in table.rows]


def test_a_cell_that_changed_is_marked_wherever_its_row_stands_now() -> None:
    before = page(("orders:0", 5, "1s", None), ("orders:1", 9, "2s", None))
    now = page(("orders:1", 12, "3s", None), ("orders:0", 5, "2s", None), ("orders:2", 1, "1s", None))

    assert rows(mark_changes(before, now)) == [
        ["orders:1", Styled("*12", "warn"), "3s", None],
        ["orders:0", 5, "2s", None],
        ["orders:2", 1, "1s", None],
    ]


def test_a_colour_stays_and_what_is_gone_is_not_marked() -> None:
    before = page(("orders:0", 5, None, Styled("OK", "good")))
    now = page(("orders:0", None, "1s", Styled("STOP 38m", "bad")))

    assert rows(mark_changes(before, now)) == [["orders:0", None, "1s", Styled("STOP 38m*", "bad")]]


def test_a_status_that_only_grows_older_is_not_marked() -> None:
    before = page(("orders:0", 5, None, Styled("STOP 37m", "bad")))
    now = page(("orders:0", 5, None, Styled("STOP 38m", "bad")))

    assert rows(mark_changes(before, now)) == [["orders:0", 5, None, Styled("STOP 38m", "bad")]]


def test_a_change_is_seen_without_colour() -> None:
    """The sign is next to the value: before a number, so that digits stay in their columns, and after a word."""
    columns = (Column("PARTITION"), Column("LAG", right=True), Column("STATE"))
    before, now = (
        Screen((Table(columns, [("orders:0", 5, "Stable"), ("orders:1", 9, "Stable")]),)),
        Screen((Table(columns, [("orders:0", 7, "Empty"), ("orders:1", 9, "Stable")]),)),
    )
    (table,) = mark_changes(before, now).blocks

    assert isinstance(table, Table)
    assert list(draw_table(table, 80, False, lambda text, style: text)) == [
        "PARTITION  LAG  STATE",
        "orders:0    *7  Empty*",
        "orders:1     9  Stable",
    ]


def test_the_first_page_and_another_table_are_as_they_are() -> None:
    now = page(("orders:0", 5, "1s", None))
    other = Screen((Table((Column("GROUP"),), [("a",)]),))

    assert mark_changes(None, now) == now
    assert mark_changes(other, now) == now
    assert mark_changes(now, now) == Screen((now.blocks[0], Table(COLUMNS, [list(rows(now)[0])])))
