"""The commands that follow from a verdict: see a rebalance, skip a record that is not handled, undo, catch up."""

from __future__ import annotations

from collections.abc import Iterator

from kgroup.groups.lag.report import GroupLag, PartitionLag
from kgroup.groups.lag.status import LagStatus
from kgroup.groups.next_commands import catch_up, group_history, peek_group, skip_record, undo_move
from kgroup.model.groups import Group
from kgroup.support.hint import Hint

_ONE_REQUEST_MS = 1_000


def verdict_commands(
    group: Group, report: GroupLag, stalled: PartitionLag | None, *, crashes: bool = False, gap: bool = False
) -> Iterator[Hint]:
    """Commands, the most urgent first. ``stalled`` is the partition that the verdict reports as stalled, or None.

    ``crashes`` is whether the verdict reports a crash loop. A rebalance may be part of one, before that is certain: the
    history shows who comes and goes, ``peek`` the records that no member gets past. ``gap`` is whether the gap is
    large.
    """
    churns = crashes or group.is_rebalancing
    if churns:
        yield group_history(group.name)
    if stalled is not None or crashes or (churns and any(p.status is LagStatus.STOP for p in report.partitions)):
        yield peek_group(group.name)
    if stalled is not None:
        yield skip_record(group.name, stalled.partition.tp)
    if (at_ms := _rewound_at_ms(report)) is not None and (command := undo_move(group.name, at_ms)) is not None:
        yield command
    if gap:
        yield catch_up(group.name)


def _rewound_at_ms(report: GroupLag) -> int | None:
    """When the offsets of the BACK line were moved; None if no partition is rewound, or the time is unknown.

    The partitions of one reset are committed within a second: the earliest of these times counts. A rewind of another
    time is left out: to return to before it would undo more than the move that the line reports.
    """
    rewound = [p.status_result for p in report.partitions if p.status_result.back]
    if not rewound:
        return None
    worst_ms = max(rewound, key=lambda result: result.back or 0).back_at_ms
    if worst_ms is None:
        return None
    times_ms = [result.back_at_ms for result in rewound if result.back_at_ms is not None]
    return min(time_ms for time_ms in times_ms if abs(time_ms - worst_ms) <= _ONE_REQUEST_MS)
