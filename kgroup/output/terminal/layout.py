"""The layout of a table in a given width: which columns are shown, how wide they are, where long ids are folded.

rich's own Table needs 1.4 s for 5,000 rows, more than the requests to the cluster. So rows are padded here; rich
measures the cells (wide and combining characters) and makes the colours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from rich.cells import cell_len

from kgroup.model.blocks import Cell, Column, Style, Styled, Table
from kgroup.support.quoting import visible

GAP = "  "
_FOLDED = 40
"""The width that a column of ids keeps as long as other columns can be dropped."""

_NARROWEST = 12

_SEPARATORS = re.compile(r"(?<=[-._/:,;@ ])")


def text_of(cell: Cell) -> str:
    """The text of a cell: ``-`` if it is unknown; control characters are escaped, because they move the cursor."""
    if cell is None:
        return "-"
    text = cell.text if isinstance(cell, Styled) else str(cell)
    return text if text.isprintable() else visible(text)


def fold(text: str, width: int) -> list[str]:
    """The text in lines of at most ``width`` cells, broken after a blank; a longer word after another separator."""
    lines, line = [], ""
    for word in re.split(r"(?<= )(?! )", text):
        for piece in _SEPARATORS.split(word) if cell_len(word) > width else [word]:
            while cell_len(line + piece) > width:
                if line:
                    lines.append(line)
                    line = ""
                else:
                    cut = _prefix(piece, width)
                    lines.append(piece[:cut])
                    piece = piece[cut:]
            line += piece
    return [*lines, line] if line or not lines else lines


def _prefix(text: str, width: int) -> int:
    count = len(text)
    while count > 1 and cell_len(text[:count]) > width:
        count -= 1
    return count


def shown_columns(table: Table, widths: Sequence[int], width: int | None, wide: bool) -> list[int]:
    """The indices of the columns that are drawn in ``width`` cells (None: without limit)."""
    shown = [
        index
        for index, column in enumerate(table.columns)
        if (wide or not column.wide)
        and not (column.title in table.sparse and all(row[index] is None for row in table.rows))
    ]
    droppable = sorted((i for i in shown if table.columns[i].drop), key=lambda i: -table.columns[i].drop)
    # Fold long ids before dropping a column: one long id must not cost all rows a column.
    least = [min(size, _FOLDED) if column.fold else size for column, size in zip(table.columns, widths, strict=True)]
    while width is not None and droppable and _total(shown, least) > width:
        shown.remove(droppable.pop(0))
    return shown


def _total(shown: Sequence[int], widths: Sequence[int]) -> int:
    return sum(widths[index] for index in shown) + len(GAP) * (len(shown) - 1)


def _folded_widths(
    columns: Sequence[Column], shown: Sequence[int], widths: Sequence[int], width: int | None
) -> dict[int, int]:
    """Column widths after long ids are narrowed to the room that the other columns leave, widest first."""
    result = {index: widths[index] for index in shown}
    foldable = [index for index in shown if columns[index].fold]
    while width is not None and foldable:
        excess = _total(shown, [result.get(i, 0) for i in range(len(columns))]) - width
        widest = max(foldable, key=lambda index: result[index])
        floor = max(cell_len(columns[widest].title), _NARROWEST)
        if excess <= 0 or result[widest] <= floor:
            break
        others = [result[index] for index in foldable if index != widest and result[index] < result[widest]]
        result[widest] = max(floor, result[widest] - excess, max(others, default=0) - 1)
    return result


def draw_table(
    table: Table,
    width: int | None,
    wide: bool,
    paint: Callable[[str, Style | None], str],
    *,
    with_header: bool = True,
) -> Iterator[str]:
    """The table's lines; ``paint`` colours a text that is already padded.

    ``wide`` shows every column, however narrow the terminal is.
    """
    width = None if wide else width
    cells = [[text_of(cell) for cell in row] for row in table.rows]
    widths = [max((cell_len(row[index]) for row in cells), default=0) for index in range(len(table.columns))]
    if with_header:
        widths = [max(cell_len(column.title), size) for column, size in zip(table.columns, widths, strict=True)]
    shown = shown_columns(table, widths, width, wide)
    fitted = _folded_widths(table.columns, shown, widths, width)
    if with_header:
        yield _line([table.columns[i].title for i in shown], [table.columns[i] for i in shown], fitted, shown)
    for row, texts in zip(table.rows, cells, strict=True):
        parts = [
            fold(texts[i], fitted[i]) if table.columns[i].fold and widths[i] > fitted[i] else [texts[i]] for i in shown
        ]
        styles = [cell.style if isinstance(cell := row[i], Styled) else None for i in shown]
        for number in range(max(map(len, parts))):
            line = [part[number] if number < len(part) else "" for part in parts]
            yield _line(line, [table.columns[i] for i in shown], fitted, shown, styles, paint)


def _line(
    texts: Sequence[str],
    columns: Sequence[Column],
    widths: dict[int, int],
    shown: Sequence[int],
    styles: Sequence[Style | None] = (),
    paint: Callable[[str, Style | None], str] | None = None,
) -> str:
    drawn = []
    for position, (text, column) in enumerate(zip(texts, columns, strict=True)):
        padding = " " * (widths[shown[position]] - cell_len(text))
        if paint and styles[position]:
            text = paint(text, styles[position])
        last = position == len(columns) - 1
        drawn.append(padding + text if column.right else text if last else text + padding)
    return GAP.join(drawn).rstrip()
