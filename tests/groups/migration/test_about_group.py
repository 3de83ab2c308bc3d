"""What the group is, who is in it, how its members subscribe."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgroup.groups.migration import about_group
from kgroup.groups.migration.check import Status
from kgroup.groups.migration.evidence import Evidence, Wanted
from kgroup.model.migration_facts import Past
from tests.support.cases.migration import (
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

ACCEPTED = Wanted("consumer", accepted=frozenset({"foreign-owner"}))
HIDDEN = replace(LIVE_CONSUMER, group=replace(LIVE_CONSUMER.group, members=None))


def of_kind(kind: str, protocol_type: str | None) -> Evidence:
    """A group of a kind that is not described."""
    return replace(EMPTY, kind=kind, group=replace(group(kind=kind, protocol_type=protocol_type), members=None))


@pytest.mark.parametrize(
    ("evidence", "status", "brief"),
    [
        (EMPTY, Status.OK, None),
        (LIVE_CONSUMER, Status.OK, None),
        (replace(EMPTY, group=group(protocol_type="")), Status.INFO, None),
        (replace(EMPTY, group=group(protocol_type=None)), Status.UNKNOWN, None),
        (replace(EMPTY, group=group(state="Dead", protocol_type="")), Status.BLOCKED, "no such group"),
        (replace(EMPTY, group=group(protocol_type="connect")), Status.BLOCKED, "owned by Kafka Connect"),
        (replace(EMPTY, group=group(protocol_type="sr")), Status.BLOCKED, "owned by Schema Registry"),
        (replace(EMPTY, group=group(name="connect-s3")), Status.BLOCKED, "owned by Kafka Connect"),
        (replace(LIVE, group=group(member("x-StreamThread-1-consumer"))), Status.BLOCKED, "owned by Kafka Streams"),
        (replace(LIVE, group=group(member("a"), assignor="stream")), Status.BLOCKED, "owned by Kafka Streams"),
        (of_kind("share", "share"), Status.BLOCKED, "a share group"),
        (of_kind("streams", "streams"), Status.BLOCKED, "owned by Kafka Streams"),
    ],
)
def test_kind(evidence: Evidence, status: Status, brief: str | None) -> None:
    check = about_group.kind(case(evidence))

    assert check is not None
    assert (check.status, check.brief) == (status, brief), check.evidence
    assert check.remedy or status in (Status.OK, Status.UNKNOWN)


@pytest.mark.parametrize(
    ("evidence", "status"),
    [
        (replace(EMPTY, group=group(name="connect-s3")), Status.INFO),
        (replace(EMPTY, group=group(name="connect-s3", protocol_type="connect")), Status.BLOCKED),
        (of_kind("share", "share"), Status.BLOCKED),
        (of_kind("streams", "streams"), Status.BLOCKED),
    ],
)
def test_a_name_alone_can_be_accepted_but_not_what_the_broker_says(evidence: Evidence, status: Status) -> None:
    check = about_group.kind(case(evidence, ACCEPTED))

    assert check is not None
    assert check.status is status


@pytest.mark.parametrize(
    ("evidence", "wanted", "status", "brief"),
    [
        (EMPTY, TO_CONSUMER, Status.INFO, None),
        (LIVE, TO_CONSUMER, Status.INFO, None),
        (EMPTY, TO_CLASSIC, Status.OK, None),
        (LIVE, TO_CLASSIC, Status.OK, None),
        (EMPTY_CONSUMER, TO_CONSUMER, Status.OK, None),
        (LIVE_CONSUMER, TO_CONSUMER, Status.OK, None),
        (LIVE_CONSUMER, TO_CLASSIC, Status.INFO, None),
        (MIXED, TO_CONSUMER, Status.INFO, "2 of 3 members still classic"),
        (MIXED, TO_CLASSIC, Status.INFO, "2 of 3 members already classic"),
        (HIDDEN, TO_CONSUMER, Status.UNKNOWN, "live; its members may not be seen"),
        (HIDDEN, TO_CLASSIC, Status.INFO, None),
    ],
)
def test_already_there(evidence: Evidence, wanted: Wanted, status: Status, brief: str | None) -> None:
    check = about_group.already_there(case(evidence, wanted))

    assert check is not None
    assert (check.status, check.brief) == (status, brief)


def test_members_are_named() -> None:
    def said(evidence: Evidence) -> str:
        check = about_group.members(case(evidence))
        assert check is not None
        return f"{check.status}: {check.evidence}"

    five = replace(LIVE, group=group(*(member(name) for name in "abcde")))
    assert said(EMPTY) == "ok: Empty"
    assert said(LIVE) == "info: 2 members: a, b"
    assert said(five) == "info: 5 members: a, b, c and 2 more"
    hidden = replace(LIVE, group=replace(LIVE.group, members=None), unread={"members": "no DESCRIBE"})
    assert said(hidden) == "unknown: Stable, but its members may not be seen (no DESCRIBE)"


OLD_FOUR = past(*(past_member() for _ in range(4)))


@pytest.mark.parametrize(
    ("evidence", "wanted", "status", "brief"),
    [
        (LIVE, TO_CONSUMER, Status.OK, None),
        (broker(LIVE, consumer_max_size=None), TO_CONSUMER, Status.UNKNOWN, None),
        (broker(LIVE, consumer_max_size=1), TO_CONSUMER, Status.BLOCKED, "2 members > 1"),
        (broker(LIVE, consumer_max_size=2), TO_CONSUMER, Status.OK, None),
        (broker(LIVE, classic_max_size=1), TO_CONSUMER, Status.OK, None),
        (broker(LIVE_CONSUMER, classic_max_size=1), TO_CLASSIC, Status.BLOCKED, "2 members > 1"),
        (broker(LIVE_CONSUMER, consumer_max_size=1), TO_CLASSIC, Status.OK, None),
        (broker(replace(EMPTY, past=OLD_FOUR), consumer_max_size=3), TO_CONSUMER, Status.WARNING, "4 members > 3"),
        (broker(replace(EMPTY, past=OLD_FOUR), consumer_max_size=4), TO_CONSUMER, Status.OK, None),
        (broker(replace(EMPTY, past=None), consumer_max_size=3), TO_CONSUMER, Status.UNKNOWN, None),
        (broker(replace(EMPTY, past=Past()), consumer_max_size=3), TO_CONSUMER, Status.UNKNOWN, None),
    ],
)
def test_group_size(evidence: Evidence, wanted: Wanted, status: Status, brief: str | None) -> None:
    check = about_group.group_size(case(evidence, wanted))

    assert check is not None
    assert (check.status, check.brief) == (status, brief), check.evidence
    assert not check.offline_only


def test_a_full_group_of_static_members_moves_only_offline() -> None:
    """The coordinator counts a successor before it sees whose place it takes (KAFKA-20601)."""
    full = broker(replace(LIVE, group=group(member("a", instance="a"), assignor="range")), consumer_max_size=1)

    check = about_group.group_size(case(full))

    assert check is not None
    assert (check.status, check.offline_only) == (Status.INFO, True)


STATIC = replace(LIVE, group=group(member("a", instance="pay-0"), member("b", instance="pay-1")))
WAS_STATIC = replace(EMPTY, past=past(past_member(instance="pay-0")))


@pytest.mark.parametrize(
    ("evidence", "wanted", "status"),
    [
        (LIVE, TO_CONSUMER, Status.OK),
        (EMPTY, TO_CONSUMER, Status.OK),
        (STATIC, TO_CONSUMER, Status.WARNING),
        (WAS_STATIC, TO_CONSUMER, Status.WARNING),
        (replace(LIVE, past=WAS_STATIC.past), TO_CONSUMER, Status.OK),
        (STATIC, TO_CLASSIC, Status.INFO),
        (replace(EMPTY, past=None), TO_CONSUMER, Status.UNKNOWN),
        (replace(EMPTY, past=Past()), TO_CONSUMER, Status.UNKNOWN),
        (replace(EMPTY, past=Past(complete=True)), TO_CONSUMER, Status.OK),
        (replace(LIVE, group=replace(LIVE.group, members=None), past=None), TO_CONSUMER, Status.UNKNOWN),
    ],
)
def test_static_members(evidence: Evidence, wanted: Wanted, status: Status) -> None:
    check = about_group.static_members(case(evidence, wanted))

    assert check is not None
    assert check.status is status
    assert (check.brief == "static members") is (status is Status.WARNING)


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
        (LIVE, TO_CONSUMER, Status.UNKNOWN, None),
        (EMPTY, TO_CONSUMER, Status.UNKNOWN, None),
        (MIXED_PATTERN, TO_CONSUMER, Status.OK, None),
        (BY_PATTERN, TO_CLASSIC, Status.WARNING, "regex ^orders.*"),
        (LIVE_CONSUMER, TO_CLASSIC, Status.OK, None),
        (EMPTY_CONSUMER, TO_CLASSIC, Status.UNKNOWN, None),
    ],
)
def test_regex(evidence: Evidence, wanted: Wanted, status: Status, brief: str | None) -> None:
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
        (EMPTY, Status.OK),
        (replace(LIVE, group=group(member("a", rack="eu-1"), member("b", rack="eu-2"))), Status.INFO),
        (replace(LIVE, past=past(past_member(rack="eu-1"))), Status.INFO),
        (replace(LIVE, past=None), Status.UNKNOWN),
    ],
)
def test_rack(evidence: Evidence, status: Status) -> None:
    check = about_group.rack(case(evidence))

    assert check is not None
    assert check.status is status
    assert about_group.rack(case(evidence, TO_CLASSIC)) is None
