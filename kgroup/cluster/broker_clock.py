"""What time it is for the brokers: DescribeQuorum (KIP-836), else the newest timestamp in ``__consumer_offsets``.

No answer of Kafka's has a clock of its own, but the active controller dates its own row of the quorum with its present
moment. Brokers on ZooKeeper, and those before 3.3, have none. Who may not DESCRIBE the cluster gets none either. What
coordinators wrote last is then a lower bound: their clock was there once.
"""

from __future__ import annotations

from contextlib import suppress

from kafka.protocol.admin import DescribeQuorumRequest

from kgroup.cluster.broker_errors import NONE
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.topics import newest_timestamp, topic_layouts
from kgroup.model.clocks import Clocks
from kgroup.support.clock import utc_ms
from kgroup.support.errors import KgroupError

_METADATA_TOPIC = "__cluster_metadata"
_DESCRIBE_QUORUM = 55


async def clocks(client: CoordinatorClient) -> Clocks:
    """Both clocks at one moment."""
    with suppress(KgroupError):
        if client.supports(_DESCRIBE_QUORUM) and (now_ms := await _controllers_now(client)) is not None:
            return Clocks(utc_ms(), now_ms, exact=True)
    with suppress(KgroupError):
        layout = (await topic_layouts(client, {OFFSETS_TOPIC}))[OFFSETS_TOPIC]
        return Clocks(utc_ms(), await newest_timestamp(client, OFFSETS_TOPIC, layout), exact=False)
    return Clocks(utc_ms(), None, exact=False)


async def _controllers_now(client: CoordinatorClient) -> int | None:
    """The present moment of the active controller, in ms since 1970; None where it does not tell."""
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
