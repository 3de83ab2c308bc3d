"""What deals out the partitions on either side; the steps of a rollout."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.migration import about_assignors
from kgroup.groups.migration.about_assignors import client_assignors, server_assignor
from kgroup.groups.migration.check import CheckStatus
from kgroup.groups.migration.evidence import MigrationEvidence, MigrationRequest
from kgroup.groups.migration.known_versions import MigrationRules
from kgroup.groups.migration.readiness import assess_readiness
from kgroup.groups.migration.rollout import rolling_steps
from kgroup.model.migration_facts import GroupPast
from tests.helpers.cases.migration import (
    EMPTY,
    EMPTY_CONSUMER,
    LIVE,
    LIVE_CONSUMER,
    MIXED,
    TO_CLASSIC,
    TO_CONSUMER,
    broker,
    case,
    group,
    member,
    past,
    past_member,
)

PACKAGE = "org.apache.kafka.clients.consumer"


@pytest.mark.parametrize(
    ("given", "mapped"),
    [
        ("range", "range"),
        ("roundrobin", "uniform"),
        ("sticky", "uniform"),
        ("cooperative-sticky", "uniform"),
        (f"{PACKAGE}.RangeAssignor", "range"),
        (f"{PACKAGE}.RoundRobinAssignor", "uniform"),
        (f"{PACKAGE}.StickyAssignor", "uniform"),
        (f"{PACKAGE}.CooperativeStickyAssignor", "uniform"),
        # The first of a list is the one that members vote for.
        (f"{PACKAGE}.RangeAssignor,{PACKAGE}.CooperativeStickyAssignor", "range"),
        (f"[class {PACKAGE}.RangeAssignor]", None),
        (f"[{PACKAGE}.CooperativeStickyAssignor, {PACKAGE}.RangeAssignor]", "uniform"),
        ("range,roundrobin", "range"),
        (" roundrobin , range ", "uniform"),
        ("com.acme.Geo", None),
        ("com.acme.Geo,range", None),
        ("com.acme.RangeAssignor", None),
        ("RANGE", None),
        ("", None),
    ],
)
def test_the_way_there(given: str, mapped: str | None) -> None:
    assert server_assignor(given) == mapped


@pytest.mark.parametrize(
    ("given", "mapped"),
    [
        ("uniform", ("cooperative-sticky",)),
        ("range", ("range",)),
        ("org.apache.kafka.coordinator.group.assignor.UniformAssignor", ("cooperative-sticky",)),
        ("org.apache.kafka.coordinator.group.assignor.RangeAssignor", ("range",)),
        ("com.acme.Geo", ()),
        ("", ()),
    ],
)
def test_the_way_back(given: str, mapped: tuple[str, ...]) -> None:
    assert client_assignors(given) == mapped
    assert all(server_assignor(name) for name in mapped)


def uses(assignor: str | None, last: str | None = None) -> MigrationEvidence:
    return replace(LIVE, group=replace(LIVE.group, assignor=assignor), past=past(assignor=last))


@pytest.mark.parametrize(
    ("evidence", "status", "brief", "said"),
    [
        (uses("cooperative-sticky"), CheckStatus.OK, None, "cooperative-sticky becomes uniform, the default"),
        (uses("range"), CheckStatus.OK, None, "range becomes range"),
        (uses("com.acme.Geo"), CheckStatus.BLOCKED, "assignor com.acme.Geo", "custom assignor com.acme.Geo"),
        (uses(None, "roundrobin"), CheckStatus.OK, None, "roundrobin (last generation) becomes uniform"),
        (uses(None, "com.acme.Geo"), CheckStatus.BLOCKED, "assignor com.acme.Geo", "com.acme.Geo (last generation)"),
        # The members' own word counts more than the log's.
        (uses("range", "com.acme.Geo"), CheckStatus.OK, None, "range becomes range"),
        (uses(None), CheckStatus.UNKNOWN, None, "not known"),
        (replace(EMPTY, past=None), CheckStatus.UNKNOWN, None, "not known"),
        (
            replace(EMPTY, past=past(assignor="sticky")),
            CheckStatus.OK,
            None,
            "sticky (last generation) becomes uniform",
        ),
        (broker(uses("range"), assignors=("uniform",)), CheckStatus.WARNING, "assignor range not offered", "uniform)"),
        (broker(uses("range"), assignors=()), CheckStatus.WARNING, "assignor range not offered", "none)"),
        (broker(uses("range"), assignors=None), CheckStatus.UNKNOWN, None, "could not be read"),
        (
            broker(uses("range"), assignors=("org.apache.kafka.coordinator.group.assignor.RangeAssignor",)),
            CheckStatus.OK,
            None,
            "the default",
        ),
        (MIXED, CheckStatus.OK, None, "the brokers' own: uniform"),
    ],
)
def test_assignors(evidence: MigrationEvidence, status: CheckStatus, brief: str | None, said: str) -> None:
    check = about_assignors.assignors(case(evidence))

    assert check is not None
    assert (check.status, check.brief) == (status, brief), check.evidence
    assert said in check.evidence


def test_what_there_is_instead_of_a_custom_assignor() -> None:
    check = about_assignors.assignors(case(uses("com.acme.Geo")))

    assert check is not None
    assert check.remedy
    for word in ("uniform", "range", "group.remote.assignor", "ConsumerGroupPartitionAssignor"):
        assert word in check.remedy


def test_the_setting_that_keeps_range_is_named() -> None:
    check = about_assignors.assignors(case(uses("range")))

    assert check is not None
    assert check.remedy == "group.remote.assignor=range in the client: the default is uniform"


@pytest.mark.parametrize(
    ("evidence", "status", "said"),
    [
        (
            LIVE_CONSUMER,
            CheckStatus.OK,
            "uniform becomes the client's: partition.assignment.strategy=cooperative-sticky",
        ),
        (
            replace(LIVE_CONSUMER, group=group(kind="consumer", assignor="range")),
            CheckStatus.OK,
            "strategy=range",
        ),
        (
            replace(LIVE_CONSUMER, group=group(kind="consumer", assignor="com.acme.Geo")),
            CheckStatus.WARNING,
            "com.acme.Geo",
        ),
        (
            replace(LIVE_CONSUMER, group=group(kind="consumer")),
            CheckStatus.UNKNOWN,
            "the clients choose",
        ),
    ],
)
def test_assignors_on_the_way_back(evidence: MigrationEvidence, status: CheckStatus, said: str) -> None:
    check = about_assignors.assignors(case(evidence, TO_CLASSIC))

    assert check is not None
    assert check.status is status
    assert said in check.evidence


CARRYING = replace(LIVE, past=past(past_member(user_data=True), past_member()))


@pytest.mark.parametrize(
    ("evidence", "status", "offline_only"),
    [
        (LIVE, CheckStatus.OK, False),
        (CARRYING, CheckStatus.INFO, True),
        (replace(LIVE, past=None), CheckStatus.UNKNOWN, False),
        (replace(LIVE, past=GroupPast()), CheckStatus.UNKNOWN, False),
    ],
)
def test_user_data(evidence: MigrationEvidence, status: CheckStatus, offline_only: bool) -> None:
    check = about_assignors.user_data(case(evidence))

    assert check is not None
    assert (check.status, check.offline_only) == (status, offline_only)


@pytest.mark.parametrize(
    ("evidence", "wanted"),
    [
        (EMPTY, TO_CONSUMER),
        (replace(EMPTY, past=CARRYING.past), TO_CONSUMER),
        (MIXED, TO_CONSUMER),
        (LIVE_CONSUMER, TO_CLASSIC),
    ],
)
def test_user_data_matters_only_to_a_live_classic_group(evidence: MigrationEvidence, wanted: MigrationRequest) -> None:
    assert about_assignors.user_data(case(evidence, wanted)) is None


def steps_of(evidence: MigrationEvidence, wanted: MigrationRequest) -> tuple[str, ...]:
    return rolling_steps(evidence, wanted, assess_readiness(evidence, wanted, MigrationRules()).how)


def test_the_steps_of_an_upgrade() -> None:
    steps = steps_of(LIVE, TO_CONSUMER)

    assert [step[:3] for step in steps] == ["1. ", "2. ", "3. ", "4. "]
    assert "group.protocol=consumer and group.remote.assignor=range" in steps[0]
    assert "remove session.timeout.ms, heartbeat.interval.ms and partition.assignment.strategy" in steps[0]
    assert "The first one converts the group" in steps[1]
    assert steps[2].endswith("kgroup migrate pay-svc --watch")
    assert "restart them one by one with the old configuration" in steps[3]


def test_the_steps_of_an_upgrade_that_has_begun_name_who_is_left() -> None:
    steps = steps_of(MIXED, TO_CONSUMER)

    assert "Restart those that are left (b, c) one by one" in steps[1]
    assert "converts" not in steps[1]


def test_static_members_stop_before_their_successors_start() -> None:
    static = replace(LIVE, group=group(member("a", instance="pay-0")))

    assert "each stopped before its successor starts" in steps_of(static, TO_CONSUMER)[1]
    assert "waiting until each has its partitions" in steps_of(LIVE, TO_CONSUMER)[1]


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("BIDIRECTIONAL", "restart them one by one"),
        ("UPGRADE", "stop all of them, and start them with the old configuration (policy UPGRADE has no other way)"),
    ],
)
def test_the_way_back_depends_on_the_policy(policy: str | None, words: str) -> None:
    assert words in steps_of(broker(LIVE, policy=policy), TO_CONSUMER)[-1]


def test_the_way_back_of_a_rollout_whose_policy_is_not_known() -> None:
    assert "stop all of them" in steps_of(broker(MIXED, policy=None), TO_CONSUMER)[-1]


def test_the_steps_of_a_downgrade() -> None:
    steps = steps_of(LIVE_CONSUMER, TO_CLASSIC)

    assert "group.protocol=classic and partition.assignment.strategy=cooperative-sticky" in steps[0]
    assert "remove group.remote.assignor" in steps[0]
    assert steps[-1].endswith("kgroup migrate pay-svc --protocol classic --watch")


@pytest.mark.parametrize(
    ("evidence", "wanted"),
    [
        (EMPTY, TO_CONSUMER),
        (EMPTY_CONSUMER, TO_CLASSIC),
        (LIVE, TO_CLASSIC),
        (LIVE_CONSUMER, TO_CONSUMER),
        (CARRYING, TO_CONSUMER),
        (broker(LIVE, policy="DISABLED"), TO_CONSUMER),
        (broker(LIVE, serves_consumer=False), TO_CONSUMER),
    ],
)
def test_there_are_no_steps_where_nothing_rolls(evidence: MigrationEvidence, wanted: MigrationRequest) -> None:
    assert steps_of(evidence, wanted) == ()
