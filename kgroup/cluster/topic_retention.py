"""The retention of topics and the size of their logs: DescribeConfigs, DescribeLogDirs.

Both requests may be forbidden, and managed clusters may not support DescribeLogDirs. Unknown settings are None;
unknown sizes are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from kafka.protocol.admin.cluster import DescribeLogDirsRequest

from kgroup.cluster.broker_errors import NONE
from kgroup.cluster.configs import ConfigType, read_configs
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.topics import Layouts, TopicLayout
from kgroup.model.topic_partition import TopicPartition
from kgroup.model.topic_settings import TopicSettings
from kgroup.support.errors import KgroupError

_KEYS = ("cleanup.policy", "retention.ms", "retention.bytes", "message.timestamp.type")


class TopicRetentions(msgspec.Struct, frozen=True):
    """Settings by topic, None if they may not be read; and the size in bytes of each partition's log.

    ``failed`` is why no settings were read at all.
    """

    settings: Mapping[str, TopicSettings | None] = msgspec.field(default_factory=dict)
    sizes: Mapping[TopicPartition, int] = msgspec.field(default_factory=dict)
    failed: KgroupError | None = None


async def read_retention(
    client: CoordinatorClient, layouts: Layouts, partitions: Iterable[TopicPartition]
) -> TopicRetentions:
    """Read the retention: one request for all topics, and one per leader for the sizes."""
    distinct = sorted(set(partitions))
    settings, sizes = await client.gather(
        [_settings(client, sorted({topic for topic, _ in distinct})), read_sizes(client, layouts, distinct)]
    )
    if isinstance(settings, KgroupError):
        return TopicRetentions({}, sizes, settings)
    return TopicRetentions(settings, sizes)


async def _settings(client: CoordinatorClient, topics: list[str]) -> dict[str, TopicSettings | None] | KgroupError:
    try:
        configs = await read_configs(client, ConfigType.TOPIC, topics, _KEYS)
    except KgroupError as error:
        return error
    settings: dict[str, TopicSettings | None] = dict.fromkeys(topics)
    for topic, of_topic in configs.items():
        if not isinstance(of_topic, KgroupError):
            settings[topic] = TopicSettings.parse(of_topic)
    return settings


async def read_sizes(
    client: CoordinatorClient, layouts: Layouts, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """The size of each partition's log in bytes, as its leader has it; unknown ones are left out."""
    by_leader: dict[int, dict[str, list[int]]] = {}
    for topic, number in partitions:
        layout = layouts.get(topic)
        leader = layout.leaders.get(number) if isinstance(layout, TopicLayout) else None
        if leader is not None:
            by_leader.setdefault(leader, {}).setdefault(topic, []).append(number)
    answers = await client.send_all(
        [(leader, _log_dirs(topics)) for leader, topics in by_leader.items()], client.deadline.left_ms
    )
    return {tp: size for answer in answers if not isinstance(answer, BaseException) for tp, size in _sizes_in(answer)}


def _log_dirs(topics: Mapping[str, list[int]]) -> Any:
    entry = DescribeLogDirsRequest.DescribableLogDirTopic
    return DescribeLogDirsRequest(topics=[entry(topic=name, partitions=numbers) for name, numbers in topics.items()])


def _sizes_in(answer: Any) -> Iterable[tuple[TopicPartition, int]]:
    for directory in answer.results if (getattr(answer, "error_code", NONE) or NONE) == NONE else ():
        for topic in directory.topics if directory.error_code == NONE else ():
            for row in topic.partitions:
                if not row.is_future_key:  # a copy that the broker is moving to another directory
                    yield TopicPartition(topic.name, row.partition_index), row.partition_size
