"""Changes of share and streams groups that are no steps: start offsets, topology, settings of the assignment. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from kgroup.model.group_log import (
    EpochWritten,
    Event,
    GroupDeleted,
    ShareStates,
    ShareStatesWritten,
    TopologyWritten,
)
from kgroup.model.groups import Assignment, TopicPartitions, assignment_of
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.json_types import ExplainedEnum
from kgroup.support.units import plural


class LoggedChangeKind(ExplainedEnum):
    """A change of a share group (offsets) or a streams group (the others)."""

    INITIALIZED = "offsets-initialized", "the group began to read partitions: they got their first start offsets"
    SET = "offsets-set", "start offsets were set by a client, as by a reset; the log does not have the offsets"
    DELETED = "offsets-deleted", "start offsets were deleted by a client"
    TOPIC_DELETED = "topic-deleted", "a topic was deleted, and its start offsets with it"
    TOPOLOGY = "topology", "the application brought a topology"
    SETTINGS = "settings", "an assignment was computed with other settings than the one before"


class LoggedChange(msgspec.Struct, frozen=True):
    """``places`` are the partitions whose start offsets changed; a topic has none in it if they are not known.

    ``took_ms`` is how long it took until the offsets were written or deleted; None if they are not, or for the others.
    """

    kind: LoggedChangeKind
    log_offset: int
    at_ms: int
    text: str
    places: Assignment = ()
    took_ms: int | None = None


def logged_changes(events: Iterable[Event]) -> tuple[LoggedChange, ...]:
    """The changes, oldest first. Start offsets that are deleted with their group are none."""
    offsets, others = _OffsetChanges(), list[LoggedChange]()
    settings: dict[str, str] | None = None
    for event in events:
        match event:
            case ShareStatesWritten():
                offsets.add(event)
            case TopologyWritten(topology=topology) if topology is not None:
                count = len(topology.subtopologies)
                text = f"epoch {topology.epoch}, {count} {'subtopology' if count == 1 else 'subtopologies'}"
                others.append(LoggedChange(LoggedChangeKind.TOPOLOGY, event.log_offset, event.at_ms, text))
            case EpochWritten(settings=pairs) if pairs is not None:
                if settings is not None and (text := ", ".join(_differences(settings, dict(pairs)))):
                    others.append(LoggedChange(LoggedChangeKind.SETTINGS, event.log_offset, event.at_ms, text))
                settings = dict(pairs)
            case GroupDeleted():
                settings = None
    return tuple(sorted((*others, *offsets.done, *offsets.begun), key=lambda one: one.log_offset))


def _differences(before: dict[str, str], now: dict[str, str]) -> Iterator[str]:
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            yield f"{name} {before.get(name, 'unset')} -> {now.get(name, 'unset')}"


class _OffsetChanges:
    """Changes of start offsets: one record begins a change, a later one without it ends it."""

    def __init__(self) -> None:
        self.done: list[LoggedChange] = []
        self.begun: list[LoggedChange] = []
        self._before: ShareStates | None = None

    def add(self, record: ShareStatesWritten) -> None:
        before, states = self._before or _NO_STATES, record.states
        self._before = states
        if states is None:
            self.begun.clear()
            return
        for change in [one for one in self.begun if not _is_pending(one, states)]:
            self.begun.remove(change)
            self.done.append(replace(change, took_ms=max(0, record.at_ms - change.at_ms)))
        written = states.initializing - before.initializing
        gone = before.initialized - states.initialized
        deleted = states.deleting - before.deleting
        with_topic = frozenset(tp for tp in gone if tp.topic not in states.deleting)
        of_deleted = {place.topic: place for place in assignment_of(gone - with_topic) or ()}
        for kind, places in (
            (LoggedChangeKind.INITIALIZED, assignment_of(written - states.initialized)),
            (LoggedChangeKind.SET, assignment_of(written & states.initialized)),
            (LoggedChangeKind.DELETED, tuple(of_deleted.get(t, TopicPartitions(t, ())) for t in sorted(deleted))),
            (LoggedChangeKind.TOPIC_DELETED, assignment_of(with_topic)),
        ):
            if places:
                into = self.done if kind is LoggedChangeKind.TOPIC_DELETED else self.begun
                into.append(LoggedChange(kind, record.log_offset, record.at_ms, ", ".join(map(_text, places)), places))


_NO_STATES = ShareStates(frozenset(), frozenset(), frozenset())


def _is_pending(change: LoggedChange, states: ShareStates) -> bool:
    if change.kind is LoggedChangeKind.DELETED:
        return any(place.topic in states.deleting for place in change.places)
    places = (TopicPartition(place.topic, number) for place in change.places for number in place.partitions)
    return any(tp in states.initializing for tp in places)


def _text(place: TopicPartitions) -> str:
    return f"{place.topic} ({plural(len(place.partitions), 'partition')})" if place.partitions else place.topic
