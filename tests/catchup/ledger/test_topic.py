"""The ledger's topic: made on demand, refused where it is none, and what one must be allowed to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kgroup.catchup.ledger import transactional_ids
from kgroup.catchup.ledger.ledger import Ledger
from kgroup.catchup.ledger.topic import LEDGER_TOPIC, LedgerTopic, check, prepare
from kgroup.cluster.topic_admin import TopicAdmin
from kgroup.support.errors import KgroupError, NotAuthorized, Refused, Unreachable
from tests.helpers import programs
from tests.helpers.catchup.ledgers import new_plan
from tests.helpers.catchup.plans import ME, NOW_MS
from tests.helpers.command_line import QuietReporter
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.secure_broker import USERS, SecureBroker, secure_broker
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
Config = dict[str, Any]
TIMEOUT_S = 15.0
COMPACT = {"cleanup.policy": "compact"}


@pytest.fixture
def config(bootstrap: str) -> Config:
    return {"bootstrap.servers": bootstrap, "log_level": "0"}


def test_it_is_made_on_demand_and_only_then(config: Config, name: Name) -> None:
    topic, admin = name("ledger"), TopicAdmin(config, timeout_s=TIMEOUT_S)

    assert check(config, topic, timeout_s=TIMEOUT_S) == LedgerTopic(topic, exists=False)
    assert admin.describe(topic) is None
    assert prepare(config, topic, timeout_s=TIMEOUT_S) == LedgerTopic(topic, exists=True)
    assert prepare(config, topic, timeout_s=TIMEOUT_S) == check(config, topic, timeout_s=TIMEOUT_S)
    described = admin.describe(topic)

    assert described is not None
    assert (described.partitions, described.replicas) == (1, 1)
    assert described.settings is not None
    assert (described.settings.cleanup_policy, described.settings.min_in_sync) == ("compact", 1)
    assert LEDGER_TOPIC == "_kgroup_ledger"


@pytest.mark.parametrize(
    ("partitions", "settings", "says"),
    [
        (2, COMPACT, "2 partitions"),
        (1, {}, "cleanup.policy is delete"),
        (1, {"cleanup.policy": "compact,delete"}, "cleanup.policy is compact,delete"),
        (1, COMPACT | {"min.insync.replicas": "2"}, "min.insync.replicas is 2, but it has 1 replicas"),
    ],
)
def test_a_topic_that_can_t_be_a_ledger(
    config: Config, world: KafkaWorld, name: Name, partitions: int, settings: dict[str, str], says: str
) -> None:
    topic = world.topic(name("ledger"), partitions, settings)
    for ask in (check, prepare):
        with pytest.raises(Refused) as caught:
            ask(config, topic, timeout_s=TIMEOUT_S)

        assert caught.value.code == "ledger-unfit"
        assert topic in caught.value.message
        assert says in caught.value.message


def test_without_a_broker() -> None:
    with pytest.raises(Unreachable):
        check({"bootstrap.servers": "127.0.0.1:1"}, LEDGER_TOPIC, timeout_s=0.5)


# ---- rights


@pytest.fixture(scope="module")
@programs.needs("openssl")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("ledger-rights"), QuietReporter()) as running:
        yield running


@pytest.fixture
def bob(broker: SecureBroker) -> Config:
    return {
        "bootstrap.servers": broker.addresses["SCRAM"],
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "bob",
        "sasl.password": USERS["bob"],
        "ssl.ca.location": broker.certificates.certificate("ca"),
    }


Right = tuple[ResourceType, str, ResourcePatternType, AclOperation]
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED


def rights(broker: SecureBroker, *wanted: Right) -> None:
    """Exactly these, for bob."""
    admin = AdminClient({"bootstrap.servers": broker.addresses["ADMIN"]})
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    for done in admin.delete_acls([everything]).values():
        done.result(30)
    # First none at all: the old ones may be as many.
    wait_for(lambda: not admin.describe_acls(everything).result(30), "no rights")
    bindings = [
        AclBinding(kind, name, pattern, "User:bob", "*", operation, AclPermissionType.ALLOW)
        for kind, name, pattern, operation in wanted
    ]
    for done in admin.create_acls(bindings).values() if bindings else ():
        done.result(30)
    wait_for(lambda: len(admin.describe_acls(everything).result(30)) == len(bindings), "rights")


def on_topic(topic: str, *operations: AclOperation) -> tuple[Right, ...]:
    return tuple((ResourceType.TOPIC, topic, LITERAL, operation) for operation in operations)


TRANSACTIONS: Right = (
    ResourceType.TRANSACTIONAL_ID,
    transactional_ids.PREFIX,
    PREFIXED,
    AclOperation.WRITE,
)
ALL_ON_TOPIC = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE_CONFIGS)


def refused(call: Callable[[], object]) -> KgroupError:
    with pytest.raises(KgroupError) as caught:
        call()
    return caught.value


def test_who_may_not_make_it_is_told_the_command(broker: SecureBroker, bob: Config, name: Name) -> None:
    topic = name("ledger")
    rights(broker, *on_topic(topic, *ALL_ON_TOPIC), TRANSACTIONS)
    for ask in (check, prepare):
        error = refused(partial(ask, bob, topic, timeout_s=TIMEOUT_S))

        assert isinstance(error, Refused)
        assert error.code == "no-ledger"
        assert error.hint is not None
        assert error.hint.endswith(
            f"kafka-topics.sh --bootstrap-server {bob['bootstrap.servers']} --create --topic {topic} --partitions 1 "
            "--replication-factor 1 --config cleanup.policy=compact --config delete.retention.ms=3600000 "
            "--config max.message.bytes=8388608 --config min.cleanable.dirty.ratio=0.1 "
            "--config min.insync.replicas=1 --config segment.bytes=16777216 --config segment.ms=600000"
        )


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        (AclOperation.READ, "no READ on Topic"),
        (AclOperation.WRITE, "no WRITE on Topic"),
        (AclOperation.DESCRIBE_CONFIGS, "no DESCRIBE_CONFIGS on Topic"),
        (None, "no WRITE on TransactionalId kgroup-catchup-check"),
    ],
)
def test_a_missing_right_is_named_before_anything_is_written(
    broker: SecureBroker, bob: Config, name: Name, missing: AclOperation | None, says: str
) -> None:
    topic = name("ledger")
    prepare({"bootstrap.servers": broker.addresses["ADMIN"]}, topic, timeout_s=TIMEOUT_S)
    given = [operation for operation in ALL_ON_TOPIC if operation is not missing]
    rights(broker, *on_topic(topic, *given), *([] if missing is None else [TRANSACTIONS]))

    error = refused(lambda: check(bob, topic, timeout_s=TIMEOUT_S))

    assert isinstance(error, NotAuthorized)
    assert says in error.message
    assert error.hint is not None
    assert error.hint.startswith("kafka-acls.sh --bootstrap-server ")
    if missing is None:
        assert error.hint.endswith("--transactional-id kgroup-catchup- --resource-pattern-type prefixed")


def test_these_rights_are_enough(broker: SecureBroker, bob: Config, name: Name) -> None:
    topic = name("ledger")
    rights(broker, *on_topic(topic, *ALL_ON_TOPIC, AclOperation.CREATE), TRANSACTIONS)
    plan = new_plan(name("group"))
    with Ledger(bob, topic, timeout_s=TIMEOUT_S) as ledger:
        assert ledger.check() == LedgerTopic(topic, exists=False)
        assert ledger.prepare() == LedgerTopic(topic, exists=True)
        ledger.create(plan, now_ms=NOW_MS)
        with ledger.take_over(plan.id, who=ME, now_ms=NOW_MS) as runner:
            runner.heartbeat(NOW_MS + 1)
        ledger.fence_tasks(plan.id, range(3))
        assert [each.plan for each in ledger.list().plans] == [plan]


def test_who_may_only_read_may_list(broker: SecureBroker, bob: Config, name: Name) -> None:
    topic, plan = name("ledger"), new_plan(name("group"))
    with Ledger({"bootstrap.servers": broker.addresses["ADMIN"]}, topic, timeout_s=TIMEOUT_S) as ledger:
        ledger.prepare()
        ledger.create(plan, now_ms=NOW_MS)
    rights(broker, *on_topic(topic, AclOperation.READ))
    with Ledger(bob, topic, timeout_s=TIMEOUT_S) as seen:
        assert [each.plan for each in seen.list().plans] == [plan]
        assert isinstance(refused(lambda: seen.take_over(plan.id, who=ME, now_ms=NOW_MS)), NotAuthorized)
        assert isinstance(refused(lambda: seen.create(new_plan(name("other")), now_ms=NOW_MS)), NotAuthorized)
    rights(broker)
    with Ledger(bob, topic, timeout_s=TIMEOUT_S) as blind:
        assert isinstance(refused(blind.list), NotAuthorized)
