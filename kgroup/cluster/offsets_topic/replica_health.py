"""The health of ``__consumer_offsets``: leaders, replicas, in-sync replicas, and how many of these a commit needs."""

from __future__ import annotations

from typing import Any

import msgspec

from kgroup.cluster.broker_errors import NONE, topic_error
from kgroup.cluster.configs import Configs, ConfigType, read_configs
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.topics import metadata_request
from kgroup.model.topic_partition import PartitionReplicas
from kgroup.model.topic_settings import TopicSettings
from kgroup.support.errors import KgroupError, NotFound

_MIN_IN_SYNC = "min.insync.replicas"


class OffsetsTopic(msgspec.Struct, frozen=True):
    """All partitions, and how many in-sync replicas a commit needs; NotFound if no group has been used yet."""

    partitions: tuple[PartitionReplicas, ...] | KgroupError
    min_in_sync: int | KgroupError


async def offsets_topic(client: CoordinatorClient) -> OffsetsTopic:
    """Read partitions and setting in parallel. Raises KgroupError if no broker answers."""
    metadata, configs = await client.gather(
        [
            client.send_any(metadata_request([OFFSETS_TOPIC])),
            read_configs(client, ConfigType.TOPIC, [OFFSETS_TOPIC], [_MIN_IN_SYNC]),
        ]
    )
    return OffsetsTopic(_partitions(metadata), _min_in_sync(configs[OFFSETS_TOPIC]))


async def read_replicas(client: CoordinatorClient) -> dict[int, PartitionReplicas]:
    """The leader and replicas of each partition. Raises KgroupError if they cannot be read."""
    metadata = await client.send_any(metadata_request([OFFSETS_TOPIC]))
    partitions = _partitions(metadata, "Read")  # callers read records next
    if isinstance(partitions, KgroupError):
        raise partitions.with_context(prefix=f"{OFFSETS_TOPIC} ")
    return {row.partition: row for row in partitions}


def _partitions(answer: Any, operation: str = "Describe") -> tuple[PartitionReplicas, ...] | KgroupError:
    (topic,) = answer.topics
    if topic.error_code != NONE:
        return topic_error(topic.error_code, OFFSETS_TOPIC, operation)
    return tuple(
        PartitionReplicas(
            row.partition_index,
            row.leader_id if row.leader_id >= 0 else None,
            tuple(row.replica_nodes),
            tuple(row.isr_nodes),
        )
        for row in sorted(topic.partitions, key=lambda row: row.partition_index)
    )


def _min_in_sync(configs: Configs | KgroupError) -> int | KgroupError:
    if isinstance(configs, KgroupError):
        return configs
    value = TopicSettings.parse(configs).min_in_sync
    return NotFound(f"the broker does not return {_MIN_IN_SYNC} of {OFFSETS_TOPIC}") if value is None else value
