"""What brokers say of themselves, and of who may do what: the shared one, one without the new protocol, older ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from kafka.admin import ACLOperation, ResourceType
from kafka.protocol.metadata import ApiVersionsResponse

from kgroup.cluster.acls import access
from kgroup.cluster.broker_facts import broker_facts, features_of, release_of, settings_of
from kgroup.cluster.configs import group_configs, set_configs
from kgroup.cluster.writes import ChangingCluster
from kgroup.model.migration_facts import Access, BrokerFacts, ConfigBounds, PrincipalWithoutDescribe
from kgroup.sandbox import Sandbox
from kgroup.settings.connection import Connection
from kgroup.settings.sources import resolve
from kgroup.support.errors import NotAuthorized
from tests.conftest import BROKER_PROPERTIES
from tests.helpers.access_rules import rule, rules_admin, set_rules
from tests.helpers.command_line import QuietReporter
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

SESSION = "consumer.session.timeout.ms"
KAFKAS_OWN = "org.apache.kafka.coordinator.group.assignor"
BOB = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "bob",
    "sasl.password": "bob-secret",
}


@contextmanager
def connected(bootstrap: str, flags: Mapping[str, str] | None = None) -> Iterator[ChangingCluster]:
    given = [f"{key}={value}" for key, value in (flags or {}).items()]
    settings = resolve(Connection(bootstrap_server=bootstrap, property=given), QuietReporter(), environ={})
    with ChangingCluster(settings) as cluster:
        yield cluster


def facts_of(bootstrap: str) -> BrokerFacts:
    with connected(bootstrap) as cluster:
        (number,) = (group.coordinator.id for group in cluster.list_groups().groups[:1] if group.coordinator)
        found = cluster.ask(broker_facts, [number, number])
        assert list(found) == [number]
        return found[number]


def test_the_shared_broker(bootstrap: str, bystander: str) -> None:
    assert facts_of(bootstrap) == BrokerFacts(
        serves_consumer=True,
        group_version=1,
        streams_version=1,
        rebalance_protocols=("classic", "consumer", "streams"),
        heartbeat_version=1,
        release="4.4",
        kraft=True,
        policy="BIDIRECTIONAL",
        assignors=("uniform", "range"),
        consumer_max_size=2**31 - 1,
        classic_max_size=2**31 - 1,
        session=ConfigBounds(15_000, 1000, 60_000),
        heartbeat=ConfigBounds(100, 100, 15_000),
        classic_session=ConfigBounds(500, 500, 1_800_000),
        offsets_retention_ms=7 * 24 * 3_600_000,
        transaction_max_ms=15 * 60_000,
        unread={},
    )


def test_a_broker_that_is_not_there(bootstrap: str) -> None:
    with connected(bootstrap) as cluster:
        facts = cluster.ask(broker_facts, [4711])[4711]
    assert facts.serves_consumer is None
    assert set(facts.unread) == set(BrokerFacts.__slots__) - {"unread"}
    assert set(facts.unread.values()) == {"broker 4711 is gone"}


@dataclass(frozen=True, slots=True)
class Without:
    """A broker whose feature is off, with settings of its own, and ACLs; ``bob_s`` is for a user without rights."""

    bootstrap: str
    bob_s: str
    world: KafkaWorld


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Without]:
    sandbox = Sandbox(tmp_path_factory.mktemp("without"))
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    properties = BROKER_PROPERTIES | {
        "group.consumer.migration.policy": "upgrade",
        "group.coordinator.rebalance.protocols": "classic,consumer",
        "group.consumer.assignors": f"{KAFKAS_OWN}.RangeAssignor",
        "group.max.size": "7",
        "group.consumer.max.size": "5",
        "offsets.retention.minutes": "1",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "listener.name.bobs.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.bobs.plain.sasl.jaas.config": f'{login} user_bob="bob-secret";',
    }
    try:
        status = sandbox.up(
            properties=properties,
            listeners={"BOBS": "SASL_PLAINTEXT"},
            format_arguments=("--feature", "group.version=0"),
            reporter=QuietReporter(),
        )
        assert status.bootstrap_servers
        with KafkaWorld(status.bootstrap_servers) as world:
            world.commit("svc", {(world.topic("orders"), 0): 1})
            yield Without(status.bootstrap_servers, status.listeners["BOBS"], world)
    finally:
        sandbox.down(wipe=True, reporter=QuietReporter())


def test_a_broker_with_settings_of_its_own_and_without_the_new_protocol(without: Without) -> None:
    facts = facts_of(without.bootstrap)
    assert (facts.serves_consumer, facts.group_version, facts.heartbeat_version) == (False, 0, 1)
    assert facts.rebalance_protocols == ("classic", "consumer")
    assert (facts.policy, facts.assignors) == ("UPGRADE", ("range",))
    assert (facts.consumer_max_size, facts.classic_max_size, facts.offsets_retention_ms) == (5, 7, 60_000)
    assert facts.unread == {}


def test_a_broker_without_the_new_protocol_converts_nothing(without: Without) -> None:
    with connected(without.bootstrap) as cluster:
        error = cluster.convert({"svc": "consumer"})["svc"]
        assert error is not None
        assert error.code == "protocol-unavailable"
        assert without.world.groups()["svc"] == ("classic", "empty")
        assert cluster.convert({"svc": "classic"}) == {"svc": None}


def test_a_user_without_rights_is_told_which_it_lacks(without: Without) -> None:
    with connected(without.bob_s, BOB) as cluster:
        facts = cluster.ask(broker_facts, [1])[1]
        assert (facts.serves_consumer, facts.group_version, facts.release) == (False, 0, "4.4")
        assert facts.policy is None
        assert facts.unread["policy"] == (
            "no DESCRIBE_CONFIGS on the Cluster: "
            f"kafka-acls.sh --bootstrap-server {without.bob_s} --command-config FILE "
            "--add --allow-principal User:bob --operation DescribeConfigs --cluster"
        )
        refusals = {
            "--operation Describe --cluster": cluster.ask(access, {"svc": ["orders"]}),
            "--operation DescribeConfigs --group svc": cluster.ask(group_configs, ["svc"])["svc"],
            "--operation AlterConfigs --group svc": cluster.ask(set_configs, {"svc": {SESSION: "45000"}})["svc"],
            "--operation Describe --group svc": cluster.convert({"svc": "consumer"})["svc"],
        }
    for right, error in refusals.items():
        assert isinstance(error, NotAuthorized)
        assert error.hint
        assert error.hint.endswith(right)


def test_without_an_authorizer_everybody_may_do_everything(bootstrap: str) -> None:
    with connected(bootstrap) as cluster:
        assert cluster.ask(access, {"svc": ["orders"]}) == {"svc": Access(authorizer=False)}


def test_who_reads_a_group_but_may_not_see_all_its_topics(without: Without) -> None:
    rules = [
        rule(ACLOperation.READ, ResourceType.GROUP, "pay-", "alice", prefixed=True),
        rule(ACLOperation.WRITE, ResourceType.TOPIC, "orders", "alice"),
        rule(ACLOperation.ALL, ResourceType.GROUP, "pay-svc", "carol"),
        rule(ACLOperation.READ, ResourceType.TOPIC, "*", "carol"),
    ]
    with rules_admin(without.bootstrap) as admin:
        set_rules(admin, rules, beside=True)
    expected = {
        "pay-svc": Access(authorizer=True, blind=(PrincipalWithoutDescribe("User:alice", ("payments",)),)),
        "other": Access(authorizer=True),
    }
    with connected(without.bootstrap) as cluster:
        topics = ["orders", "payments"]
        wait_for(lambda: cluster.ask(access, {"pay-svc": topics, "other": topics}) == expected, "the rules")


@pytest.mark.parametrize(
    ("level", "release"),
    [(1, "3.3"), (14, "3.6"), (15, "3.7"), (19, "3.7"), (20, "3.8"), (21, "3.9"), (25, "4.0"), (27, "4.1"),
     (29, "4.2"), (30, "4.3"), (31, "4.4"), (33, "4.4"), (34, "4.4 or newer"), (200, "4.4 or newer")],
)  # fmt: skip
def test_the_release_of_a_metadata_version(level: int, release: str) -> None:
    assert release_of(level) == release


def test_a_broker_before_kraft_or_behind_an_old_proxy_names_no_features() -> None:
    row = ApiVersionsResponse.ApiVersion(api_key=68, min_version=0, max_version=0)
    answer = ApiVersionsResponse(
        error_code=0, api_keys=[row], throttle_time_ms=0, supported_features=[], finalized_features=[]
    )
    found, unread = features_of(answer)
    assert found == {"heartbeat_version": 0, "kraft": False}
    assert set(unread) == {"group_version", "release"}
    answer.api_keys = []
    assert features_of(answer)[0] == {"heartbeat_version": None, "kraft": False}


def test_settings_that_a_broker_does_not_have_or_writes_otherwise() -> None:
    found, unread = settings_of(
        {
            "group.consumer.assignors": f"com.acme.OwnAssignor, {KAFKAS_OWN}.UniformAssignor",
            "group.coordinator.rebalance.protocols": "classic",
            "group.max.size": "many",
            "offsets.retention.minutes": "10",
            "group.consumer.session.timeout.ms": "45000",
        }
    )
    assert found == {
        "assignors": ("com.acme.OwnAssignor", "uniform"),
        "rebalance_protocols": ("classic",),
        "offsets_retention_ms": 600_000,
    }
    assert unread["classic_max_size"] == "group.max.size=many is not understood"
    assert unread["session"] == "the broker has no setting group.consumer.min.session.timeout.ms"
    assert unread["policy"] == "the broker has no setting group.consumer.migration.policy"
