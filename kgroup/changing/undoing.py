"""Which change is taken back, and the plan of it: the journal's entry beside what stands there now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kgroup.changing.carry_out import COMMITS
from kgroup.changing.choose import Chosen
from kgroup.cluster.apply import ChangingCluster
from kgroup.cluster.logs import TopicLayout
from kgroup.errors import KgroupError, NotFound, Refused
from kgroup.groups.change import Plan, committed
from kgroup.groups.result import UNKNOWN
from kgroup.groups.undo_plan import Trace, emptied, undo_rows
from kgroup.journal import Entry, Journal, Place
from kgroup.model import Commit, RowError

_LISTED = 10
_MAYBE_DONE = frozenset({None, UNKNOWN})
"""Results after which the row may stand as the change wanted it."""


@dataclass(frozen=True, slots=True)
class Undoing:
    """A plan to take a change back, with the trace of each of its rows and the topics as they are now."""

    plan: Plan
    traces: tuple[Trace, ...]
    layouts: Mapping[str, TopicLayout | KgroupError]


def last_change(entries: Sequence[Entry], journal: Journal, cluster: ChangingCluster) -> Entry:
    """The newest change of which something is left to take back; an undo is taken back by its id alone.

    Raises NotFound, and Refused where the only ones are such that can't be taken back.
    """
    for entry in entries:
        state = state_of(entry, entries)
        if entry.undoes is None and (state == CAN_UNDO or (state in (PARTLY, UNFINISHED) and _stands(cluster, entry))):
            return entry
    lines = tuple(f"{e.id}  {e.at:%m-%d %H:%M:%SZ}  {e.what} {e.subject}: {state_of(e, entries)}" for e in entries)
    if lasting := next((entry for entry in entries if not entry.undoable), None):
        refused = never(lasting)
        refused.details = lines[:_LISTED]
        raise refused
    raise NotFound(
        f"there is nothing left to take back in the journal of this machine for {cluster.ref.label}",
        details=(f"The journal is {journal.directory}.", *lines[:_LISTED]),
        hint="a change that was made elsewhere is in the journal there, or in its --backup",
    )


def never(entry: Entry) -> Refused:
    """The refusal to take back what can't be."""
    return Refused(
        f"{entry.id} can't be taken back: {entry.what} {entry.subject}",
        hint="members that live join again by themselves",
        code="not-undoable",
    )


CANNOT, FAILED, CAN_UNDO, UNFINISHED = "cannot", "failed", "can undo", "unfinished"
TAKEN_BACK, PARTLY = "taken back", "partly taken back"


def state_of(entry: Entry, entries: Sequence[Entry]) -> str:
    """What the list says of a change, as the journal alone tells it.

    A change is taken back when undos, none of them undone itself, have done all the rows that it did.
    """
    if not entry.undoable:
        return CANNOT
    if entry.ended is not None and not _MAYBE_DONE & set(entry.results.values()):
        return FAILED
    undos = [e for e in entries if e.undoes == entry.id and state_of(e, entries) not in (TAKEN_BACK, FAILED)]
    if undos:
        back = {place for undo in undos for place in _done(undo)}
        whole = entry.ended is not None and all(undo.ended for undo in undos) and _done(entry) <= back
        return TAKEN_BACK if whole else PARTLY
    return UNFINISHED if entry.ended is None or UNKNOWN in entry.results.values() else CAN_UNDO


def _done(entry: Entry) -> set[Place]:
    return {place for place, code in entry.results.items() if code is None}


def _stands(cluster: ChangingCluster, entry: Entry) -> bool:
    """Whether something is as the change left it, or can't be read now."""
    seen = _look(cluster, entry)
    return any(trace.stands or trace.unread for trace in _traces(entry, seen))


def plan_undo(cluster: ChangingCluster, entry: Entry) -> Undoing:
    """The plan to put back what a change has changed, as far as it was made and stands."""
    seen = _look(cluster, entry)
    traces = _traces(entry, seen)
    layouts = cluster.layouts({trace.topic for trace in traces})
    faults = {topic: _fault(topic, entry, layouts) for topic in layouts}
    wanted = {(trace.topic, trace.partition) for trace in traces if not trace.is_back and not faults[trace.topic]}
    positions = cluster.positions(layouts, wanted)
    logs = {place: found.range for place, found in positions.items() if not isinstance(found, KgroupError)}
    rows = undo_rows(traces, logs, faults)
    there = {group.name for group in seen.chosen.groups}
    doubtful = {group for group, _, _ in seen.chosen.unread} | seen.unread.keys()
    plan = Plan(
        seen.chosen.groups,
        tuple(rows),
        created=frozenset(row.group for row in rows if not row.error) - there,
        deleted=emptied(entry.created & there - doubtful, rows, seen.now),
    )
    return Undoing(plan, tuple(traces), layouts)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The groups of a change as they are; ``unread`` are those of which nothing is known."""

    chosen: Chosen
    now: Mapping[Place, Commit]
    unread: Mapping[str, RowError]


def _look(cluster: ChangingCluster, entry: Entry) -> _Seen:
    snapshot = cluster.describe(sorted(entry.groups), COMMITS)
    of_groups = [error for error in snapshot.errors if error.topic is None and error.group is not None]
    unread = {error.group: error for error in of_groups if error.group and error.code != NotFound.code}
    groups = tuple(group for group in snapshot.groups if group.name not in unread)
    now = {(group.name, *place): commit for group in groups for place, commit in committed(group).items()}
    return _Seen(Chosen(groups, snapshot.errors), now, unread)


def _traces(entry: Entry, seen: _Seen) -> list[Trace]:
    """A trace for each row that was done, or may have been."""
    places = seen.chosen.unread
    return [
        Trace(
            row.group,
            row.topic,
            row.partition,
            row.before,
            row.after,
            seen.now.get(row.place),
            confirmed=row.place in entry.results and entry.results[row.place] is None,
            unread=seen.unread.get(row.group) or places.get(row.place),
        )
        for row in entry.rows
        if _may_be_done(entry, row.place)
    ]


def _may_be_done(entry: Entry, place: Place) -> bool:
    """What was refused, or was not reached before kgroup was told to stop, was not done."""
    return entry.results[place] in _MAYBE_DONE if place in entry.results else entry.ended is None


def _fault(topic: str, entry: Entry, layouts: Mapping[str, TopicLayout | KgroupError]) -> KgroupError | None:
    """Why offsets on a topic can't be put back: it is gone, or is another one of the same name."""
    layout, was = layouts[topic], entry.topics.get(topic)
    if isinstance(layout, KgroupError):
        return layout
    if was and layout.id and was != layout.id:
        return Refused(f"{topic} was made anew since: the old offsets mean nothing in it", code="topic-recreated")
    return None
