"""The page of ``kgroup delete``, and its rows for json and csv."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from kgroup.groups.change_plan import committed
from kgroup.groups.change_result import Result
from kgroup.model.blocks import Block, Cell, Column, Records, Styled, Table, Text
from kgroup.model.groups import Group, RowError, partitions_document
from kgroup.model.outcome import Outcome
from kgroup.model.reporter import Reporter
from kgroup.output.pages.change import ROWS_ON_A_PAGE, Wording, outcome, with_rows
from kgroup.support.clock import utc_ms
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.instants import rfc3339, short_time

_HEADER = ("group", "type", "state", "commit_count", "last_activity_at", "deleted", "error_code", "error_message")
_COLUMNS = (
    Column("GROUP", fold=True),
    Column("TYPE", drop=1),
    Column("STATE"),
    Column("COMMITS", right=True),
    Column("LAST-ACTIVITY"),
    Column("NOTE", fold=True),
)


class Deletion(msgspec.Struct, frozen=True):
    """A group to delete. ``last_activity_ms`` is its newest commit or change; None if none was read.

    ``deleted`` is None before the attempt, ``error`` what prevents it. ``change_id`` is the change's id in
    the journal, None if nothing was changed.
    """

    group: Group
    last_activity_ms: int | None
    deleted: bool | None
    error: RowError | None
    change_id: str | None = None

    def document(self) -> Mapping[str, Any]:
        return {
            "group": self.group.name,
            "type": self.group.type,
            "state": self.group.state,
            "commit_count": len(committed(self.group)),
            "hidden_commits": partitions_document(self.group.hidden_commits),
            "last_activity_at": rfc3339(self.last_activity_ms),
            "last_activity_at_ms": self.last_activity_ms,
            "deleted": self.deleted,
            "error_code": self.error.code if self.error else None,
            "error_message": self.error.message if self.error else None,
            "change_id": self.change_id,
        }

    @property
    def record(self) -> tuple[str | int | None, ...]:
        document = self.document()
        deleted = None if self.deleted is None else str(self.deleted).lower()
        return tuple(deleted if name == "deleted" else document[name] for name in _HEADER)

    @property
    def cells(self) -> tuple[Cell, ...]:
        note: Cell = Styled(self.error.code, "bad") if self.error else "deleted" if self.deleted else None
        when = None if self.last_activity_ms is None else short_time(self.last_activity_ms, utc_ms())
        group = self.group
        return (group.name, group.type, group.state, len(committed(group)), when, note)


def delete_outcome(
    result: Result,
    last_active_ms: Mapping[str, int | None],
    wording: Wording,
    cluster: ClusterRef,
    reporter: Reporter,
    command: Callable[..., str],
) -> Outcome:
    """The outcome with a row for each group; ``last_active_ms`` are the times of their newest commits or changes."""
    deletions = _deletions(result, last_active_ms)
    shown = outcome(
        result,
        wording,
        cluster,
        reporter,
        command,
        nothing="nothing to do: no group is chosen",
        table=lambda: _table(deletions, verbose=wording.verbose),
    )
    return with_rows(shown, deletions, lambda: Records(_HEADER, [deletion.record for deletion in deletions]))


def _deletions(result: Result, signs: Mapping[str, int | None]) -> tuple[Deletion, ...]:
    refused = {refusal.group: refusal.row for refusal in result.refusals}
    deletions = []
    for group in result.plan.groups:
        name = group.name
        tried = name in result.whole
        fault = result.whole.get(name)
        deletions.append(
            Deletion(group, signs.get(name), (fault is None) if tried else None, fault or refused.get(name), result.id)
        )
    return tuple(deletions)


def _table(deletions: Sequence[Deletion], *, verbose: bool) -> list[Block]:
    if not deletions:
        return []
    shown = deletions if verbose else deletions[:ROWS_ON_A_PAGE]
    table = Table(_COLUMNS, [deletion.cells for deletion in shown], sparse=frozenset({"NOTE", "LAST-ACTIVITY"}))
    more = len(deletions) - len(shown)
    return [table, Text((f"{more} more: --verbose",))] if more else [table]
