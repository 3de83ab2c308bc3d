"""The tasks of a streams group: who runs each, who keeps its state, and what its changelogs hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kgroup.model.blocks import BlankLine, Block, Cell, Column, Styled, Table, Text
from kgroup.model.streams_group import StreamsGroup, TaskCopies, TaskRole
from kgroup.support.durations import format_duration
from kgroup.support.units import human_bytes

_COLUMNS = (
    Column("TASK"),
    Column("ACTIVE", fold=True),
    Column("STANDBY", fold=True),
    Column("WARM-UP", fold=True),
    Column("TASK-LAG", right=True, drop=1),
    Column("CHANGELOG", right=True, drop=3),
    Column("SIZE", right=True, drop=2),
    Column("RESTORE", right=True),
)
_SPARSE = frozenset({"STANDBY", "WARM-UP", "TASK-LAG", "CHANGELOG", "SIZE", "RESTORE"})
_NO_SIZE = "SIZE unknown: the brokers did not show it (it needs DESCRIBE on the Cluster)"
_REPORTED = "TASK-LAG: changelog records that the nearest copy has not read, as its member reported up to 60s ago"


def task_blocks(
    streams: StreamsGroup, labels: Mapping[str, str], bytes_per_s: int | None, most: int | None
) -> Iterator[Block]:
    """The ``most`` tasks (None: all) without an owner or with the largest state; ``labels`` are members' names."""
    ranked = list(streams.copies)
    if most is not None:
        sizes = {task: known.size or 0 for task, known in streams.changelogs.items()}
        ranked.sort(key=lambda each: (bool(each.by_role[TaskRole.ACTIVE]), -sizes.get(each.task, 0)))
    shown = ranked[:most]
    yield Table(_COLUMNS, [_row(each, streams, labels, bytes_per_s) for each in shown], _SPARSE)
    if len(shown) < len(ranked):
        yield Text((f"{len(ranked) - len(shown)} more: --members shows every task",))
    if any(each.lag is not None for each in shown):
        yield Text((_REPORTED,))
    logs = [streams.changelogs[each.task] for each in shown if each.task in streams.changelogs]
    if any(each.size is None and each.records is not None for each in logs):
        yield Text((_NO_SIZE,))
    yield BlankLine()


def _row(
    copies: TaskCopies, streams: StreamsGroup, labels: Mapping[str, str], bytes_per_s: int | None
) -> tuple[Cell, ...]:
    names = {role: ", ".join(labels[name] for name, _ in members) for role, members in copies.by_role.items()}
    known = streams.changelogs.get(copies.task)
    restore_ms = None if bytes_per_s is None else streams.restore_ms(copies.task, bytes_per_s)
    return (
        str(copies.task),
        names[TaskRole.ACTIVE] or Styled("no owner", "warn"),
        names[TaskRole.STANDBY] or None,
        names[TaskRole.WARMUP] or None,
        copies.lag,
        known.records if known else None,
        None if known is None or known.size is None else human_bytes(known.size),
        None if restore_ms is None else format_duration(restore_ms / 1000),
    )
