"""When groups were last active: their newest commit or group record in ``__consumer_offsets``.

Compaction keeps the newest record of each key. So a group without a record since a moment was not active since then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.offsets_topic.record_batches import Marker, key_head
from kgroup.cluster.offsets_topic.records import RecordType, key_prefix
from kgroup.cluster.offsets_topic.scan import LogPartition, Window, places_of, scan_backwards
from kgroup.cluster.topics import TopicLayout
from kgroup.model.groups import LastActivities
from kgroup.support.errors import KgroupError

_SIGNS = (RecordType.OFFSET_COMMIT, RecordType.GROUP_METADATA, RecordType.CONSUMER_GROUP_METADATA)


async def last_signs(
    client: CoordinatorClient, layout: TopicLayout | KgroupError, groups: Iterable[str], since_ms: int, budget: Deadline
) -> LastActivities:
    """The newest sign of each group since that moment, as far as it is read before ``budget`` ends."""
    if isinstance(layout, KgroupError):
        return LastActivities({}, f"{OFFSETS_TOPIC} {layout.message}")
    places = await places_of(client, layout, groups, budget)
    found: dict[str, int | None] = {}
    reasons: dict[str, None] = {}
    for signs, reason in await client.gather(_scan(client, place, since_ms, budget) for place in places):
        found |= signs
        if reason:
            reasons[reason] = None
    return LastActivities(found, "; ".join(reasons) or None)


async def _scan(
    client: CoordinatorClient, place: LogPartition, since_ms: int, budget: Deadline
) -> tuple[Mapping[str, int | None], str | None]:
    """(last sign of each group in one partition of the topic, why some are missing)."""
    by_head = {key_prefix(kind, group): group for group in place.groups for kind in _SIGNS}
    found: dict[str, int] = {}

    def visit(window: Window) -> bool:
        for entry in reversed(window.entries):
            if not isinstance(entry, Marker) and entry.value is not None:
                found.setdefault(by_head[key_head(entry.key)], entry.timestamp_ms)
        far_enough = window.oldest_ms is not None and window.oldest_ms < since_ms
        return not far_enough and len(found) < len(place.groups)

    stopped = await scan_backwards(client, place, by_head, budget, visit)
    return (found, stopped) if stopped else (dict.fromkeys(place.groups) | found, None)
