"""The page of ``kgroup list``, and its rows for json and csv."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from kgroup.model.blocks import Column, Records, Screen, Table, Text, Title
from kgroup.model.groups import Coordinator, GroupSource, ListedGroup, RowError
from kgroup.model.outcome import Outcome
from kgroup.model.streaming_query import QUERY
from kgroup.output.pages.describe_records import coordinator_text
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.durations import format_duration
from kgroup.support.instants import rfc3339
from kgroup.support.json_types import Count, Instant
from kgroup.support.units import plural

_IDLE, _PROTOCOL = "IDLE", "PROTOCOL-TYPE"
_CONSUMER = "consumer"

_COLUMNS = (
    Column("GROUP", fold=True),
    Column("TYPE"),
    Column("STATE"),
    Column(_PROTOCOL, drop=3),
    Column("COORDINATOR", drop=2),
    Column("MEMBERS", right=True, drop=1),
    Column(_IDLE, right=True),
)
_HEADER = ("group", "type", "state", "protocol_type", "coordinator", "member_count", "last_activity_at")


class ListRow(msgspec.Struct, frozen=True):
    """A group as ``-o json`` lists it."""

    group: Annotated[str, "The group."]
    type: Annotated[str, "classic, consumer, share or streams, as the broker reports it; query for a streaming query."]
    state: Annotated[str, "The state, as the broker reports it; of a streaming query InBatch, BatchDone or New."]
    protocol_type: Annotated[str | None, "The protocol type of a classic group; the type of any other."]
    coordinator: Annotated[Coordinator | None, "The broker that coordinates the group."]
    member_count: Annotated[Count | None, "Number of members; null if it was not read."]
    last_activity_at: Annotated[Instant | None, "Its newest record in __consumer_offsets, or batch of a query."]
    source: Annotated[GroupSource, "Where the group was read."]
    newest_record_at: Annotated[
        Instant | None, "The time of the newest record of the group; null if the coordinator answered."
    ]


def list_outcome(
    groups: Sequence[ListedGroup],
    active_ms: Mapping[str, int | None],
    cluster: ClusterRef,
    now_ms: int,
    errors: tuple[RowError, ...],
    *,
    from_log: bool = False,
) -> Outcome:
    """The outcome of these groups, with the times of their newest commits or changes; None and missing: unknown.

    ``now_ms`` is the time that IDLE counts to. ``from_log``: the groups were read from the log; the times then are
    those of their newest records.
    """

    def row(group: ListedGroup) -> ListRow:
        active = rfc3339(active_ms.get(group.name))
        return ListRow(
            group.name, group.type, group.state, group.protocol_type, group.coordinator, group.members,
            active, _source(group, from_log=from_log), active if from_log else None,
        )  # fmt: skip

    return Outcome(
        data=tuple(map(row, groups)),
        screen=lambda: _screen(groups, active_ms, now_ms, from_log=from_log),
        records=lambda: Records(_HEADER, [(*_cells(group), rfc3339(active_ms.get(group.name))) for group in groups]),
        cluster=cluster,
        errors=errors,
        names=lambda: (group.name for group in groups),
    )


def _source(group: ListedGroup, *, from_log: bool) -> GroupSource:
    if group.type == QUERY:
        return GroupSource.CHECKPOINT
    return GroupSource.LOG if from_log else GroupSource.COORDINATOR


def _screen(
    groups: Sequence[ListedGroup], active_ms: Mapping[str, int | None], now_ms: int, *, from_log: bool
) -> Screen:
    from_log = from_log and bool(groups)
    title = Title(
        plural(len(groups), "group") + (", from __consumer_offsets" if from_log else ""), in_terminal_only=not from_log
    )
    if not groups:
        return Screen((title, Text(("No groups.",))))
    rows = [_row(group, active_ms.get(group.name), now_ms) for group in groups]
    return Screen((title, Table(_COLUMNS, rows, frozenset({_PROTOCOL, _IDLE}))))


def _row(group: ListedGroup, active_ms: int | None, now_ms: int) -> tuple[str | int | None, ...]:
    name, kind, state, protocol_type, *others = _cells(group)
    idle = None if active_ms is None else format_duration(max(0, now_ms - active_ms) // 1000)
    return (name, kind, state, None if protocol_type == _CONSUMER else protocol_type, *others, idle)


def _cells(group: ListedGroup) -> tuple[str | int | None, ...]:
    """A group's row for CSV, and on the page, but for the last cell."""
    coordinator = coordinator_text(group.coordinator)
    return (group.name, group.type, group.state, group.protocol_type or None, coordinator, group.members)
