"""Reading the facts about lag again: a refresh of ``--watch`` reads only the new part of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from kgroup.cluster.lag_reading import LagFacts, LookBack, Need
from kgroup.cluster.offsets_topic.group_log import GroupLog, GroupLogs
from kgroup.cluster.refresh_cache import CachedValue
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.lag.from_log import whole_since
from kgroup.model.group_log import CommitWritten, Event, ScannedRange, TransactionEnd
from kgroup.model.groups import Group

SURROUNDINGS_EVERY_S = 15.0
"""How often retention and other groups are read again, in seconds: that lists all groups of the cluster."""

_LEAST_EVENTS, _EVENTS_A_PARTITION = 10_000, 40
"""At most so many events are kept, or 40 per partition if that is more; ten commits determine a partition's status."""


def cached_lag_facts(cluster: Cluster, groups: Sequence[Group], need: Need, back: LookBack) -> LagFacts:
    """The facts about the groups' lag, of which earlier refreshes over this connection may have read a part.

    A whole history is read once and not kept.
    """
    if need.span_ms is not None:
        return cluster.lag_facts(groups, need, back)
    cache = cluster.cache
    surroundings = cache.surroundings
    topics: frozenset[str] = frozenset()
    if need.surroundings:
        topics = frozenset(p.topic for group in groups for p in group.partitions if p.lag)
    if surroundings is not None and not (topics <= surroundings.about and surroundings.is_fresh(SURROUNDINGS_EVERY_S)):
        surroundings = None
    floors = {name: cache.logs[name].next_offset for name in back.since_ms if name in cache.logs}
    facts = cluster.lag_facts(
        groups, replace(need, surroundings=need.surroundings and surroundings is None), replace(back, floors=floors)
    )
    cached_logs: dict[str, GroupLog] = {}
    logs = dict(facts.logs.logs)
    for name, new in facts.logs.logs.items():
        before = cache.logs.get(name)
        if before is None:
            cached_logs[name] = new
        elif (log := merge_logs(before, new, floors[name], back.since_ms[name])) is not None:
            cached_logs[name] = logs[name] = log
    cache.logs = cached_logs
    if need.surroundings and surroundings is None:
        surroundings = cache.surroundings = CachedValue(facts, topics)
    return replace(
        facts,
        logs=GroupLogs(logs, facts.logs.unread, facts.logs.forbidden),
        retention=surroundings.value.retention if surroundings else None,
        others=surroundings.value.others if surroundings else None,
    )


def merge_logs(before: GroupLog, new: GroupLog, floor: int, since_ms: int) -> GroupLog | None:
    """The group's log: cached events below offset ``floor``, new ones from there on; None if there is a gap between.

    Events older than ``since_ms`` are dropped except the newest of each kind, so that a watch for days needs no more
    memory than one refresh.
    """
    if new.reach.start > floor or new.reach.end < before.reach.end:
        return None
    events = (
        *(event for event in before.events if event.log_offset < floor),
        *(event for event in new.events if event.log_offset >= floor),
    )
    since_ms = _kept_since_ms(events, since_ms)
    whole_ms = whole_since(before.events, before.reach)
    reach = replace(before.reach, end=new.reach.end)
    if whole_ms is not None:
        # The log was complete since whole_ms. Dropping old events makes it complete only since since_ms.
        start = max(reach.start, reach.whole_from or 0)
        reach = replace(reach, start=start, whole_from=start, oldest_ms=max(whole_ms, since_ms))
    if new.reach.whole_from is not None and new.reach.whole_from > floor:
        reach = replace(reach, whole_from=new.reach.whole_from)
    events = tuple(_kept_events(events, since_ms))
    return GroupLog(
        events,
        replace(reach, stopped=_stopped(reach, whole_ms, since_ms), open_since_ms=_open_ms(events)),
    )


def _kept_since_ms(events: Collection[Event], since_ms: int) -> int:
    """The time from which events are kept, so that there are only a few per partition."""
    partitions = {(e.topic, e.partition) for e in events if isinstance(e, CommitWritten)}
    most = max(_LEAST_EVENTS, _EVENTS_A_PARTITION * len(partitions))
    return since_ms if len(events) <= most else max(since_ms, sorted(event.at_ms for event in events)[-most])


def _kept_events(events: Collection[Event], since_ms: int) -> Iterable[Event]:
    newest = {_event_subject(event): event.log_offset for event in events if _counts(event)}
    return (
        event for event in events if event.at_ms >= since_ms or newest.get(_event_subject(event)) == event.log_offset
    )


def _event_subject(event: Event) -> tuple[object, ...]:
    """What a later event replaces: a partition's commit, a member's record, the group's state."""
    if isinstance(event, CommitWritten):
        return (CommitWritten, event.topic, event.partition)
    return (type(event), getattr(event, "member_id", None) or getattr(event, "pattern", None))


def _counts(event: Event) -> bool:
    """Whether it is in effect: a commit is not while its transaction is open, or after it was aborted."""
    return not isinstance(event, CommitWritten) or event.counts


def _open_ms(events: Iterable[Event]) -> int | None:
    return min(
        (e.at_ms for e in events if isinstance(e, CommitWritten) and e.ending is TransactionEnd.OPEN),
        default=None,
    )


def _stopped(reach: ScannedRange, whole_ms: int | None, since_ms: int) -> str | None:
    """Why less than the period is covered, None if all is; over time the cache comes to cover the whole period."""
    return None if whole_ms is not None and whole_ms <= since_ms else reach.stopped
