"""Quotas of a broker: read as they were set, and which of them limits a client."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kgroup.cluster.client_quotas import ClientQuota, client_quotas, effective_quotas, read_quotas
from kgroup.cluster.writes import ChangingCluster
from kgroup.model.read_quota import EACH, ReadQuota
from tests.cluster.test_broker_facts import connected
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

READS, WRITES = "consumer_byte_rate", "producer_byte_rate"


def quota(value: float, kind: str = READS, **entity: str | None) -> ClientQuota:
    return ClientQuota({name.replace("_", "-"): one for name, one in entity.items()}, {kind: value})


@pytest.mark.parametrize(
    ("quotas", "user", "expected"),
    [
        ((), "u", {}),
        ((quota(1, client_id="other"), quota(2, user="v"), quota(3, user="v", client_id="c")), "u", {}),
        ((quota(1, client_id="c"), quota(2, client_id=None)), "u", {READS: 1}),
        ((quota(2, client_id=None),), "u", {READS: 2}),
        ((quota(1, client_id="c"), quota(2, user=None)), "u", {READS: 2}),
        ((quota(2, user=None), quota(3, user=None, client_id=None)), "u", {READS: 3}),
        ((quota(3, user=None, client_id=None), quota(4, user=None, client_id="c")), "u", {READS: 4}),
        ((quota(4, user=None, client_id="c"), quota(5, user="u")), "u", {READS: 5}),
        ((quota(5, user="u"), quota(6, user="u", client_id=None)), "u", {READS: 6}),
        ((quota(6, user="u", client_id=None), quota(7, user="u", client_id="c")), "u", {READS: 7}),
        ((quota(7, user="u"), quota(1, WRITES, client_id="c")), "u", {READS: 7, WRITES: 1}),
        ((quota(7, user="u"), quota(1, client_id="c")), None, {READS: 1}),
    ],
)
def test_the_most_specific_quota_limits_a_client(
    quotas: tuple[ClientQuota, ...], user: str | None, expected: dict[str, float]
) -> None:
    assert effective_quotas(quotas, user, "c") == expected


def test_a_quota_is_read_as_it_was_set(cluster: ChangingCluster, world: KafkaWorld, name: Callable[[str], str]) -> None:
    client_id = name("replays")

    def effective() -> dict[str, float]:
        return effective_quotas(cluster.ask(client_quotas), "ANONYMOUS", client_id)

    assert effective() == {}
    world.quota(client_id, 5_000_000)
    wait_for(lambda: effective() == {READS: 5_000_000.0}, "the quota")
    world.quota(client_id, None)
    wait_for(lambda: effective() == {}, "no quota any more")


def test_the_quotas_of_client_ids_and_users(world: KafkaWorld, name: Callable[[str], str]) -> None:
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
