"""What the brokers offer, allow and are known to do wrong."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kgroup.groups.migration import about_brokers
from kgroup.groups.migration.check import CheckStatus
from kgroup.groups.migration.evidence import MigrationEvidence, MigrationRequest
from kgroup.groups.migration.known_versions import BrokerDefect, Certainty, DefectLevel, MigrationRules
from kgroup.model.kafka_tools import tool_flags
from kgroup.model.migration_facts import Access, BrokerFacts, PrincipalWithoutDescribe
from tests.helpers.cases.migration import (
    EMPTY,
    LIVE,
    LIVE_CONSUMER,
    MIXED,
    TO_CLASSIC,
    TO_CONSUMER,
    broker,
    case,
    group,
    member,
)

REFUSED: dict[str, Any] = {"serves_consumer": False}
ON_ZOOKEEPER: dict[str, Any] = {"heartbeat_version": None, "release": None, "kraft": False, "group_version": 0}


@pytest.mark.parametrize(
    ("facts", "status", "words"),
    [
        ({}, CheckStatus.OK, "available"),
        ({**REFUSED, "group_version": 0}, CheckStatus.BLOCKED, "group.version is 0"),
        (
            {**REFUSED, "rebalance_protocols": ("classic",)},
            CheckStatus.BLOCKED,
            "group.coordinator.rebalance.protocols=classic leaves it out",
        ),
        (
            {**REFUSED, "rebalance_protocols": ("classic",), "group_version": 0},
            CheckStatus.BLOCKED,
            "leaves it out; the feature group.version is 0 (off)",
        ),
        (
            {**REFUSED, "release": "3.9", "heartbeat_version": 0, "group_version": 0},
            CheckStatus.BLOCKED,
            "brokers of 3.9; the protocol came with 4.0",
        ),
        ({**REFUSED, "release": "3.6", "heartbeat_version": None}, CheckStatus.BLOCKED, "brokers of 3.6"),
        ({**REFUSED, "heartbeat_version": None}, CheckStatus.BLOCKED, "a proxy hides it (Conduktor Gateway: "),
        (
            {**REFUSED, "heartbeat_version": None, "release": None},
            CheckStatus.BLOCKED,
            "older than 4.0, or no Apache Kafka",
        ),
        ({**REFUSED, **ON_ZOOKEEPER}, CheckStatus.BLOCKED, "brokers of 3.x on ZooKeeper"),
        (
            {**REFUSED, **ON_ZOOKEEPER, "rebalance_protocols": ("classic",)},
            CheckStatus.BLOCKED,
            "brokers of 3.x on ZooKeeper",
        ),
        ({**REFUSED, **ON_ZOOKEEPER, "group_version": None}, CheckStatus.BLOCKED, "older than 4.0, or no Apache Kafka"),
        (REFUSED, CheckStatus.BLOCKED, "refuse them (UNSUPPORTED_VERSION)"),
        ({"release": "3.9", "heartbeat_version": 0}, CheckStatus.WARNING, "early access"),
        ({"heartbeat_version": 0}, CheckStatus.INFO, "brokers are of 4.4, so it is a proxy (Kroxylicious does so)"),
        ({"heartbeat_version": 0, "release": None}, CheckStatus.INFO, "an old broker or a proxy"),
        # The probe could not be made: the settings tell, or nothing does.
        ({"serves_consumer": None}, CheckStatus.OK, "available"),
        ({"serves_consumer": None, "group_version": 0}, CheckStatus.BLOCKED, "group.version is 0"),
        ({"serves_consumer": None, "rebalance_protocols": ("classic",)}, CheckStatus.BLOCKED, "leaves it out"),
        ({"serves_consumer": None, "group_version": None}, CheckStatus.UNKNOWN, "could not be asked"),
        ({"serves_consumer": None, "release": "3.5", "group_version": None}, CheckStatus.BLOCKED, "brokers of 3.5"),
    ],
)
def test_the_consumer_protocol(facts: dict[str, Any], status: CheckStatus, words: str) -> None:
    check = about_brokers.protocol_available(case(broker(EMPTY, **facts)))

    assert check is not None
    assert check.status is status, check.evidence
    assert words in check.evidence
    if status is CheckStatus.BLOCKED:
        assert check.brief == "no consumer protocol"
        assert check.remedy
        feature_off = "group.version is 0" in check.evidence
        assert ("kafka-features.sh" in check.remedy) is feature_off, "it fails where there is no such feature"


@pytest.mark.parametrize(
    ("protocols", "status"),
    [(("classic", "consumer"), CheckStatus.OK), (None, CheckStatus.OK), (("consumer",), CheckStatus.BLOCKED)],
)
def test_the_classic_protocol(protocols: tuple[str, ...] | None, status: CheckStatus) -> None:
    evidence = broker(LIVE_CONSUMER, rebalance_protocols=protocols, serves_consumer=None)

    check = about_brokers.protocol_available(case(evidence, TO_CLASSIC))

    assert check is not None
    assert check.status is status


@pytest.mark.parametrize(
    ("evidence", "wanted", "policy", "status", "offline_only"),
    [
        (EMPTY, TO_CONSUMER, "DISABLED", CheckStatus.OK, False),
        (EMPTY, TO_CONSUMER, None, CheckStatus.OK, False),
        (LIVE, TO_CONSUMER, "BIDIRECTIONAL", CheckStatus.OK, False),
        (LIVE, TO_CONSUMER, "UPGRADE", CheckStatus.OK, False),
        (LIVE, TO_CONSUMER, "DOWNGRADE", CheckStatus.INFO, True),
        (LIVE, TO_CONSUMER, "DISABLED", CheckStatus.INFO, True),
        (LIVE, TO_CONSUMER, None, CheckStatus.UNKNOWN, True),
        (LIVE_CONSUMER, TO_CLASSIC, "BIDIRECTIONAL", CheckStatus.OK, False),
        (LIVE_CONSUMER, TO_CLASSIC, "DOWNGRADE", CheckStatus.OK, False),
        (LIVE_CONSUMER, TO_CLASSIC, "UPGRADE", CheckStatus.INFO, True),
        (LIVE_CONSUMER, TO_CLASSIC, "DISABLED", CheckStatus.INFO, True),
        (LIVE_CONSUMER, TO_CLASSIC, None, CheckStatus.UNKNOWN, True),
        # A group that has become a consumer group takes more consumer members whatever the policy says now.
        (MIXED, TO_CONSUMER, "DISABLED", CheckStatus.OK, False),
        (MIXED, TO_CLASSIC, "DISABLED", CheckStatus.INFO, True),
    ],
)
def test_migration_policy(
    evidence: MigrationEvidence, wanted: MigrationRequest, policy: str | None, status: CheckStatus, offline_only: bool
) -> None:
    check = about_brokers.migration_policy(case(broker(evidence, policy=policy), wanted))

    assert check is not None
    assert (check.status, check.offline_only) == (status, offline_only), check.evidence
    assert bool(check.brief) is offline_only


STATIC = replace(LIVE_CONSUMER, group=group(member("a", instance="a", protocol="consumer"), kind="consumer"))


@pytest.mark.parametrize(
    ("evidence", "wanted", "release", "policy", "status", "words"),
    [
        (EMPTY, TO_CONSUMER, "4.4", "BIDIRECTIONAL", CheckStatus.OK, "none known for 4.4"),
        (EMPTY, TO_CONSUMER, "4.3", "BIDIRECTIONAL", CheckStatus.INFO, "all of 4.3: the assignment epoch"),
        (EMPTY, TO_CONSUMER, "4.4", "DISABLED", CheckStatus.OK, "none known for 4.4"),
        (EMPTY, TO_CONSUMER, "4.3", "DISABLED", CheckStatus.INFO, "4.3.0: under policy DISABLED"),
        (EMPTY, TO_CONSUMER, "4.2", "BIDIRECTIONAL", CheckStatus.INFO, "all of 4.2: a commit under an epoch"),
        # The patch level can't be read: it may be a good one.
        (EMPTY, TO_CONSUMER, "4.1", "BIDIRECTIONAL", CheckStatus.UNKNOWN, "4.1.0 and 4.1.1: the coordinator may fail"),
        (EMPTY, TO_CONSUMER, "4.0", "BIDIRECTIONAL", CheckStatus.UNKNOWN, "4.0.0 and 4.0.1: the coordinator may fail"),
        (LIVE_CONSUMER, TO_CLASSIC, "4.1", "BIDIRECTIONAL", CheckStatus.INFO, "all of 4.1: turning classic"),
        (STATIC, TO_CLASSIC, "4.1", "BIDIRECTIONAL", CheckStatus.UNKNOWN, "4.1.0: a static member that comes back"),
        (
            EMPTY,
            TO_CLASSIC,
            "4.0",
            "BIDIRECTIONAL",
            CheckStatus.INFO,
            "4.0.1: a coordinator that has lost its partition",
        ),
        (EMPTY, TO_CLASSIC, "4.1", "BIDIRECTIONAL", CheckStatus.INFO, "4.1.0 and 4.1.1: a coordinator that has lost"),
        (EMPTY, TO_CLASSIC, "4.2", "BIDIRECTIONAL", CheckStatus.OK, "none known for 4.2"),
        (LIVE_CONSUMER, TO_CLASSIC, "4.4", "BIDIRECTIONAL", CheckStatus.INFO, "4.4.0: the coordinator's index"),
        (STATIC, TO_CLASSIC, "4.3", "BIDIRECTIONAL", CheckStatus.INFO, "4.3.0 to 4.3.2: the coordinator's index"),
        (EMPTY, TO_CONSUMER, None, "BIDIRECTIONAL", CheckStatus.UNKNOWN, "release is not known"),
    ],
)
def test_known_defects_of_the_release(
    evidence: MigrationEvidence,
    wanted: MigrationRequest,
    release: str | None,
    policy: str,
    status: CheckStatus,
    words: str,
) -> None:
    check = about_brokers.broker_defects(case(broker(evidence, release=release, policy=policy), wanted))

    assert check is not None
    assert check.status is status, check.evidence
    assert words in check.evidence


def defect(since: str, *fixed_in: str, level: DefectLevel = DefectLevel.WARNING) -> MigrationRules:
    return MigrationRules(
        broker_defects=(
            BrokerDefect(
                id="KAFKA-1",
                what="it breaks",
                since=since,
                fixed_in=fixed_in,
                level=level,
                targets=("consumer",),
                certainty=Certainty.CONFIRMED,
                source="its issue",
            ),
        )
    )


@pytest.mark.parametrize(
    ("release", "rules", "status", "words"),
    [
        ("4.0", defect("4.1.0", "4.2.0"), CheckStatus.OK, "none known"),
        ("4.1", defect("4.1.0", "4.2.0"), CheckStatus.WARNING, "all of 4.1: it breaks (KAFKA-1)"),
        ("4.2", defect("4.1.0", "4.2.0"), CheckStatus.OK, "none known"),
        ("4.9", defect("4.1.0"), CheckStatus.WARNING, "all of 4.9: it breaks"),
        ("4.1", defect("4.0.0", "4.0.3", "4.2.1"), CheckStatus.WARNING, "all of 4.1"),
        ("4.2", defect("4.0.0", "4.0.3", "4.2.1"), CheckStatus.UNKNOWN, "4.2.0: it breaks"),
        ("4.0", defect("4.0.1", "4.0.3"), CheckStatus.UNKNOWN, "4.0.1 and 4.0.2: it breaks"),
        ("4.0", defect("4.0.0", "4.0.5"), CheckStatus.UNKNOWN, "4.0.0 to 4.0.4: it breaks"),
        ("4.0", defect("4.0.0", "4.0.5", level=DefectLevel.INFO), CheckStatus.INFO, "4.0.0 to 4.0.4: it breaks"),
    ],
)
def test_which_patch_levels_have_a_defect(release: str, rules: MigrationRules, status: CheckStatus, words: str) -> None:
    check = about_brokers.broker_defects(case(broker(EMPTY, release=release), rules=rules))

    assert check is not None
    assert check.status is status, check.evidence
    assert words in check.evidence


BLIND = Access(
    True,
    (PrincipalWithoutDescribe("User:app", ("orders", "audit")), PrincipalWithoutDescribe("User:other", ("audit",))),
)


@pytest.mark.parametrize(
    ("access", "status"),
    [
        (None, CheckStatus.UNKNOWN),
        (Access(authorizer=False), CheckStatus.OK),
        (Access(authorizer=True), CheckStatus.OK),
        (BLIND, CheckStatus.WARNING),
        (Access(True, (PrincipalWithoutDescribe("User:app", ()),)), CheckStatus.WARNING),
    ],
)
def test_topic_describe(access: Access | None, status: CheckStatus) -> None:
    evidence = replace(EMPTY, access=access)

    check = about_brokers.topic_describe(case(evidence))

    assert check is not None
    assert check.status is status
    assert about_brokers.topic_describe(case(evidence, TO_CLASSIC)) is None


def test_who_may_not_describe_what_and_the_command_that_lets_them() -> None:
    check = about_brokers.topic_describe(case(replace(EMPTY, access=BLIND)))

    assert check is not None
    assert "no DESCRIBE: User:app on orders, audit; User:other on audit" in check.evidence
    assert check.brief == "no DESCRIBE for User:app"
    granted = "--add --allow-principal User:app --operation Describe --topic orders"
    assert check.remedy == f"kafka-acls.sh {tool_flags()} {granted}"


def test_why_something_could_not_be_read_is_said() -> None:
    evidence = replace(EMPTY, access=None, unread={"access": "no DESCRIBE on the Cluster"})
    brokers = replace(LIVE, broker=BrokerFacts(unread={"policy": "no DESCRIBE_CONFIGS"}))

    access, policy = about_brokers.topic_describe(case(evidence)), about_brokers.migration_policy(case(brokers))

    assert access is not None
    assert access.evidence == "the ACLs could not be read (no DESCRIBE on the Cluster)"
    assert policy is not None
    assert "(no DESCRIBE_CONFIGS)" in policy.evidence


def test_monitors_weigh_nothing() -> None:
    check = about_brokers.monitors(case(EMPTY))

    assert check is not None
    assert check.status is CheckStatus.INFO
    assert "kafka_exporter: shows no members (confirmed)" in check.evidence
    assert about_brokers.monitors(case(EMPTY, TO_CLASSIC)) is None
    assert about_brokers.monitors(case(EMPTY, rules=MigrationRules())) is None
