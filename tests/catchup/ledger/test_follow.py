"""What is read of a plan while it runs: each record once, the newest ones, also where the log start has moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kafka.errors import PolicyViolationError

from kgroup.catchup.ledger.follow import PlanFollower
from kgroup.catchup.ledger.ledger import Ledger
from kgroup.catchup.ledger.records import RecordKind, Value
from kgroup.catchup.ledger.runner import Runner
from kgroup.cluster.reader.batches import RECORDS_GONE
from kgroup.groups.catchup.model import RunnerEpoch
from kgroup.support.errors import Refused
from tests.helpers.catchup.ledgers import created, new_plan
from tests.helpers.catchup.plans import ME, NOW_MS
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

TIMEOUT_S = 15.0


@pytest.fixture
def runner(ledger: Ledger, name: Callable[[str], str]) -> Runner:
    plan = new_plan(name("group"), chunks=2)
    made = created(ledger, plan)
    return ledger.take_over(plan.id, who=ME, now_ms=NOW_MS, offset=made.offset)


def beats(values: Sequence[Value]) -> list[int]:
    """When the runner was seen, by each of its heartbeats after NOW_MS."""
    return [one.seen_ms - NOW_MS for one in values if isinstance(one, RunnerEpoch) and one.seen_ms > NOW_MS]


def follower(ledger: Ledger, runner: Runner, config: dict[str, Any], newest: int | None = None) -> PlanFollower:
    source = config, ledger.topic, runner.plan_id, runner.snapshot.offset
    return PlanFollower(*source, timeout_s=TIMEOUT_S, newest=newest)


def test_each_record_once(ledger: Ledger, runner: Runner, bootstrap: str) -> None:
    with runner, follower(ledger, runner, {"bootstrap.servers": bootstrap}) as follows:
        for beat in (1, 2):
            runner.heartbeat(NOW_MS + beat)
        assert beats([*follows.written(RecordKind.EPOCH)]) == [1, 2]
        assert [*follows.committed()] == []
        runner.heartbeat(NOW_MS + 3)
        assert beats([*follows.committed()]) == [3]


def test_the_newest_records_first(ledger: Ledger, runner: Runner, bootstrap: str) -> None:
    """A heartbeat is a record and the mark of its transaction."""
    with runner, follower(ledger, runner, {"bootstrap.servers": bootstrap}, newest=4) as follows:
        for beat in range(1, 6):
            runner.heartbeat(NOW_MS + beat)
        assert beats([*follows.written(RecordKind.EPOCH)]) == [4, 5]
        for beat in range(6, 10):
            runner.heartbeat(NOW_MS + beat)
        assert beats([*follows.written(RecordKind.EPOCH)]) == [6, 7, 8, 9]


def test_it_goes_on_where_the_log_start_has_passed_it(
    ledger: Ledger, runner: Runner, world: KafkaWorld, bootstrap: str
) -> None:
    """Of a ledger whose topic an operator has changed to delete old records as well."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, ledger.topic)
    deletes = ConfigEntry("cleanup.policy", "compact,delete", incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(deletes)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)
    with runner, follower(ledger, runner, {"bootstrap.servers": bootstrap}) as follows:
        runner.heartbeat(NOW_MS + 1)
        assert beats([*follows.written(RecordKind.EPOCH)]) == [1]
        end = world.end(ledger.topic)
        for beat in (2, 3):
            runner.heartbeat(NOW_MS + beat)
        wait_for(lambda: world.end(ledger.topic) == end + 4, "the mark of the last transaction")
        wait_for(lambda: _deleted(world, ledger.topic), "that its broker knows of the setting")
        assert world.start(ledger.topic) == world.end(ledger.topic) - 2
        with pytest.raises(Refused) as gone:
            [*follows.written(RecordKind.EPOCH)]
        assert gone.value.code == RECORDS_GONE
        assert beats([*follows.written(RecordKind.EPOCH)]) == [3]


def _deleted(world: KafkaWorld, topic: str) -> bool:
    """Whether all records but the newest could be deleted."""
    try:
        world.delete_records(topic, 0, world.end(topic) - 2)
    except PolicyViolationError:
        return False
    return True
