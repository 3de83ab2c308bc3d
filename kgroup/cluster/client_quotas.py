"""The quotas of clients (DescribeClientQuotas, KIP-546, Kafka 2.6 and later): which one limits a client id."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from kafka.protocol.admin.client_quotas import DescribeClientQuotasRequest

from kgroup.cluster.broker_errors import CLUSTER_AUTHORIZATION_FAILED, NONE, group_error
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.model.kafka_tools import acl_hint
from kgroup.model.read_quota import EACH, ReadQuota
from kgroup.support.errors import NotAuthorized

CONSUMER_BYTES, PRODUCER_BYTES = "consumer_byte_rate", "producer_byte_rate"
_NEWEST = 1


class ClientQuota(msgspec.Struct, frozen=True):
    """A quota of each broker. ``entity`` has names by type, ``user`` and ``client-id``; None: the default of all."""

    entity: Mapping[str, str | None]
    values: Mapping[str, float]


async def client_quotas(client: CoordinatorClient) -> tuple[ClientQuota, ...]:
    """All quotas of the cluster. Raises NotAuthorized without DESCRIBE_CONFIGS on it, KgroupError of old brokers."""
    request = DescribeClientQuotasRequest(components=[], strict=False, max_version=_NEWEST)
    answer = await client.send_any(request)
    if answer.error_code == CLUSTER_AUTHORIZATION_FAILED:
        raise NotAuthorized(
            "quotas may not be read: DESCRIBE_CONFIGS on the cluster is missing",
            hint=acl_hint("DescribeConfigs", "cluster"),
        )
    if answer.error_code != NONE:
        raise group_error(answer.error_code, "the quotas could not be read")
    return tuple(
        ClientQuota(
            {part.entity_type: part.entity_name for part in row.entity}, {one.key: one.value for one in row.values}
        )
        for row in answer.entries or ()
    )


async def read_quotas(client: CoordinatorClient) -> tuple[ReadQuota, ...]:
    """All quotas on reading, by client id and user; none without the right to read them."""
    try:
        quotas = await client_quotas(client)
    except NotAuthorized:
        return ()
    own = []
    for quota in quotas:
        named = {kind: EACH if name is None else name for kind, name in quota.entity.items()}
        # One of an address is left out: which members connect from it is not known.
        if CONSUMER_BYTES in quota.values and named.keys() <= {"client-id", "user"}:
            own.append(ReadQuota(math.ceil(quota.values[CONSUMER_BYTES]), named.get("client-id"), named.get("user")))
    return tuple(own)


def effective_quotas(quotas: Iterable[ClientQuota], user: str | None, client_id: str) -> dict[str, float]:
    """The value of each kind of quota that limits this client; the most specific entity that has one wins. Pure.

    ``user`` None: it is unknown, so only the default of users counts. Source: ClientQuotaManager.java of Kafka 4.3.
    """
    by_entity = {tuple(sorted(quota.entity.items())): quota.values for quota in quotas}
    limits: dict[str, float] = {}
    for entity in _by_precedence(user, client_id):
        for kind, value in by_entity.get(tuple(sorted(entity.items())), {}).items():
            limits.setdefault(kind, value)
    return limits


def _by_precedence(user: str | None, client_id: str) -> Iterator[dict[str, str | None]]:
    for name in (user, None) if user is not None else (None,):
        for each in (client_id, None):
            yield {"user": name, "client-id": each}
        yield {"user": name}
    for each in (client_id, None):
        yield {"client-id": each}
