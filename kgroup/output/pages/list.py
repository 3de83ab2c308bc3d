"""The page of ``kgroup list``, and its rows for json and csv."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec.structs

from kgroup.model.blocks import Column, Records, Screen, Table, Text, Title
from kgroup.model.groups import ListedGroup, RowError
from kgroup.model.outcome import Outcome
from kgroup.output.pages.describe_records import coordinator_text
from kgroup.support.clock import utc_now
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.durations import format_duration
from kgroup.support.instants import rfc3339
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
    """A listed group; ``active_ms`` is the time of its newest commit or change, None if it is not known.

    ``from_log`` is whether the group itself was read from the log; ``active_ms`` then is the time of its newest record.
    """

    group: ListedGroup
    active_ms: int | None
    from_log: bool = False

    def document(self) -> dict[str, Any]:
        return self.group.document() | {
            "last_activity_at": rfc3339(self.active_ms),
            "source": "log" if self.from_log else "coordinator",
            "newest_record_at": rfc3339(self.active_ms) if self.from_log else None,
        }

    @property
    def cells(self) -> tuple[str | int | None, ...]:
        """Its row for CSV, and on the page but for its last cell."""
        group = self.group
        return (
            group.name,
            group.type,
            group.state,
            group.protocol_type or None,
            coordinator_text(group.coordinator),
            group.members,
        )


def list_outcome(lines: Sequence[ListRow], cluster: ClusterRef, now_ms: int, errors: tuple[RowError, ...]) -> Outcome:
    """The outcome of these rows; ``now_ms`` is the time that IDLE counts to."""
    at = utc_now()
    return Outcome(
        data=tuple(lines),
        screen=lambda: _screen(lines, now_ms),
        records=lambda: Records(_HEADER, [(*line.cells, rfc3339(line.active_ms)) for line in lines]),
        cluster=cluster,
        errors=errors,
        at=at,
        names=lambda: (line.group.name for line in lines),
    )


def _screen(lines: Sequence[ListRow], now_ms: int) -> Screen:
    from_log = any(line.from_log for line in lines)
    title = Title(
        plural(len(lines), "group") + (", from __consumer_offsets" if from_log else ""), in_terminal_only=not from_log
    )
    if not lines:
        return Screen((title, Text(("No groups.",))))
    return Screen((title, Table(_COLUMNS, [_row(line, now_ms) for line in lines], frozenset({_PROTOCOL, _IDLE}))))


def _row(line: ListRow, now_ms: int) -> tuple[str | int | None, ...]:
    name, kind, state, protocol_type, *others = line.cells
    idle = None if line.active_ms is None else format_duration(max(0, now_ms - line.active_ms) // 1000)
    return (name, kind, state, None if protocol_type == _CONSUMER else protocol_type, *others, idle)
