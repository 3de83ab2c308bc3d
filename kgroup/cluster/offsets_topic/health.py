"""The health of ``__consumer_offsets``: leaders, replicas, in-sync replicas, and how many of these a commit needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest

from kgroup.cluster.broker_errors import NONE, TOPIC_AUTHORIZATION_FAILED, topic_error
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.topics import metadata_request
from kgroup.model.acl_hint import acl_hint
from kgroup.support.errors import KgroupError, NotAuthorized, NotFound

_TOPIC = 2
"""org.apache.kafka.common.config.ConfigResource.Type.TOPIC"""
_MIN_IN_SYNC = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class Replicas:
    """One partition, in broker ids: leader (None: none now), replicas (the first is preferred), in-sync replicas."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OffsetsTopic:
    """All partitions, and how many in-sync replicas a commit needs; NotFound if no group has been used yet."""

    partitions: tuple[Replicas, ...] | KgroupError
    min_in_sync: int | KgroupError


async def offsets_topic(client: CoordinatorClient) -> OffsetsTopic:
    """Read partitions and setting in parallel. Raises KgroupError if no broker answers."""
    entry = DescribeConfigsRequest.DescribeConfigsResource
    resource = entry(resource_type=_TOPIC, resource_name=OFFSETS_TOPIC, configuration_keys=[_MIN_IN_SYNC])
    metadata, configs = await client.gather(
        [
            client.send_any(metadata_request([OFFSETS_TOPIC])),
            client.send_any(DescribeConfigsRequest(resources=[resource])),
        ]
    )
    return OffsetsTopic(_partitions(metadata), _least(configs))


async def keepers(client: CoordinatorClient) -> dict[int, Replicas]:
    """The leader and replicas of each partition. Raises KgroupError if they can't be read."""
    found = _partitions(await client.send_any(metadata_request([OFFSETS_TOPIC])), "Read")  # callers read records next
    if isinstance(found, KgroupError):
        raise found.with_context(prefix=f"{OFFSETS_TOPIC} ")
    return {row.partition: row for row in found}


def _partitions(answer: Any, operation: str = "Describe") -> tuple[Replicas, ...] | KgroupError:
    (topic,) = answer.topics
    if topic.error_code != NONE:
        return topic_error(topic.error_code, OFFSETS_TOPIC, operation)
    return tuple(
        Replicas(
            row.partition_index,
            row.leader_id if row.leader_id >= 0 else None,
            tuple(row.replica_nodes),
            tuple(row.isr_nodes),
        )
        for row in sorted(topic.partitions, key=lambda row: row.partition_index)
    )


def _least(answer: Any) -> int | KgroupError:
    (row,) = answer.results
    if row.error_code == TOPIC_AUTHORIZATION_FAILED:
        return NotAuthorized(
            f"no DESCRIBE_CONFIGS on {OFFSETS_TOPIC}", hint=acl_hint("DescribeConfigs", "topic", OFFSETS_TOPIC)
        )
    if row.error_code != NONE:
        return topic_error(row.error_code, OFFSETS_TOPIC)
    value = next((item.value for item in row.configs if item.name == _MIN_IN_SYNC), None)
    if value is None or not value.isdecimal():
        return NotFound(f"the broker does not tell {_MIN_IN_SYNC} of {OFFSETS_TOPIC}")
    return int(value)
