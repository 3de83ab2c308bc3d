"""What only the page of an undo has: offsets that were changed again, groups that change type, and other changes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kgroup.groups.change_plan import ChangeRow
from kgroup.groups.change_result import Result
from kgroup.groups.undo_plan import TypeUndo, UndoRow
from kgroup.model.blocks import Block, Cell, Column, Styled, Table, Text
from kgroup.output.pages.change import ROWS_ON_A_PAGE, partition_table, total_line
from kgroup.output.pages.text import settings_text
from kgroup.support.units import plural

_OTHERS = 10
_SPARSE = frozenset({"NOTE", "READ-BACK", "CHANGED-TO", "SKIPPED", "REPEATED"})
TYPES_HEADER = ("group", "type", "target", "commit_count", "converted", "change_id", "error_code", "error_message")


def restored_offsets(result: Result, traces: Sequence[UndoRow], *, verbose: bool) -> list[Block]:
    """The old and new offset of each restored partition, and what it skips or repeats; CHANGED-TO if it moved since."""
    by_partition = {trace.key: trace for trace in traces}
    rows = list(result.plan.rows)
    shown = rows if verbose else sorted(rows, key=lambda row: row.error is None)[:ROWS_ON_A_PAGE]
    if not shown:
        return []
    several = len({row.group for row in rows}) > 1
    columns = (
        Column("GROUP", fold=True),
        Column("PARTITION", fold=True),
        Column("OLD-OFFSET", right=True),
        Column("NEW-OFFSET", right=True),
        Column("CHANGED-TO", right=True),
        Column("SKIPPED", right=True),
        Column("REPEATED", right=True),
        Column("READ-BACK"),
        Column("NOTE", fold=True),
    )
    cells = [_cells(row, by_partition[row.group, *row.tp])[0 if several else 1 :] for row in shown]
    table = Table(columns[0 if several else 1 :], cells, sparse=_SPARSE)
    more = len(rows) - len(shown)
    return [table, *((Text((f"{more} more: --verbose",)),) if more else ()), *total_line(result)]


def _cells(row: ChangeRow, trace: UndoRow) -> tuple[Cell, ...]:
    read_back: Cell = None if row.done is None else "yes" if row.verified else "-"
    note: Cell = Styled(f"{row.error.code}: {row.error.message}", "bad") if row.error else row.note
    changed_to = trace.after if trace.after != trace.now else None
    offsets = (None if commit is None else commit.offset for commit in (trace.now, trace.before, changed_to))
    skipped, repeated = (None, None) if row.error else (row.skipped, row.repeated)
    return (row.group, row.name, *offsets, skipped, repeated, read_back, note)


def types_table(types: Sequence[TypeUndo], *, verbose: bool) -> list[Block]:
    """The groups whose type changes."""
    shown = types if verbose else types[:ROWS_ON_A_PAGE]
    if not shown:
        return []
    columns = (
        Column("GROUP", fold=True),
        Column("TYPE"),
        Column("TARGET"),
        Column("COMMITS", right=True),
        Column("SETTINGS", fold=True),
        Column("CONVERTED"),
        Column("NOTE", fold=True),
    )
    cells = [
        (
            item.group,
            item.type,
            item.target,
            item.commit_count,
            settings_text(item.configs) or None,
            None if item.converted is None else "yes" if item.converted else "no",
            Styled(f"{item.error_code}: {item.error_message}", "bad") if item.error_code else None,
        )
        for item in shown
    ]
    blocks: list[Block] = [Table(columns, cells, sparse=frozenset({"NOTE", "CONVERTED", "SETTINGS"}))]
    more = len(types) - len(shown)
    return [*blocks, Text((f"{more} more: --verbose",))] if more else blocks


def put_back(result: Result, *, verbose: bool) -> list[Block]:
    """The commits that are gone since a migration and are made again."""
    rows = [row for row in result.plan.rows if row.old is None]
    return partition_table(replace(result, plan=result.plan.with_rows(rows)), verbose=verbose) if rows else []


def other_changes(changes: Sequence[tuple[str, ...]]) -> tuple[Block, ...]:
    """A table of (id, time, who, what, state), newest first; empty if there are no other changes."""
    if not changes:
        return ()
    columns = (Column("ID"), Column("AT"), Column("CREATED-BY", drop=1), Column("WHAT", fold=True), Column("STATE"))
    table = Table(columns, changes[:_OTHERS])
    title = Text(("OTHER CHANGES TO THIS CLUSTER, MADE FROM THIS MACHINE",))
    if len(changes) > _OTHERS:
        return title, table, Text((f"{plural(len(changes) - _OTHERS, 'older change')} not shown",))
    return title, table
