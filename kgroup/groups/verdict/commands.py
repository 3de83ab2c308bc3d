"""The commands that follow from a verdict: see a rebalance, skip a record that is not handled, undo, catch up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgroup.groups.lag.report import GroupLag, PartitionLag
from kgroup.groups.lag.status import LagStatus
from kgroup.groups.next_commands import (
    add_member,
    catch_up,
    commit_history,
    delete_offsets,
    deliver_passed_over,
    describe_group,
    evict_member,
    group_history,
    peek_group,
    skip_record,
    undo_move,
)
from kgroup.groups.offset_resets import OffsetReset
from kgroup.groups.passed_over import PassedOver
from kgroup.groups.stuck_record import StuckRecord
from kgroup.groups.successors import Successor
from kgroup.groups.thresholds import ONE_REQUEST_MS
from kgroup.groups.timeline.steps import CrashLoop
from kgroup.groups.verdict.large_gap import LargeGap
from kgroup.model.groups import Group, Member
from kgroup.support.hint import Hint


def verdict_commands(
    group: Group,
    report: GroupLag,
    not_passed: Sequence[PartitionLag],
    loops: Sequence[CrashLoop],
    *,
    record: StuckRecord | None = None,
    gap: LargeGap | None = None,
    successor: Successor | None = None,
    slow: bool = False,
    gone: Member | None = None,
    fenced: bool = False,
    resets: Sequence[OffsetReset] = (),
    left: Sequence[str] = (),
    falls: bool = False,
    passed: Sequence[PassedOver] = (),
) -> Iterator[Hint]:
    """Commands, the most urgent first.

    ``not_passed`` are the partitions whose owners live and do not get past an offset, ``loops`` the crash loops. A
    rebalance may be part of one, before that is certain: the history shows who comes and goes, ``peek`` the records
    that no member gets past. ``record`` is the one that is to blame, as far as that is known. ``gap`` is the gap if it
    is large; one that grows needs more members, as far as there are partitions for them. ``slow`` is whether members
    left as they did not poll. ``gone`` is the one member that a rebalance, or a partition, waits for if its process is
    gone. ``fenced`` is whether an instance id is taken over again and again, which may be why an offset does not move.
    ``resets`` are those of the last hour; of them only what kgroup did not do is to be undone. ``left`` are topics that
    the group does not read any more, ``passed`` the records that it may have passed over. The gap of a group that has a
    ``successor`` is not replayed: that may have read it. ``falls`` is whether an offset falls back again and again.
    """
    stops = [p for p in report.partitions if p.status is LagStatus.STOP]
    if loops or slow:
        yield peek_group(group.name)
    if loops or slow or fenced or group.is_rebalancing:
        yield group_history(group.name)
    if not loops and gone is not None:  # it is named where nothing else can hold the group up, and may yet answer
        yield evict_member(group.name, gone)
    if not loops and not slow and (not_passed or (group.is_rebalancing and stops)):
        yield peek_group(group.name)
    if not loops and not fenced and (not_passed or (not slow and group.is_rebalancing and stops)):
        yield from skip_record(group.name, record)
    if left:
        yield delete_offsets(group.name, left)
    if falls or passed:
        yield commit_history(group.name)
    yield from _undo(group, report, resets)
    yield from deliver_passed_over(passed)
    yield from _of_gap(group, gap, successor)


def _of_gap(group: Group, gap: LargeGap | None, successor: Successor | None) -> Iterator[Hint]:
    if successor is not None:
        yield from map(describe_group, successor.names)
    elif gap is not None:
        few = bool(group.members) and len(group.members or ()) < len(group.partitions)
        if gap.needs_members and few and not group.is_rebalancing:
            yield add_member(group.name)
        yield catch_up(group.name)


def _undo(group: Group, report: GroupLag, resets: Sequence[OffsetReset]) -> Iterator[Hint]:
    rewound = None if (at_ms := _rewound_at_ms(report)) is None else undo_move(group.name, at_ms)
    if rewound is not None:
        yield rewound
    unknown = next((reset for reset in resets if reset.change is None), None)
    if unknown is not None:
        yield from (command for command in unknown.commands(group.name, is_empty=group.is_empty) if command != rewound)


def is_one_record(row: PartitionLag, report: GroupLag) -> bool:
    """Whether the record at the offset is to blame: it is committed again and again, or other partitions are read."""
    if row.status is LagStatus.STALL or len(report.partitions) == 1:
        return True
    left = LagStatus.UNSUBSCRIBED
    return any(p.status is None or not (p.status.is_stuck or p.status is left) for p in report.partitions)


def _rewound_at_ms(report: GroupLag) -> int | None:
    """When a tool moved the offsets of the REWOUND line; None if none did, or the time is unknown.

    The partitions of one reset are committed within a second: the earliest of these times counts. A rewind of another
    time is left out: to return to before it would undo more than the move that the line reports.
    """
    rewound = [p.status_result for p in report.partitions if p.status_result.back and p.status_result.back_by_tool]
    if not rewound:
        return None
    worst_ms = max(rewound, key=lambda result: result.back or 0).back_at_ms
    if worst_ms is None:
        return None
    times_ms = [result.back_at_ms for result in rewound if result.back_at_ms is not None]
    return min(time_ms for time_ms in times_ms if abs(time_ms - worst_ms) <= ONE_REQUEST_MS)
