"""Topics that were deleted while members of the group subscribed to them. Pure.

The broker deletes the offsets of a topic with the topic. Offsets of a topic to which a member subscribes do not expire,
and no client may delete them (GROUP_SUBSCRIBED_TO_TOPIC, KIP-496). So it shows in the log of the group, also where the
clients have left the topic out of their subscription since, as librdkafka does.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kgroup.groups.thresholds import RESET_SHOWN
from kgroup.model.group_log import CommitWritten, Event, GenerationWritten, MemberWritten, PatternResolved
from kgroup.support.instants import short_time
from kgroup.support.units import plural, some_of


class DeletedTopic(msgspec.Struct, frozen=True):
    """A topic that was deleted, with the offsets of so many partitions."""

    topic: str
    at_ms: int
    partitions: int


def deleted_topics(events: Sequence[Event], now_ms: int) -> tuple[DeletedTopic, ...]:
    """Those of the last hour that the group has not read again, the newest first; ``events`` are in log order."""
    since_ms = now_ms - RESET_SHOWN.value
    if not any(_is_deletion(event) and event.at_ms >= since_ms for event in events):
        return ()
    subscriptions = _Subscriptions()
    deleted: dict[str, DeletedTopic] = {}
    for event in events:
        if not isinstance(event, CommitWritten):
            subscriptions.add(event)
        elif not _is_deletion(event):
            deleted.pop(event.topic, None)
        elif event.at_ms >= since_ms and event.topic in subscriptions.topics:
            before = deleted.get(event.topic)
            count = 1 if before is None else before.partitions + 1
            deleted[event.topic] = DeletedTopic(event.topic, event.at_ms, count)
    return tuple(sorted(deleted.values(), key=lambda one: (-one.at_ms, one.topic)))


class _Subscriptions:
    """What the members subscribe to after the events that were added."""

    def __init__(self) -> None:
        self._named: dict[str, frozenset[str]] = {}
        self._patterns: dict[str, str] = {}
        self._resolved: dict[str, frozenset[str]] = {}

    @property
    def topics(self) -> frozenset[str]:
        """The topics of all members; of a pattern as the broker resolved it."""
        of_patterns = (self._resolved.get(pattern, frozenset()) for pattern in self._patterns.values())
        return frozenset().union(*self._named.values(), *of_patterns)

    def add(self, event: Event) -> None:
        """Add the next event of the group's log."""
        match event:
            case GenerationWritten():
                self._named = {member.member_id: member.topics or frozenset() for member in event.members}
            case MemberWritten(member_id=member_id, details=details):
                self._named.pop(member_id, None)
                self._patterns.pop(member_id, None)
                if details is not None:
                    self._named[member_id] = details.topics
                    if details.pattern is not None:
                        self._patterns[member_id] = details.pattern
            case PatternResolved(pattern=pattern, topics=topics):
                self._resolved[pattern] = topics or frozenset()


def _is_deletion(event: Event) -> bool:
    return isinstance(event, CommitWritten) and event.offset is None


def deleted_topics_words(deleted: Sequence[DeletedTopic], now_ms: int) -> str:
    """``orders was deleted at 12:04:31Z while members subscribed to it, and 12 committed offsets with it``."""
    were, them = ("was", "it") if len(deleted) == 1 else ("were", "them")
    count = sum(one.partitions for one in deleted)
    return (
        f"{some_of([one.topic for one in deleted])} {were} deleted at {short_time(deleted[0].at_ms, now_ms)} while "
        f"members subscribed to {them}, and {plural(count, 'committed offset')} with {them}"
    )
