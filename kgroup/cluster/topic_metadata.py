"""What an assignor needs to know about topics: number of partitions, topic id, racks of the replicas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kgroup.cluster.broker_errors import NONE, topic_error
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.topics import metadata_request
from kgroup.support.errors import KgroupError


@dataclass(frozen=True, slots=True)
class TopicShape:
    """A topic as an assignor needs it.

    ``id`` is the topic's Uuid as a 128-bit number, None if the broker returns none. ``replica_racks`` holds the racks
    of each partition's replicas; None if no broker has a rack.
    """

    name: str
    partitions: int
    id: int | None
    replica_racks: tuple[frozenset[str], ...] | None


async def topic_shapes(client: CoordinatorClient, topics: Iterable[str]) -> dict[str, TopicShape | KgroupError]:
    """Read the named topics in one Metadata request; it creates none. Raises KgroupError if no broker answers."""
    names = sorted(set(topics))
    if not names:
        return {}
    answer = await client.send_any(metadata_request(names))
    racks = {broker.node_id: broker.rack or None for broker in answer.brokers}
    found: dict[str, TopicShape | KgroupError] = {}
    for topic in answer.topics:
        if topic.error_code != NONE:
            found[topic.name] = topic_error(topic.error_code, topic.name)
            continue
        replicas = [item.replica_nodes for item in sorted(topic.partitions, key=lambda item: item.partition_index)]
        raw = getattr(topic, "topic_id", None)
        found[topic.name] = TopicShape(
            topic.name,
            len(replicas),
            raw.int or None if raw else None,
            tuple(frozenset(rack for node in nodes if (rack := racks.get(node))) for nodes in replicas)
            if any(racks.values())
            else None,
        )
    return found
