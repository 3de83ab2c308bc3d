"""Selects the change to undo, and plans the undo: the journal's entry compared with the current commits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kgroup.changes.archived import with_archived
from kgroup.changes.conversion import plan_conversion, remove_stale_members
from kgroup.changes.execute import STARTS
from kgroup.changes.journal import Journal
from kgroup.cluster.topics import Layouts
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_plan import ChangePlan, ChangeRow, committed
from kgroup.groups.change_result import COMMITS_MISSING, NOT_VERIFIED, UNKNOWN
from kgroup.groups.selection import SelectedGroups
from kgroup.groups.share_changes import has_worked, lags_of, restored_start
from kgroup.groups.undo_plan import TOPIC_RECREATED, UndoRow, damage_errors, groups_to_delete, undo_rows
from kgroup.model.commit import Commit
from kgroup.model.groups import Group, Positions, RowError
from kgroup.model.journal import JournalEntry
from kgroup.model.reporter import Reporter
from kgroup.model.share_group import SHARE, BrokerLag
from kgroup.model.streaming_query import is_query
from kgroup.model.topic_partition import GroupTopicPartition, TopicPartition
from kgroup.queries.snapshots import STATE_ONLY
from kgroup.support.clock import utc_ms
from kgroup.support.errors import FOREIGN_OWNER, KgroupError, NotFound, Refused, refusal_code
from kgroup.support.hint import Hint
from kgroup.support.instants import short_time

NOT_UNDOABLE = refusal_code(
    "not-undoable",
    "undo",
    "The change is an eviction, which cannot be undone.",
    "Nothing: members that are alive join again by themselves.",
)

_LISTED = 10
_MAYBE_DONE = frozenset({None, UNKNOWN, COMMITS_MISSING, NOT_VERIFIED})
"""Result codes after which the change of the row, or of the group, may be in effect."""


class UndoPlan(msgspec.Struct, frozen=True):
    """The plan of an undo, with the trace of each of its rows and the current topics.

    ``configs`` are the current dynamic configs of the groups whose configs are restored.
    """

    plan: ChangePlan
    traces: tuple[UndoRow, ...]
    layouts: Layouts
    configs: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)


def last_change(entries: Sequence[JournalEntry], journal: Journal, cluster: ChangingCluster) -> JournalEntry:
    """The newest change of which something is left to undo; an undo itself is undone only by its id.

    If there is none, raises Refused if one of the changes cannot be undone, otherwise NotFound.
    """
    for entry in entries:
        state = change_state(entry, entries)
        if entry.undoes is None and (
            state in (CAN_UNDO, DAMAGED) or (state in (PARTLY, UNFINISHED) and _stands(cluster, entry))
        ):
            return entry
    lines = tuple(
        f"{e.id}  {short_time(e.at_ms, utc_ms())}  {e.what} {e.subject}: {change_state(e, entries)}" for e in entries
    )
    if lasting := next((entry for entry in entries if not entry.undoable), None):
        raise not_undoable(lasting).with_context(details=lines[:_LISTED])
    raise NotFound(
        f"the journal of this machine has nothing left to undo for {cluster.ref.label}",
        details=(f"The journal is {journal.directory}.", *lines[:_LISTED]),
        hint=Hint("To undo a change that was made elsewhere: {}", ("undo", "GROUP", "--as-of", "TIME")),
    )


def not_undoable(entry: JournalEntry) -> Refused:
    return Refused(
        f"{entry.id} cannot be undone: {entry.what} {entry.subject}",
        hint="Members that are alive join again within seconds.",
        code=NOT_UNDOABLE,
    )


CANNOT, FAILED, CAN_UNDO, UNFINISHED = "cannot", "failed", "can undo", "unfinished"
UNDONE, PARTLY, DAMAGED = "undone", "partly undone", "damaged"


def change_state(entry: JournalEntry, entries: Sequence[JournalEntry]) -> str:
    """The state of a change in the list, from the journal alone.

    A change is undone when undos, none of them undone itself, have restored all the rows that it changed.
    """
    if not entry.undoable:
        return CANNOT
    codes = {*entry.conversions.values(), *entry.configured.values()} if entry.migrates else {*entry.results.values()}
    if entry.ended is not None and not _MAYBE_DONE & codes:
        return FAILED
    undos = _undos(entry, entries)
    if undos:
        back = {key for undo in undos for key in _done(undo)}
        back |= {key[0] for undo in undos for key, code in undo.results.items() if code is None}
        whole = entry.ended is not None and all(undo.ended for undo in undos) and _done(entry) <= back
        return UNDONE if whole else PARTLY
    if entry.damage is not None:
        return DAMAGED
    return UNFINISHED if entry.ended is None or UNKNOWN in codes else CAN_UNDO


def _undos(entry: JournalEntry, entries: Sequence[JournalEntry]) -> list[JournalEntry]:
    """The undos of this change that have not failed and are not undone themselves."""
    return [e for e in entries if e.undoes == entry.id and change_state(e, entries) not in (UNDONE, FAILED)]


def changes_of_group(entries: Sequence[JournalEntry], group: str, now_ms: int) -> tuple[str, ...]:
    """Two lines for each of the group's newest changes: what was done, and the command that undoes it, if one does."""
    lines = []
    for entry in [entry for entry in entries if group in entry.groups][:_LISTED]:
        state = change_state(entry, entries)
        if state in (UNDONE, PARTLY):
            state = f"{state} by {', '.join(undo.id for undo in _undos(entry, entries))}"
        made = f"{entry.id}  {short_time(entry.at_ms, now_ms)}  {entry.what} {entry.subject}"
        note = "" if state == CAN_UNDO else f": {state}"
        if entry.undoes is not None and state == CAN_UNDO:
            note = f"; to redo {entry.undoes}:"
        lines.append(f"  {made}{note}")
        if entry.undoable and not state.startswith((UNDONE, FAILED)):
            lines.append(f"    {Hint('{}', ('undo', entry.id))}")
    return tuple(lines)


def restored_partitions(
    entry: JournalEntry, entries: Sequence[JournalEntry]
) -> tuple[frozenset[GroupTopicPartition], frozenset[GroupTopicPartition]]:
    """(partitions that an undo has restored, partitions that an undo may have restored)."""
    undos = _undos(entry, entries)
    done = frozenset(row.key for undo in undos for row in undo.rows if row.key in _done(undo))
    maybe = frozenset(row.key for undo in undos for row in undo.rows if may_be_done(undo, row.key))
    return done, maybe - done


def _done(entry: JournalEntry) -> set[GroupTopicPartition | str]:
    """The rows that it changed; for a migration, the groups."""
    if entry.migrates:
        done = {**entry.configured, **entry.conversions}
        return {group for group, code in done.items() if code in (None, COMMITS_MISSING, NOT_VERIFIED)}
    return {key for key, code in entry.results.items() if code is None}


def _stands(cluster: ChangingCluster, entry: JournalEntry) -> bool:
    """Whether anything is still as the change left it, or cannot be read now."""
    seen = _look(cluster, entry)
    if entry.migrates:
        undoing = _conversion_back(cluster, entry, seen)
        return bool(seen.unread or undoing.plan.size)
    return any(trace.is_unchanged or trace.unread for trace in _traces(entry, seen))


def clear_stale_members(reporter: Reporter, cluster: ChangingCluster, entry: JournalEntry, *, execute: bool) -> None:
    """Remove the members that a killed conversion left in the groups whose types the undo restores."""
    groups = cluster.describe(sorted(name for name in entry.groups if not is_query(name)), STATE_ONLY).groups
    remove_stale_members(reporter, cluster, groups, execute=execute)


def plan_undo(cluster: ChangingCluster, entry: JournalEntry) -> UndoPlan:
    """The plan to restore what a change has changed, as far as it was made and is still in effect."""
    seen = _look(cluster, entry)
    if entry.migrates:
        return _conversion_back(cluster, entry, seen)
    traces = _traces(entry, seen)
    layouts = cluster.layouts({trace.topic for trace in traces})
    faults = {topic: why_not_restorable(topic, entry, layouts) for topic in layouts}
    wanted = {trace.tp for trace in traces if not trace.is_back and not faults[trace.topic]}
    positions = cluster.positions(layouts, wanted)
    logs = {tp: position.range for tp, position in positions.items() if not isinstance(position, KgroupError)}
    there = {group.name for group in seen.chosen.groups}
    share = share_groups(entry)
    lags = _lags(cluster, sorted(share & there))
    traces = [
        replace(trace, worked=has_worked(trace.now, lags[trace.group].get(trace.tp), logs.get(trace.tp)))
        if trace.group in lags
        else trace
        for trace in traces
    ]
    rows = undo_rows(traces, logs, faults)
    doubtful = {group for group, _, _ in seen.chosen.unread} | seen.unread.keys()
    deleted = groups_to_delete(entry.created & there - doubtful, rows, seen.now)
    rows = [
        restored
        for row in rows
        if (restored := _restored(row, lags, positions, deleted) if row.group in share else row) is not None
    ]
    rows = with_archived(cluster, rows)
    created = frozenset(row.group for row in rows if not row.error) - there
    plan = ChangePlan(
        seen.chosen.groups,
        tuple(rows),
        created=created,
        created_share=created & share,
        deleted=deleted,
        errors=damage_errors(entry),
    )
    return UndoPlan(plan, tuple(traces), layouts)


def _lags(cluster: ChangingCluster, share: Sequence[str]) -> dict[str, dict[TopicPartition, BrokerLag]]:
    """The lags of share groups, read after the log ends: otherwise a record in between would seem to be done."""
    groups = cluster.describe(share, STARTS).groups if share else ()
    return {name: {} for name in share} | {group.name: lags_of(group) for group in groups}


def share_groups(entry: JournalEntry) -> frozenset[str]:
    return frozenset(name for name, kind in entry.groups.items() if kind == SHARE)


def _restored(
    row: ChangeRow,
    lags: Mapping[str, Mapping[TopicPartition, BrokerLag]],
    positions: Mapping[TopicPartition, Positions | KgroupError],
    deleted: Collection[str],
) -> ChangeRow | None:
    log = positions.get(row.tp)
    return restored_start(
        row,
        lags.get(row.group, {}).get(row.tp),
        log if isinstance(log, KgroupError) else None,
        deleted=row.group in deleted,
    )


def _to_convert_back(entry: JournalEntry, groups: Sequence[Group]) -> dict[str, str]:
    """The groups that still have the type that the migration set, each with its type before."""
    maybe = {name: kinds for name, kinds in entry.converted.items() if _maybe(entry, entry.conversions, name)}
    return {group.name: maybe[group.name][0] for group in groups if group.type == maybe.get(group.name, ("", ""))[1]}


def _maybe(entry: JournalEntry, results: Mapping[str, str | None], name: str) -> bool:
    """Whether it was done to the group, or may have been: kgroup may have died before recording it."""
    return results[name] in _MAYBE_DONE if name in results else entry.ended is None


def _conversion_back(cluster: ChangingCluster, entry: JournalEntry, seen: _Seen) -> UndoPlan:
    """The plan to give groups their old type back; their offsets keep their current values."""
    from kgroup.cluster.configs import group_configs  # only the undo of a migration needs it

    targets = _to_convert_back(entry, seen.chosen.groups)
    named = sorted(name for name in entry.configs if _maybe(entry, entry.configured, name))
    answers = cluster.ask(group_configs, named) if named else {}
    now = {name: answer for name, answer in answers.items() if not isinstance(answer, KgroupError)}
    missing = _missing_commits(entry, seen)
    layouts = cluster.layouts(
        {p.topic for group in seen.chosen.groups for p in group.partitions} | {row.topic for row in missing}
    )
    plan = plan_conversion(seen.chosen, layouts, targets, _configs_back(entry, now))
    faults = {row.topic: why_not_restorable(row.topic, entry, layouts) for row in missing}
    missing = [row.failing(RowError.of(fault)) if (fault := faults[row.topic]) else row for row in missing]
    created = {row.group for row in missing} - {group.name for group in seen.chosen.groups}
    errors = [error for error in plan.errors if error.group not in created]
    errors += [RowError.of(answer, group=name) for name, answer in answers.items() if isinstance(answer, KgroupError)]
    plan = replace(
        plan,
        rows=(*plan.rows, *missing),
        created=frozenset(created),
        errors=(*errors, *seen.unread.values(), *damage_errors(entry)),
    )
    return UndoPlan(plan, (), layouts, now)


def _missing_commits(entry: JournalEntry, seen: _Seen) -> list[ChangeRow]:
    """Commits that were missing after the conversion of a group, to be restored as before it.

    Also those of a group that is gone if kgroup died before the check.
    """
    there = {group.name for group in seen.chosen.groups}
    missing = {name for name, code in entry.conversions.items() if code == COMMITS_MISSING}
    missing |= {name for name in entry.converted if name not in entry.conversions and entry.ended is None} - there
    return [
        ChangeRow(row.group, row.topic, row.partition, None, row.before)
        for row in entry.rows
        if row.group in missing - seen.unread.keys() and row.before is not None and row.key not in seen.now
    ]


def _configs_back(entry: JournalEntry, now: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str | None]]:
    """The values before the change, for dynamic configs that still have the value that it set."""
    back = {
        name: {key: old for key, (old, new) in entry.configs[name].items() if own.get(key) == new}
        for name, own in now.items()
    }
    return {name: configs for name, configs in back.items() if configs}


class _Seen(msgspec.Struct, frozen=True):
    """The current groups of a change; ``unread`` are groups that could not be read at all."""

    chosen: SelectedGroups
    now: Mapping[GroupTopicPartition, Commit]
    unread: Mapping[str, RowError]


def _look(cluster: ChangingCluster, entry: JournalEntry) -> _Seen:
    share = share_groups(entry)
    snapshot = cluster.describe(sorted(entry.groups), replace(STARTS, queries=True))
    of_groups = [error for error in snapshot.errors if error.topic is None and error.group is not None]
    unread = {error.group: error for error in of_groups if error.group and error.code != NotFound.code}
    unread |= {
        group.name: RowError.of(_other_type(group, entry.groups[group.name]))
        for group in snapshot.groups
        if group.is_share != (group.name in share)
    }
    groups = tuple(group for group in snapshot.groups if group.name not in unread)
    now = {(group.name, *tp): commit for group in groups for tp, commit in committed(group).items()}
    return _Seen(SelectedGroups(groups, snapshot.errors), now, unread)


def _other_type(group: Group, then: str) -> Refused:
    return Refused(f"{group.name} is a {group.type} group now, and was a {then} group then", code=FOREIGN_OWNER)


def _traces(entry: JournalEntry, seen: _Seen) -> list[UndoRow]:
    """A trace for each row that was done, or may have been."""
    unread = seen.chosen.unread
    return [
        UndoRow(
            row.group,
            row.topic,
            row.partition,
            row.before,
            row.after,
            seen.now.get(row.key),
            confirmed=row.key in entry.results and entry.results[row.key] is None,
            unread=seen.unread.get(row.group) or unread.get(row.key),
        )
        for row in entry.rows
        if may_be_done(entry, row.key)
    ]


def may_be_done(entry: JournalEntry, key: GroupTopicPartition) -> bool:
    """Whether a row was done, or may have been.

    A row that was refused, or not reached before kgroup was interrupted, was not done. That a row has no result shows
    this only if no result is missing in the file.
    """
    return entry.results[key] in _MAYBE_DONE if key in entry.results else entry.ended is None


def why_not_restorable(topic: str, entry: JournalEntry, layouts: Layouts) -> KgroupError | None:
    """Why offsets of a topic cannot be restored: it is deleted or recreated; None if they can."""
    layout, was = layouts[topic], entry.topics.get(topic)
    if isinstance(layout, KgroupError):
        return layout
    if was and layout.id and was != layout.id:
        return Refused(f"{topic} was deleted and recreated; the old offsets do not apply to it", code=TOPIC_RECREATED)
    return None
