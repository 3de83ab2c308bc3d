"""A broker that forgets a transactional id once it has been idle for two seconds."""

from __future__ import annotations

from contextlib import closing

from kafka.admin import KafkaAdminClient

from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

PROPERTIES = {
    "transactional.id.expiration.ms": "2000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
}


def forgotten(world: KafkaWorld, transactional_id: str) -> None:
    """Wait until the broker has forgotten the id."""
    with closing(KafkaAdminClient(bootstrap_servers=world.bootstrap)) as admin:

        def known() -> set[str]:
            return {one.transactional_id for some in admin.list_transactions().values() for one in some}

        wait_for(lambda: transactional_id not in known(), f"{transactional_id} to expire")
