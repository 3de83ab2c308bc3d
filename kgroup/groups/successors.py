"""A group that has taken another one's partitions over, as when a deployment renamed the group. Pure.

Nothing in Kafka links the two: a new group began to read the same partitions when the old one stopped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from kgroup.groups.foreign_owners import connector_of
from kgroup.groups.thresholds import TAKEN_OVER
from kgroup.model.group_log import EpochWritten, Event, GenerationWritten
from kgroup.model.groups import Group
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.instants import short_time
from kgroup.support.units import some_of

_FIRST_GENERATION, _FIRST_EPOCHS = 1, 2


class Successor(msgspec.Struct, frozen=True):
    """The groups that may have taken a group's partitions over, that of the nearest time first, and when it began."""

    names: tuple[str, ...]
    since_ms: int

    def words(self, now_ms: int) -> str:
        """``orders-v2 began to read these partitions at 12:04:31Z, as this group stopped: ...``."""
        who, have = some_of(self.names), "they have" if len(self.names) > 1 else "it has"
        return (
            f"{who} began to read these partitions at {short_time(self.since_ms, now_ms)}, as this group stopped: "
            f"{have} replaced this group, or its consumers are missing, the log does not show which"
        )


def partitions_left(group: Group) -> frozenset[TopicPartition]:
    """The partitions with unread records that a group without members has left; none of another group.

    Nor of a connector: its group has its name, and Connect knows what became of it.
    """
    if not group.is_empty or group.is_simple or connector_of(group.name) is not None:
        return frozenset()
    return frozenset(p.tp for p in group.partitions if p.lag)


def candidates(
    left: Collection[TopicPartition], committed: Mapping[str, Collection[TopicPartition]]
) -> tuple[str, ...]:
    """The groups with a commit on all these partitions."""
    return tuple(name for name, places in sorted(committed.items()) if left and frozenset(left) <= frozenset(places))


def began_ms(events: Iterable[Event]) -> int | None:
    """When a group had its first members, by its first generation or epoch; None if that is not among its events."""
    for event in events:
        if isinstance(event, GenerationWritten) and event.generation > 0:  # a new group is written before its members
            return event.at_ms if event.generation == _FIRST_GENERATION else None
        if isinstance(event, EpochWritten):
            return event.at_ms if event.epoch <= _FIRST_EPOCHS else None
    return None


def successor(emptied_ms: int | None, began: Mapping[str, Sequence[Event]]) -> Successor | None:
    """The groups that began within ``TAKEN_OVER`` of the moment when the group became Empty; None without any."""
    if emptied_ms is None:
        return None
    times_ms = {name: at_ms for name, events in began.items() if (at_ms := began_ms(events)) is not None}
    near = {name: at_ms for name, at_ms in times_ms.items() if abs(at_ms - emptied_ms) <= TAKEN_OVER.value}
    names = sorted(near, key=lambda name: (abs(near[name] - emptied_ms), name))
    return Successor(tuple(names), near[names[0]]) if names else None
