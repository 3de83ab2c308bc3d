"""The page of ``kgroup delete``, and its rows for json and csv."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import msgspec

from kgroup.groups.change_plan import committed
from kgroup.groups.change_result import Result
from kgroup.model.blocks import Block, Cell, Column, Styled, Table, Text
from kgroup.model.outcome import Outcome
from kgroup.model.reporter import Reporter
from kgroup.model.topic_partition import PartitionName, partition_names
from kgroup.output.pages.change import ROWS_ON_A_PAGE, Wording, outcome, with_rows
from kgroup.support.clock import utc_ms
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.instants import rfc3339, short_time
from kgroup.support.json_types import Count, EpochMs, Instant

_HEADER = ("group", "type", "state", "commit_count", "last_activity_at", "deleted", "error_code", "error_message")
_COLUMNS = (
    Column("GROUP", fold=True),
    Column("TYPE", drop=1),
    Column("STATE"),
    Column("COMMITS", right=True),
    Column("LAST-ACTIVITY"),
    Column("NOTE", fold=True),
)


class DeletedGroup(msgspec.Struct, frozen=True):
    group: Annotated[str, "The group."]
    type: Annotated[str, "classic, consumer, share or streams, as the broker reports it."]
    state: Annotated[str, "The state, as the broker reports it."]
    commit_count: Annotated[Count, "Number of commits."]
    hidden_commits: Annotated[
        tuple[PartitionName, ...] | None, "Partitions whose commits this user may not read; null if unknown."
    ]
    last_activity_at: Annotated[
        Instant | None,
        "The newest commit or change of members; null without --idle-for, and if it is too far back in the log.",
    ]
    last_activity_at_ms: Annotated[
        EpochMs | None,
        "The newest commit or change of members; null without --idle-for, and if it is too far back in the log.",
    ]
    deleted: Annotated[bool | None, "Whether the group was deleted; null in a plan."]
    error_code: Annotated[str | None, "The stable code of what prevents the change."]
    error_message: Annotated[str | None, "What prevents the change, for people."]
    change_id: Annotated[str | None, "The change in the journal; null in a plan."]

    @property
    def cells(self) -> tuple[Cell, ...]:
        note: Cell = Styled(self.error_code, "bad") if self.error_code else "deleted" if self.deleted else None
        when = None if self.last_activity_at_ms is None else short_time(self.last_activity_at_ms, utc_ms())
        return (self.group, self.type, self.state, self.commit_count, when, note)


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
    return with_rows(shown, deletions, _HEADER)


def _deletions(result: Result, last_active_ms: Mapping[str, int | None]) -> tuple[DeletedGroup, ...]:
    refused = {refusal.group: refusal.row for refusal in result.refusals}
    deletions = []
    for group in result.plan.groups:
        fault = result.whole.get(group.name)
        error = fault or refused.get(group.name)
        active_ms = last_active_ms.get(group.name)
        deletions.append(
            DeletedGroup(
                group=group.name,
                type=group.type,
                state=group.state,
                commit_count=len(committed(group)),
                hidden_commits=partition_names(group.hidden_commits),
                last_activity_at=rfc3339(active_ms),
                last_activity_at_ms=active_ms,
                deleted=(fault is None) if group.name in result.whole else None,
                error_code=error.code if error else None,
                error_message=error.message if error else None,
                change_id=result.id,
            )
        )
    return tuple(deletions)


def _table(deletions: Sequence[DeletedGroup], *, verbose: bool) -> list[Block]:
    if not deletions:
        return []
    shown = deletions if verbose else deletions[:ROWS_ON_A_PAGE]
    table = Table(_COLUMNS, [deletion.cells for deletion in shown], sparse=frozenset({"NOTE", "LAST-ACTIVITY"}))
    more = len(deletions) - len(shown)
    return [table, Text((f"{more} more: --verbose",))] if more else [table]
