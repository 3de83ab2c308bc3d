"""Mark the cells of a ``--watch`` page that changed since the previous refresh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from kgroup.model.blocks import Cell, Column, Screen, Styled, Table

_KEYS = frozenset({"GROUP", "TOPIC", "PARTITION", "MEMBER", "MEMBER-ID"})
_AGES = frozenset({"CAUGHT-UP-IN", "LAG-HISTORY", "LAST-COMMIT", "RATE", "STUCK", "TIME-LAG"})
"""Columns that change at every refresh: marking them would mark everything."""

SIGN = "*"
"""Stands next to a changed value, so that the mark does not depend on colour; ``*31`` in a column of numbers."""


def mark_changes(before: Screen | None, now: Screen) -> Screen:
    """The page ``now``, with a sign and in yellow each cell whose text differs from the same row of the page before.

    Rows are the same if their key columns are, wherever they are in the table. New rows are not marked. Cells that have
    a colour keep it, because that colour means more, and get the sign if their first word changed: ``STOP 38m`` is no
    change from ``STOP 37m``.
    """
    if before is None:
        return now
    earlier = {_titles(table.columns): table for table in before.blocks if isinstance(table, Table)}
    return Screen(
        tuple(
            _marked(earlier[_titles(block.columns)], block)
            if isinstance(block, Table) and _titles(block.columns) in earlier
            else block
            for block in now.blocks
        )
    )


def _marked(before: Table, now: Table) -> Table:
    known = {_key(row, before.columns): row for row in before.rows}
    return replace(now, rows=[_marked_row(row, now.columns, known) for row in now.rows])


def _marked_row(
    row: Sequence[Cell], columns: Sequence[Column], known: Mapping[tuple[str, ...], Sequence[Cell]]
) -> Sequence[Cell]:
    earlier = known.get(_key(row, columns))
    if earlier is None:
        return row
    return [
        _marked_cell(cell, column) if _has_changed(cell, old, column) else cell
        for column, cell, old in zip(columns, row, earlier, strict=True)
    ]


def _has_changed(cell: Cell, old: Cell, column: Column) -> bool:
    if column.title in _AGES or cell is None:
        return False
    if isinstance(cell, Styled):
        return cell.text.split()[:1] != _text(old).split()[:1]
    return _text(cell) != _text(old)


def _marked_cell(cell: Cell, column: Column) -> Styled:
    text = SIGN + _text(cell) if column.right else _text(cell) + SIGN
    return Styled(text, cell.style if isinstance(cell, Styled) else "warn")


def _key(row: Sequence[Cell], columns: Sequence[Column]) -> tuple[str, ...]:
    return tuple(_text(cell) for column, cell in zip(columns, row, strict=True) if column.title in _KEYS)


def _titles(columns: Sequence[Column]) -> tuple[str, ...]:
    return tuple(column.title for column in columns)


def _text(cell: Cell) -> str:
    return cell.text if isinstance(cell, Styled) else str(cell)
