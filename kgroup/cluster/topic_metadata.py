"""What an assignor wants to know of topics: how many partitions, the topic's id, the racks of the replicas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kgroup.cluster.broker_errors import NONE, of_topic
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.topics import metadata_request
from kgroup.support.errors import KgroupError


@dataclass(frozen=True, slots=True)
class TopicShape:
    """A topic as the assignors see it.

    ``id`` is its Uuid as 128 bits, None where the broker gives none. ``replica_racks`` has the racks of each
    partition's replicas; None where no broker has a rack.
    """

    name: str
    partitions: int
    id: int | None
    replica_racks: tuple[frozenset[str], ...] | None


async def topic_shapes(client: CoordinatorClient, topics: Iterable[str]) -> dict[str, TopicShape | KgroupError]:
    """The shapes of the named topics in one request; nothing is created. Raises where no broker answers."""
    names = sorted(set(topics))
    if not names:
        return {}
    answer = await client.send_any(metadata_request(names))
    racks = {broker.node_id: broker.rack or None for broker in answer.brokers}
    found: dict[str, TopicShape | KgroupError] = {}
    for topic in answer.topics:
        if topic.error_code != NONE:
            found[topic.name] = of_topic(topic.error_code, topic.name)
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
