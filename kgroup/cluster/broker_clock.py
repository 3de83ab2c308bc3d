"""The brokers' present time: from DescribeQuorum (KIP-836), else the newest timestamp in ``__consumer_offsets``.

No Kafka response carries the broker's clock. But in DescribeQuorum the active controller reports its own row with its
present time. Brokers on ZooKeeper and brokers before 3.3 do not have this API, and it needs DESCRIBE on the cluster.
The fallback is a lower bound: the coordinator's clock when it last wrote.
"""

from __future__ import annotations

from contextlib import suppress

from kafka.protocol.admin.cluster import DescribeQuorumRequest

from kgroup.cluster.broker_errors import NONE
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.topics import newest_timestamp, offsets_topic_layout
from kgroup.model.clock_difference import Clocks
from kgroup.support.clock import utc_ms
from kgroup.support.errors import KgroupError

_METADATA_TOPIC = "__cluster_metadata"
_DESCRIBE_QUORUM = 55


async def clocks(client: CoordinatorClient) -> Clocks:
    """Our clock and the brokers' clock at the same moment. The brokers' time is None if it could not be read."""
    with suppress(KgroupError):
        if client.supports(_DESCRIBE_QUORUM) and (now_ms := await _controllers_now(client)) is not None:
            return Clocks(utc_ms(), now_ms, exact=True)
    with suppress(KgroupError):
        layout = await offsets_topic_layout(client)
        return Clocks(utc_ms(), await newest_timestamp(client, OFFSETS_TOPIC, layout), exact=False)
    return Clocks(utc_ms(), None, exact=False)


async def _controllers_now(client: CoordinatorClient) -> int | None:
    """The active controller's present time in ms since 1970; None if it does not report one."""
    topic = DescribeQuorumRequest.TopicData
    partitions = [topic.PartitionData(partition_index=0)]
    request = DescribeQuorumRequest(topics=[topic(topic_name=_METADATA_TOPIC, partitions=partitions)], min_version=1)
    answer = await client.send_any(request)
    if answer.error_code != NONE:
        return None
    for row in (row for topic in answer.topics for row in topic.partitions if row.error_code == NONE):
        for voter in row.current_voters:
            if voter.replica_id == row.leader_id and voter.last_caught_up_timestamp > 0:
                return int(voter.last_caught_up_timestamp)
    return None
