"""The quotas on what clients may read, as brokers list them."""

from __future__ import annotations

from collections.abc import Callable

from kgroup.cluster.client_quotas import read_quotas
from kgroup.model.read_quota import EACH, ReadQuota
from tests.cluster.test_broker_facts import connected
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]


def test_the_quotas_of_client_ids_and_users(world: KafkaWorld, name: Name) -> None:
    """A broker hears of a new quota a moment later. What clients may write is none of them."""
    app, writer = name("app"), name("writer")
    expected = {ReadQuota(300, app), ReadQuota(400, app, "alice"), ReadQuota(500, None, app), ReadQuota(600, EACH, app)}

    def read() -> set[ReadQuota]:
        found = cluster.ask(read_quotas)
        assert isinstance(found, tuple)
        return set(found)

    with connected(world.bootstrap) as cluster:
        world.quota(writer, 700, key="producer_byte_rate")
        for each in expected:
            world.quota(each.client_id, each.bytes_per_s, user=each.user)
        try:
            wait_for(lambda: read() >= expected, "the quotas")
            assert not [quota for quota in read() if quota.client_id == writer]
        finally:
            for each in expected:  # other tests have members of unknown users
                world.quota(each.client_id, None, user=each.user)
        wait_for(lambda: not read() & expected, "the end of the quotas")
