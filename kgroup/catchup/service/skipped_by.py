"""``kgroup catchup start --skipped-by CHANGE``: the gap is what a journaled change skipped.

The journal has the committed offset of each partition before and after the change. Ranges that the change is known to
have skipped are replayed. Ranges that are uncertain, or that the group reads again itself, are reported and left out,
because they would be delivered twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import msgspec.structs

from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.lookup import list_plans
from kgroup.catchup.service.start_plan import StartRequest
from kgroup.changes.execute import COMMITS
from kgroup.changes.journal import Journal
from kgroup.changes.undo import may_be_done, restored_partitions, why_not_restorable
from kgroup.groups.catchup.gap_request import GapRequest
from kgroup.groups.catchup.model import PlanState
from kgroup.groups.change_plan import committed
from kgroup.groups.reset_targets import TopicChoice
from kgroup.model.commit import Commit
from kgroup.model.journal import DAMAGED_JOURNAL, JournalEntry, JournalRow
from kgroup.model.records import OffsetRange
from kgroup.model.reporter import Reporter
from kgroup.model.share_group import SHARE
from kgroup.model.topic_partition import GroupTopicPartition, TopicPartition
from kgroup.settings.environment import variable
from kgroup.support.errors import FOREIGN_OWNER, NotFound, Refused, UsageError
from kgroup.support.hint import Hint
from kgroup.support.units import plural, some_of

_NAMED = 5


class Skipped(msgspec.Struct, frozen=True):
    """What one change skipped of one group; everything is sorted by topic and partition.

    ``ranges`` are the [before, after) that it is known to have moved forward. ``doubtful`` are those for which it is
    unknown whether they were moved, or whether the move was undone. ``back`` are those undone since. ``unbounded`` are
    partitions without a commit before, so the start of the skipped offsets is unknown.
    """

    ranges: tuple[OffsetRange, ...] = ()
    doubtful: tuple[OffsetRange, ...] = ()
    back: tuple[OffsetRange, ...] = ()
    unbounded: tuple[TopicPartition, ...] = ()


def request_skipped(engine: CatchupEngine, request: StartRequest, change_id: str) -> StartRequest:
    """The same request for the skipped ranges, with no group to move; ``request.group`` selects the group.

    Raises NotFound for a change that is not in this machine's journal, and for a group that the change did not affect.
    Raises Refused ``other-cluster``, ``damaged-journal`` and ``topic-recreated``, for a share group ``foreign-owner``,
    and UsageError if the change skipped for several groups.
    """
    journal, cluster_id = Journal(), engine.cluster.ref.cluster_id
    entry = journal.entry(change_id, cluster_id)
    if entry.damage is not None:
        raise Refused(f"what {entry.id} skipped is unknown: {entry.damage}", code=DAMAGED_JOURNAL)
    back, maybe_back = restored_partitions(entry, journal.entries(cluster_id))
    groups = _groups(entry)
    if request.group is not None and request.group not in entry.groups:
        raise NotFound(
            f"{entry.id} did not change {request.group}: {entry.what} {entry.subject}",
            details=(f"Its groups: {', '.join(sorted(entry.groups)[:_NAMED])}",),
        )
    if request.group is None and len(groups) > 1:
        raise UsageError(
            f"{entry.id} skipped records for {plural(len(groups), 'group')}: {', '.join(groups[:_NAMED])}",
            hint=Hint("choose one group:  {}", ("catchup", "start", groups[0], "--skipped-by", entry.id)),
        )
    group = request.group or next(iter(groups), None)
    if group is not None and entry.groups.get(group) == SHARE:
        raise Refused(
            f"{group} is a share group: which of the offsets that {entry.id} skipped were done is not known",
            hint=Hint("To have the group read them itself: {}", ("undo", entry.id)),
            code=FOREIGN_OWNER,
        )
    skipped = skipped_offsets(entry, group, request.gap.topics, back, maybe_back)
    layouts = engine.cluster.layouts(sorted({item.topic for item in skipped.ranges}))
    for topic in layouts:
        if (fault := why_not_restorable(topic, entry, layouts)) is not None:
            raise fault
    _report_left_out(engine.reporter, entry, skipped)
    _warn_of_replays(engine, entry)
    if group is not None and skipped.ranges:
        _warn_of_group(engine, group, skipped.ranges)
    if group is not None:
        engine.reporter.note(
            f"{entry.id}  {entry.at:%Y-%m-%d %H:%MZ}  {entry.what} {entry.subject}: skipped by {group}"
        )
    why = f"skipped by {group} with {entry.id}: {entry.what} {entry.subject}"
    reason = request.change.reason or variable("KGROUP_REASON")
    change = replace(request.change, reason=f"{reason} ({why})" if reason else why)
    return msgspec.structs.replace(request, group=None, gap=GapRequest(ranges=skipped.ranges), change=change)


def skipped_offsets(
    entry: JournalEntry,
    group: str | None,
    topics: Sequence[TopicChoice],
    back: Collection[GroupTopicPartition],
    maybe_back: Collection[GroupTopicPartition] = (),
) -> Skipped:
    """The offsets that the change skipped of ``group``, on these topics if any are named. Pure.

    ``back`` are partitions of which the change was undone since; for ``maybe_back`` this is unknown. Example: moved
    from 70 to 120 is [70, 120). Moved from 120 to 70, or to "no commit", skipped nothing.
    """
    ranges, doubtful, returned, unbounded = [], [], [], []
    for row in sorted(entry.rows, key=lambda row: (row.topic, row.partition)):
        if row.group != group or not _is_named(row, topics) or not may_be_done(entry, row.key):
            continue
        if row.before is None:
            if row.after is not None:
                unbounded.append(row.tp)
            continue
        if not _forward(row.before, row.after) or row.after is None:
            continue
        skipped = OffsetRange(row.topic, row.partition, row.before.offset, row.after.offset)
        if row.key in back:
            returned.append(skipped)
        elif row.key not in maybe_back and row.key in entry.results and entry.results[row.key] is None:
            ranges.append(skipped)
        else:
            doubtful.append(skipped)
    return Skipped(tuple(ranges), tuple(doubtful), tuple(returned), tuple(unbounded))


def _forward(before: Commit | None, after: Commit | None) -> bool:
    return before is not None and after is not None and after.offset > before.offset


def _is_named(row: JournalRow, topics: Sequence[TopicChoice]) -> bool:
    return not topics or any(
        choice.topic == row.topic and (choice.partitions is None or row.partition in choice.partitions)
        for choice in topics
    )


def _groups(entry: JournalEntry) -> tuple[str, ...]:
    """The groups that the change moved forward, or tried to."""
    moved = {row.group for row in entry.rows if may_be_done(entry, row.key) and _forward(row.before, row.after)}
    return tuple(sorted(moved))


def _report_left_out(reporter: Reporter, entry: JournalEntry, skipped: Skipped) -> None:
    """Report what is left out, and why."""
    if skipped.doubtful:
        first = skipped.doubtful[0]
        words = ("catchup", "start", "--range", f"{first.topic}:{first.partition}={first.start}-{first.end}")
        reporter.warn(
            f"left out, because it is unknown whether {entry.id} moved it, or was undone: {_listed(skipped.doubtful)}. "
            "If the group skipped it:  " + Hint("{}", words)
        )
    if skipped.back:
        reporter.note(f"left out, because {entry.id} was undone and the group reads it itself: {_listed(skipped.back)}")
    if skipped.unbounded:
        partitions = ", ".join(f"{topic}:{partition}" for topic, partition in skipped.unbounded[:_NAMED])
        reporter.note(f"left out, because there was no commit before {entry.id}: {partitions}; use --range")
    if not skipped.ranges:
        reporter.note(f"{entry.id}: {entry.what} {entry.subject} skipped no offsets that can be replayed")


def _warn_of_replays(engine: CatchupEngine, entry: JournalEntry) -> None:
    """Warn about finished plans for the same change; overlapping open plans are refused elsewhere."""
    for other in list_plans(engine).heads:
        made_of_it = other.group is None and f" with {entry.id}: " in (other.reason or "")
        if made_of_it and other.state is PlanState.DONE:
            engine.reporter.warn(
                f"{other.id} has already replayed what {entry.id} skipped: it would be delivered twice"
            )


def _listed(ranges: Sequence[OffsetRange]) -> str:
    return some_of([str(item) for item in ranges], _NAMED)


def _warn_of_group(engine: CatchupEngine, group: str, ranges: Sequence[OffsetRange]) -> None:
    """Warn about what the group reads itself, if its offset was moved back without ``kgroup undo``."""
    snapshot = engine.cluster.describe([group], COMMITS)
    now: Mapping[TopicPartition, Commit] = next((committed(group_now) for group_now in snapshot.groups), {})
    for item in ranges:
        commit = now.get(item.tp)
        if commit is not None and commit.offset < item.end:
            engine.reporter.warn(
                f"the committed offset of {group} on {item.tp} is {commit.offset}, below {item.end}: the group reads "
                "the offsets between itself too"
            )
