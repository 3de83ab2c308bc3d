"""Find clients that commit to an Empty group: its latest commits in ``__consumer_offsets``, read backwards.

A consumer with ``assign()``, or a transactional producer, commits without being a member, so no response of the
coordinator shows it. Its commits come after the record that made the group Empty. The commits that members made when
they closed come before it. A group that never had members has no such record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.offsets_topic.record_batches import Marker, RawRecord, key_head
from kgroup.cluster.offsets_topic.records import (
    ConsumerGroupMetadata,
    GroupMetadata,
    OffsetCommit,
    RecordType,
    decode,
    key_prefix,
)
from kgroup.cluster.offsets_topic.scan import OUT_OF_TIME, LogPartition, Window, places_of, scan_backwards
from kgroup.cluster.primitives import MalformedRecord
from kgroup.cluster.topics import TopicLayout
from kgroup.model.groups import Activities, Activity, Group, LoggedCommit
from kgroup.support.errors import KgroupError
from kgroup.support.units import plural

SPAN_MS = 3_600_000
"""How far back to read for a group that has had members."""

SIMPLE_SPAN_MS = 600_000
"""How far back for a group that never had members: there a rhythm of commits matters, not a single commit."""

_TYPES = (RecordType.OFFSET_COMMIT, RecordType.GROUP_METADATA, RecordType.CONSUMER_GROUP_METADATA)


def reading_since(groups: Iterable[Group], now_ms: int) -> dict[str, int]:
    """The time in ms since which each Empty group is read. Other groups are left out: members commit to them."""
    return {
        group.name: now_ms - (SIMPLE_SPAN_MS if group.is_simple else SPAN_MS)
        for group in groups
        if group.state == "Empty"
    }


async def recent_activity(
    client: CoordinatorClient, layout: TopicLayout | KgroupError, since_ms: Mapping[str, int], budget: Deadline
) -> Activities:
    """The activity of each group since its time, as far as it is read before ``budget`` ends; one shared scan."""
    if not since_ms:
        return Activities({}, None)
    if isinstance(layout, KgroupError):
        return Activities({}, _note(len(since_ms), len(since_ms), [f"{OFFSETS_TOPIC} {layout.message}"]))
    places = await places_of(client, layout, since_ms, budget)
    found: dict[str, Activity] = {}
    reasons: list[str] = []
    for activities, reason in await client.gather(_scan(client, place, since_ms, budget) for place in places):
        found |= activities
        if reason:
            reasons.append(reason)
    unknown = sum(not activity.complete for activity in found.values())
    return Activities(found, _note(unknown, len(since_ms), reasons) if unknown else None)


def _note(unknown: int, groups: int, reasons: Iterable[str]) -> str:
    of = "" if groups == 1 else f" to {unknown} of {plural(groups, 'group')}"
    first, *others = dict.fromkeys(reasons)
    more = f"; and {plural(len(others), 'more partition')}" if others else ""
    return f"cannot tell whether somebody goes on committing{of}: {first}{more}"


async def _scan(
    client: CoordinatorClient, place: LogPartition, since_ms: Mapping[str, int], budget: Deadline
) -> tuple[dict[str, Activity], str | None]:
    """(activities in one partition of the topic, why they are incomplete)."""
    traces = {group: _Trace(since_ms[group]) for group in place.groups}
    by_head = {key_prefix(kind, group): traces[group] for group in place.groups for kind in _TYPES}
    aborted: dict[int, bool] = {}

    def visit(window: Window) -> bool:
        for entry in reversed(window.entries):
            if isinstance(entry, Marker):
                aborted[entry.producer_id] = entry.aborted
            elif not (entry.producer_id is not None and aborted.get(entry.producer_id)):
                by_head[key_head(entry.key)].add(entry)
        for trace in traces.values():
            trace.reached(window.oldest_ms)
        return not all(trace.complete for trace in traces.values())

    stopped = await scan_backwards(client, place, by_head, budget, visit)
    for trace in traces.values():
        trace.complete = (trace.complete or stopped is None) and not trace.unreadable
    reason = f"too much of {OFFSETS_TOPIC} to read in the time for it" if stopped is OUT_OF_TIME else stopped
    if any(trace.unreadable for trace in traces.values()):
        reason = reason or f"{OFFSETS_TOPIC} holds records of a newer kind"
    return {group: trace.activity for group, trace in traces.items()}, reason


class _Trace:
    """What a scan has found for one group, from the log end backwards."""

    def __init__(self, since_ms: int) -> None:
        self.complete = False
        self.unreadable = False
        self._since_ms = since_ms
        self._emptied_at_ms: int | None = None
        self._commits: list[LoggedCommit] = []

    @property
    def activity(self) -> Activity:
        return Activity(self._emptied_at_ms, tuple(reversed(self._commits)), self.complete)

    def add(self, record: RawRecord) -> None:
        """Add the next older record of the group."""
        if self.complete:
            return
        try:
            decoded = decode(record.key, record.value)
        except MalformedRecord:
            decoded = None
        match decoded:
            case OffsetCommit(topic=topic, partition=partition, value=commit):
                if commit is not None and record.timestamp_ms >= self._since_ms:
                    self._commits.append(
                        LoggedCommit(
                            topic,
                            partition,
                            commit.offset,
                            commit.leader_epoch,
                            record.timestamp_ms,
                            record.offset,
                            commit.metadata,
                        )
                    )
            case GroupMetadata(value=group) if group is not None:
                self.complete = True
                if group.members:
                    # The log is a moment older or newer than the coordinator's answer: members made these commits.
                    self._commits.clear()
                else:
                    self._emptied_at_ms = record.timestamp_ms
            case ConsumerGroupMetadata(value=epoch) if epoch is not None:
                # Each member that joins or leaves raises the epoch, and the group is Empty: here the last one left.
                self.complete = True
                self._emptied_at_ms = record.timestamp_ms
            case GroupMetadata() | ConsumerGroupMetadata():
                # The group was deleted here; this is a new group of the same name. (If it had changed its type, a
                # record of the new type would follow this one.)
                self.complete = True
            case _:
                # This may be the record that made the group Empty: older commits prove nothing.
                self.complete = self.unreadable = True

    def reached(self, oldest_ms: int | None) -> None:
        """Note that the log has been read back to this moment."""
        if oldest_ms is not None and oldest_ms < self._since_ms:
            self.complete = True
