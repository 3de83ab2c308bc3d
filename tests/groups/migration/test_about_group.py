"""What the group is, who is in it, how its members subscribe."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.migration import about_group
from kgroup.groups.migration.check import CheckStatus
from kgroup.groups.migration.evidence import MigrationEvidence, MigrationRequest
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

ACCEPTED = MigrationRequest("consumer", accepted=frozenset({"foreign-owner"}))
HIDDEN = replace(LIVE_CONSUMER, group=replace(LIVE_CONSUMER.group, members=None))


def of_kind(kind: str, protocol_type: str | None) -> MigrationEvidence:
    """A group of a kind that is not described."""
    return replace(EMPTY, kind=kind, group=replace(group(kind=kind, protocol_type=protocol_type), members=None))


@pytest.mark.parametrize(
    ("evidence", "status", "brief"),
    [
        (EMPTY, CheckStatus.OK, None),
        (LIVE_CONSUMER, CheckStatus.OK, None),
        (replace(EMPTY, group=group(protocol_type="")), CheckStatus.INFO, None),
        (replace(EMPTY, group=group(protocol_type=None)), CheckStatus.UNKNOWN, None),
        (
            replace(EMPTY, group=group(state="Dead", protocol_type="")),
            CheckStatus.BLOCKED,
            "no such group",
        ),
        (
            replace(EMPTY, group=group(protocol_type="connect")),
            CheckStatus.BLOCKED,
            "owned by Kafka Connect",
        ),
        (
            replace(EMPTY, group=group(protocol_type="sr")),
            CheckStatus.BLOCKED,
            "owned by Schema Registry",
        ),
        (replace(EMPTY, group=group(name="connect-s3")), CheckStatus.BLOCKED, "owned by Kafka Connect"),
        (
            replace(LIVE, group=group(member("x-StreamThread-1-consumer"))),
            CheckStatus.BLOCKED,
            "owned by Kafka Streams",
        ),
        (
            replace(LIVE, group=group(member("a"), assignor="stream")),
            CheckStatus.BLOCKED,
            "owned by Kafka Streams",
        ),
        (of_kind("share", "share"), CheckStatus.BLOCKED, "a share group"),
        (of_kind("streams", "streams"), CheckStatus.BLOCKED, "owned by Kafka Streams"),
    ],
)
def test_kind(evidence: MigrationEvidence, status: CheckStatus, brief: str | None) -> None:
    check = about_group.kind(case(evidence))

    assert check is not None
    assert (check.status, check.brief) == (status, brief), check.evidence
    assert check.remedy or status in (CheckStatus.OK, CheckStatus.UNKNOWN)


@pytest.mark.parametrize(
    ("evidence", "status"),
    [
        (replace(EMPTY, group=group(name="connect-s3")), CheckStatus.INFO),
        (replace(EMPTY, group=group(name="connect-s3", protocol_type="connect")), CheckStatus.BLOCKED),
        (of_kind("share", "share"), CheckStatus.BLOCKED),
        (of_kind("streams", "streams"), CheckStatus.BLOCKED),
    ],
)
def test_a_name_alone_can_be_accepted_but_not_what_the_broker_says(
    evidence: MigrationEvidence, status: CheckStatus
) -> None:
    check = about_group.kind(case(evidence, ACCEPTED))

    assert check is not None
    assert check.status is status


@pytest.mark.parametrize(
    ("evidence", "wanted", "status", "brief"),
    [
        (EMPTY, TO_CONSUMER, CheckStatus.INFO, None),
        (LIVE, TO_CONSUMER, CheckStatus.INFO, None),
        (EMPTY, TO_CLASSIC, CheckStatus.OK, None),
        (LIVE, TO_CLASSIC, CheckStatus.OK, None),
        (EMPTY_CONSUMER, TO_CONSUMER, CheckStatus.OK, None),
        (LIVE_CONSUMER, TO_CONSUMER, CheckStatus.OK, None),
        (LIVE_CONSUMER, TO_CLASSIC, CheckStatus.INFO, None),
        (MIXED, TO_CONSUMER, CheckStatus.INFO, "2 of 3 members still classic"),
        (MIXED, TO_CLASSIC, CheckStatus.INFO, "2 of 3 members already classic"),
        (HIDDEN, TO_CONSUMER, CheckStatus.UNKNOWN, "live; this user may not see its members"),
        (HIDDEN, TO_CLASSIC, CheckStatus.INFO, None),
    ],
)
def test_already_there(
    evidence: MigrationEvidence, wanted: MigrationRequest, status: CheckStatus, brief: str | None
) -> None:
    check = about_group.already_there(case(evidence, wanted))

    assert check is not None
    assert (check.status, check.brief) == (status, brief)


def test_members_are_named() -> None:
    def said(evidence: MigrationEvidence) -> str:
        check = about_group.members(case(evidence))
        assert check is not None
        return f"{check.status}: {check.evidence}"

    five = replace(LIVE, group=group(*(member(name) for name in "abcde")))
    assert said(EMPTY) == "ok: Empty"
    assert said(LIVE) == "info: 2 members: a, b"
    assert said(five) == "info: 5 members: a, b, c and 2 more"
    hidden = replace(LIVE, group=replace(LIVE.group, members=None), unread={"members": "no DESCRIBE"})
    assert said(hidden) == "unknown: Stable, but this user may not see its members (no DESCRIBE)"


OLD_FOUR = past(*(past_member() for _ in range(4)))


@pytest.mark.parametrize(
    ("evidence", "wanted", "status", "brief"),
    [
        (LIVE, TO_CONSUMER, CheckStatus.OK, None),
        (broker(LIVE, consumer_max_size=None), TO_CONSUMER, CheckStatus.UNKNOWN, None),
        (broker(LIVE, consumer_max_size=1), TO_CONSUMER, CheckStatus.BLOCKED, "2 members > 1"),
        (broker(LIVE, consumer_max_size=2), TO_CONSUMER, CheckStatus.OK, None),
        (broker(LIVE, classic_max_size=1), TO_CONSUMER, CheckStatus.OK, None),
        (broker(LIVE_CONSUMER, classic_max_size=1), TO_CLASSIC, CheckStatus.BLOCKED, "2 members > 1"),
        (broker(LIVE_CONSUMER, consumer_max_size=1), TO_CLASSIC, CheckStatus.OK, None),
        (
            broker(replace(EMPTY, past=OLD_FOUR), consumer_max_size=3),
            TO_CONSUMER,
            CheckStatus.WARNING,
            "4 members > 3",
        ),
        (broker(replace(EMPTY, past=OLD_FOUR), consumer_max_size=4), TO_CONSUMER, CheckStatus.OK, None),
        (
            broker(replace(EMPTY, past=None), consumer_max_size=3),
            TO_CONSUMER,
            CheckStatus.UNKNOWN,
            None,
        ),
        (
            broker(replace(EMPTY, past=GroupPast()), consumer_max_size=3),
            TO_CONSUMER,
            CheckStatus.UNKNOWN,
            None,
        ),
    ],
)
def test_group_size(
    evidence: MigrationEvidence, wanted: MigrationRequest, status: CheckStatus, brief: str | None
) -> None:
    check = about_group.group_size(case(evidence, wanted))

    assert check is not None
    assert (check.status, check.brief) == (status, brief), check.evidence
    assert not check.offline_only


@pytest.mark.parametrize(
    ("release", "status"), [("4.3", CheckStatus.INFO), (None, CheckStatus.INFO), ("4.4", CheckStatus.OK)]
)
def test_a_full_group_of_static_members_moves_only_offline_before_4_4(release: str | None, status: CheckStatus) -> None:
    """The coordinator counted a successor before it saw whose place it takes (KAFKA-20601)."""
    live = replace(LIVE, group=group(member("a", instance="a"), assignor="range"))

    check = about_group.group_size(case(broker(live, consumer_max_size=1, release=release)))

    assert check is not None
    assert (check.status, check.offline_only) == (status, status is CheckStatus.INFO)


STATIC = replace(LIVE, group=group(member("a", instance="pay-0"), member("b", instance="pay-1")))
WAS_STATIC = replace(EMPTY, past=past(past_member(instance="pay-0")))


@pytest.mark.parametrize(
    ("evidence", "wanted", "status"),
    [
        (LIVE, TO_CONSUMER, CheckStatus.OK),
        (EMPTY, TO_CONSUMER, CheckStatus.OK),
        (STATIC, TO_CONSUMER, CheckStatus.WARNING),
        (WAS_STATIC, TO_CONSUMER, CheckStatus.WARNING),
        (replace(LIVE, past=WAS_STATIC.past), TO_CONSUMER, CheckStatus.OK),
        (STATIC, TO_CLASSIC, CheckStatus.INFO),
        (replace(EMPTY, past=None), TO_CONSUMER, CheckStatus.UNKNOWN),
        (replace(EMPTY, past=GroupPast()), TO_CONSUMER, CheckStatus.UNKNOWN),
        (replace(EMPTY, past=GroupPast(complete=True)), TO_CONSUMER, CheckStatus.OK),
        (
            replace(LIVE, group=replace(LIVE.group, members=None), past=None),
            TO_CONSUMER,
            CheckStatus.UNKNOWN,
        ),
    ],
)
def test_static_members(evidence: MigrationEvidence, wanted: MigrationRequest, status: CheckStatus) -> None:
    check = about_group.static_members(case(evidence, wanted))

    assert check is not None
    assert check.status is status
    assert (check.brief == "static members") is (status is CheckStatus.WARNING)


def test_the_remedy_for_static_members_is_a_command_that_can_be_pasted() -> None:
    odd = replace(STATIC, group=replace(STATIC.group, name="pay svc"))

    check = about_group.static_members(case(odd))

    assert check is not None
    assert "kgroup evict 'pay svc' --instance ID" in (check.remedy or "")


BY_PATTERN = replace(
    LIVE_CONSUMER, group=group(member("a", protocol="consumer", regex="^orders.*"), kind="consumer", assignor="uniform")
)
MIXED_PATTERN = replace(
    MIXED, group=group(member("a", protocol="consumer", regex="^orders.*"), member("b"), kind="consumer")
)


@pytest.mark.parametrize(
    ("evidence", "wanted", "status", "brief"),
    [
        (LIVE, TO_CONSUMER, CheckStatus.UNKNOWN, None),
        (EMPTY, TO_CONSUMER, CheckStatus.UNKNOWN, None),
        (MIXED_PATTERN, TO_CONSUMER, CheckStatus.OK, None),
        (BY_PATTERN, TO_CLASSIC, CheckStatus.WARNING, "regex ^orders.*"),
        (LIVE_CONSUMER, TO_CLASSIC, CheckStatus.OK, None),
        (EMPTY_CONSUMER, TO_CLASSIC, CheckStatus.UNKNOWN, None),
    ],
)
def test_regex(evidence: MigrationEvidence, wanted: MigrationRequest, status: CheckStatus, brief: str | None) -> None:
    check = about_group.regex(case(evidence, wanted))

    assert check is not None
    assert (check.status, check.brief) == (status, brief)


def test_what_a_pattern_will_mean_is_said_though_none_can_be_seen() -> None:
    check = about_group.regex(case(LIVE))

    assert check is not None
    assert "RE2J, so ^topic no longer matches topic-1" in (check.remedy or "")


@pytest.mark.parametrize(
    ("evidence", "status"),
    [
        (EMPTY, CheckStatus.OK),
        (
            replace(LIVE, group=group(member("a", rack="eu-1"), member("b", rack="eu-2"))),
            CheckStatus.INFO,
        ),
        (replace(LIVE, past=past(past_member(rack="eu-1"))), CheckStatus.INFO),
        (replace(LIVE, past=None), CheckStatus.UNKNOWN),
    ],
)
def test_rack(evidence: MigrationEvidence, status: CheckStatus) -> None:
    check = about_group.rack(case(evidence))

    assert check is not None
    assert check.status is status
    assert about_group.rack(case(evidence, TO_CLASSIC)) is None
