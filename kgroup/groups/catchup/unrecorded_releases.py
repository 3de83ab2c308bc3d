"""Releases that the ledger does not contain, found from commits: a deleted ledger does not hide what is pending. Pure.

A release commits the end of a gap, with the plan's id and the start of the gap in the commit's metadata. The metadata
remains until the group itself commits on that partition. Without a record in the ledger, nothing of the range counts as
delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from kgroup.groups.catchup.model import PlanSnapshot, PlanState
from kgroup.groups.commit_tags import CatchupCommitTag, TagPurpose
from kgroup.model.groups import Group
from kgroup.model.records import OffsetRange, merged, without


class UnrecordedRelease(msgspec.Struct, frozen=True):
    """A release of ``plan_id`` that is not in the ledger.

    ``ranges`` are the released offsets that no other plan covers. ``unknown`` are empty ranges at the end of a gap
    whose start is unknown, because a tag of an older version does not contain it.
    """

    plan_id: str
    ranges: tuple[OffsetRange, ...]
    unknown: tuple[OffsetRange, ...] = ()

    @property
    def offsets(self) -> int | None:
        """How many offsets may be pending; None if unknown."""
        return None if self.unknown else sum(row.offsets for row in self.ranges)

    @property
    def text(self) -> str:
        """``50 or more in cu-7f3a``: "or more", because the group's own commits overwrite the tag."""
        return f"{'an unknown number' if self.offsets is None else f'{self.offsets} or more'} in {self.plan_id}"


def find_unrecorded_releases(
    group: Group, knows: Callable[[str], bool], plans: Iterable[PlanSnapshot] = ()
) -> tuple[UnrecordedRelease, ...]:
    """The releases of a group that are not in the ledger, by plan id. ``knows`` returns whether a plan is in it.

    ``plans`` are those of the ledger. Ranges of a plan without a group are left out, unless it is cancelled.
    """
    ranges: dict[str, list[OffsetRange]] = {}
    unknown: dict[str, list[OffsetRange]] = {}
    taken = _taken(plans)
    for item in group.partitions:
        mark = None if item.commit is None else CatchupCommitTag.of(item.commit.metadata)
        if item.commit is None or mark is None or mark.moved is not TagPurpose.RELEASE or knows(mark.plan_id):
            continue
        end = item.commit.offset
        if mark.start is None:
            unknown.setdefault(mark.plan_id, []).append(OffsetRange(item.topic, item.partition, end, end))
        else:
            rows = without(OffsetRange(item.topic, item.partition, mark.start, end), taken)
            ranges.setdefault(mark.plan_id, []).extend(rows)
    releases = (
        UnrecordedRelease(plan_id, tuple(ranges.get(plan_id, ())), tuple(unknown.get(plan_id, ())))
        for plan_id in sorted({*ranges, *unknown})
    )
    return tuple(row for row in releases if row.ranges or row.unknown)


def range_words(ranges: Iterable[OffsetRange]) -> tuple[str, ...]:
    """``--range orders:7=70-120,orders:8=20-50``, as command-line arguments."""
    words = ",".join(f"{row.tp}={row.start}-{row.end}" for row in ranges)
    return ("--range", words) if words else ()


def _taken(plans: Iterable[PlanSnapshot]) -> list[OffsetRange]:
    kept = (
        snapshot.plan
        for snapshot in plans
        if snapshot.plan.group is None and snapshot.state.state is not PlanState.CANCELLED
    )
    return merged(OffsetRange(*item.tp, item.start, item.end) for plan in kept for item in plan.ranges)
