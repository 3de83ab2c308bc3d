"""Read the quotas on what clients may read (DescribeClientQuotas, KIP-546)."""

from __future__ import annotations

import math

from kafka.protocol.admin.client_quotas import DescribeClientQuotasRequest

from kgroup.cluster.broker_errors import NONE
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.model.read_quota import EACH, ReadQuota

_READS = "consumer_byte_rate"


async def read_quotas(client: CoordinatorClient) -> tuple[ReadQuota, ...] | str:
    """All quotas on reading, by client id and user; or why they could not be read. Any broker answers."""
    node_id = min(client.brokers)
    (answer,) = await client.send_all([(node_id, DescribeClientQuotasRequest(components=[], strict=False))])
    if isinstance(answer, BaseException):
        return client.failure(answer, node_id).message
    if answer.error_code != NONE:
        return "no DESCRIBE_CONFIGS on the Cluster"
    found = []
    for entry in answer.entries or ():
        named = {entity.entity_type: entity.entity_name or EACH for entity in entry.entity}
        if not named.keys() <= {"client-id", "user"}:
            continue  # of an address: which members connect from it is not known
        rates = (value.value for value in entry.values if value.key == _READS)
        found += [ReadQuota(math.ceil(rate), named.get("client-id"), named.get("user")) for rate in rates]
    return tuple(found)
