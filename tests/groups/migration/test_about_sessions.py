"""Session timeout and heartbeat interval, as they were and as they will be."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from kgroup.groups.migration import about_sessions
from kgroup.groups.migration.check import CheckStatus, MigrationCheck
from kgroup.groups.migration.evidence import MigrationEvidence, MigrationRequest
from kgroup.model.migration_facts import ConfigBounds, GroupPast
from tests.helpers.cases.migration import (
    EMPTY,
    EMPTY_CONSUMER,
    LIVE,
    TO_CLASSIC,
    TO_CONSUMER,
    broker,
    case,
    past,
    past_member,
)

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def was(*session_ms: int, configs: Mapping[str, str] | None = None) -> MigrationEvidence:
    return replace(EMPTY, past=past(*(past_member(session_ms=ms) for ms in session_ms)), configs=configs or {})


def session(evidence: MigrationEvidence, wanted: MigrationRequest = TO_CONSUMER) -> MigrationCheck:
    check = about_sessions.session(case(evidence, wanted))
    assert check is not None
    return check


def asked(session_ms: int | None = None, heartbeat_ms: int | None = None) -> MigrationRequest:
    return MigrationRequest("consumer", session_ms, heartbeat_ms)


@pytest.mark.parametrize(
    ("evidence", "wanted", "status", "brief", "said"),
    [
        (was(45_000), TO_CONSUMER, CheckStatus.OK, None, "45s as before"),
        (
            was(30_000),
            TO_CONSUMER,
            CheckStatus.WARNING,
            "session timeout 30s < 45s",
            "was 30s in the client, now 45s: the brokers' minimum",
        ),
        (
            was(10_000, 30_000, 10_000),
            TO_CONSUMER,
            CheckStatus.WARNING,
            "session timeout 10s < 45s",
            "was 10s to 30s in the client, now 45s: the brokers' minimum",
        ),
        (
            was(300_000),
            TO_CONSUMER,
            CheckStatus.WARNING,
            "session timeout 5m > 1m",
            "was 5m in the client, now 45s; the brokers' maximum is 1m",
        ),
        (
            was(50_000),
            TO_CONSUMER,
            CheckStatus.WARNING,
            "session timeout 50s -> 45s",
            "was 50s in the client, now 45s: the brokers' default",
        ),
        # Members may differ: what counts is the one that changes.
        (was(30_000, 45_000), TO_CONSUMER, CheckStatus.WARNING, "session timeout 30s < 45s", "was 30s to 45s"),
        (was(45_000, 300_000), TO_CONSUMER, CheckStatus.WARNING, "session timeout 5m > 1m", "was 45s to 5m"),
        (was(45_000, 50_000), TO_CONSUMER, CheckStatus.WARNING, "session timeout 50s -> 45s", "was 45s to 50s"),
        (was(50_000, configs={SESSION: "50000"}), TO_CONSUMER, CheckStatus.OK, None, "50s as before"),
        (
            was(30_000, configs={SESSION: "50000"}),
            TO_CONSUMER,
            CheckStatus.INFO,
            None,
            "was 30s in the client, now 50s: the group's own consumer.session.timeout.ms",
        ),
        (was(50_000), asked(50_000), CheckStatus.OK, None, "50s as before"),
        (was(30_000), asked(50_000), CheckStatus.OK, None, "was 30s in the client, now 50s: as asked for"),
        (was(30_000, configs={SESSION: "55000"}), asked(50_000), CheckStatus.OK, None, "now 50s: as asked for"),
        (was(30_000), asked(60_000), CheckStatus.OK, None, "now 1m: as asked for"),
        (was(30_000), asked(44_999), CheckStatus.BLOCKED, "session timeout 44999ms < 45s", "brokers allow 45s to 1m"),
        (was(30_000), asked(20_000), CheckStatus.BLOCKED, "session timeout 20s < 45s", "--session-timeout 20s"),
        (was(30_000), asked(61_000), CheckStatus.BLOCKED, "session timeout 1m1s > 1m", "brokers allow 45s to 1m"),
        # What is not known is said, and weighs nothing.
        (
            replace(EMPTY, past=None),
            TO_CONSUMER,
            CheckStatus.UNKNOWN,
            None,
            "is 45s on the consumer protocol",
        ),
        (
            replace(EMPTY, past=GroupPast()),
            TO_CONSUMER,
            CheckStatus.UNKNOWN,
            None,
            "is 45s on the consumer protocol",
        ),
        (
            replace(EMPTY, past=None),
            asked(50_000),
            CheckStatus.UNKNOWN,
            None,
            "is 50s on the consumer protocol: as asked",
        ),
        (
            replace(was(30_000), configs=None),
            TO_CONSUMER,
            CheckStatus.UNKNOWN,
            None,
            "it was 30s in the client",
        ),
        (broker(was(30_000), session=None), TO_CONSUMER, CheckStatus.UNKNOWN, None, "it was 30s in the client"),
        (broker(was(30_000), session=None), asked(1), CheckStatus.OK, None, "now 1ms: as asked for"),
        (was(45_000, configs={SESSION: "odd"}), TO_CONSUMER, CheckStatus.OK, None, "45s as before"),
    ],
)
def test_session(
    evidence: MigrationEvidence, wanted: MigrationRequest, status: CheckStatus, brief: str | None, said: str
) -> None:
    check = session(evidence, wanted)

    assert (check.status, check.brief) == (status, brief), check.evidence
    assert said in check.evidence


@pytest.mark.parametrize(
    ("session_ms", "words"),
    [
        (50_000, "--session-timeout 50s (the group config consumer.session.timeout.ms=50000) keeps it"),
        (300_000, "--session-timeout 1m (the group config consumer.session.timeout.ms=60000) is the most"),
        (10_000, "a dead member is noticed after 45s instead of 10s"),
    ],
)
def test_what_keeps_the_old_timeout(session_ms: int, words: str) -> None:
    assert words in (session(was(session_ms)).remedy or "")


def test_the_setting_that_forbids_a_timeout_is_named() -> None:
    low, high = session(was(45_000), asked(20_000)), session(was(45_000), asked(70_000))

    assert "group.consumer.min.session.timeout.ms" in (low.remedy or "")
    assert "group.consumer.max.session.timeout.ms" in (high.remedy or "")


@pytest.mark.parametrize(
    ("evidence", "wanted", "status", "brief", "said"),
    [
        (EMPTY, TO_CONSUMER, CheckStatus.OK, None, "every 5s (the brokers' default), session timeout 45s"),
        (EMPTY, asked(None, 10_000), CheckStatus.OK, None, "every 10s (as asked for)"),
        (EMPTY, asked(None, 15_000), CheckStatus.OK, None, "every 15s"),
        (EMPTY, asked(None, 4_000), CheckStatus.BLOCKED, "heartbeat interval 4s < 5s", "brokers allow 5s to 15s"),
        (EMPTY, asked(None, 16_000), CheckStatus.BLOCKED, "heartbeat interval 16s > 15s", "brokers allow 5s to 15s"),
        (
            replace(EMPTY, configs={HEARTBEAT: "15000"}),
            TO_CONSUMER,
            CheckStatus.OK,
            None,
            "every 15s (the group's own)",
        ),
        (replace(EMPTY, configs=None), TO_CONSUMER, CheckStatus.UNKNOWN, None, "not known"),
        (broker(EMPTY, heartbeat=None), TO_CONSUMER, CheckStatus.UNKNOWN, None, "not known"),
    ],
)
def test_heartbeat(
    evidence: MigrationEvidence, wanted: MigrationRequest, status: CheckStatus, brief: str | None, said: str
) -> None:
    check = about_sessions.heartbeat(case(evidence, wanted))

    assert check is not None
    assert (check.status, check.brief) == (status, brief), check.evidence
    assert said in check.evidence
    assert about_sessions.heartbeat(case(evidence, TO_CLASSIC)) is None


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        (asked(30_000, 10_000), CheckStatus.OK),
        (asked(30_000, 11_000), CheckStatus.WARNING),
        (asked(30_000, 29_999), CheckStatus.WARNING),
        (asked(30_000, 30_000), CheckStatus.BLOCKED),
        (asked(5_000), CheckStatus.BLOCKED),
    ],
)
def test_the_session_timeout_has_to_be_longer_than_the_heartbeat_interval(
    wanted: MigrationRequest, status: CheckStatus
) -> None:
    """Brokers refuse group configs in which it is not (GroupConfig.validateValues)."""
    wide = broker(EMPTY, session=ConfigBounds(45_000, 1_000, 60_000), heartbeat=ConfigBounds(5_000, 1_000, 60_000))

    check = about_sessions.heartbeat(case(wide, wanted))

    assert check is not None
    assert check.status is status, check.evidence


def test_intervals_that_nobody_asked_for_block_nothing() -> None:
    odd = replace(LIVE, configs={SESSION: "45000", HEARTBEAT: "50000"})

    check = about_sessions.heartbeat(case(odd))

    assert check is not None
    assert check.status is CheckStatus.WARNING


@pytest.mark.parametrize(
    ("evidence", "said", "remedy"),
    [
        (
            EMPTY_CONSUMER,
            "45s so far; each client's own session.timeout.ms counts again; brokers allow 6s to 30m",
            None,
        ),
        (
            replace(EMPTY_CONSUMER, configs={SESSION: "60000"}),
            "1m so far; each client's own session.timeout.ms counts again; brokers allow 6s to 30m",
            "session.timeout.ms=60000 in the client keeps it",
        ),
        (
            broker(EMPTY_CONSUMER, session=None, classic_session=None),
            "not known so far; each client's own session.timeout.ms counts again",
            None,
        ),
    ],
)
def test_on_the_way_back_the_clients_own_timeout_counts(
    evidence: MigrationEvidence, said: str, remedy: str | None
) -> None:
    check = session(evidence, TO_CLASSIC)

    assert (check.status, check.evidence, check.remedy) == (CheckStatus.INFO, said, remedy)


@pytest.mark.parametrize("wanted", [MigrationRequest("classic", 45_000), MigrationRequest("classic", None, 5_000)])
def test_a_classic_group_has_no_timeouts_of_its_own(wanted: MigrationRequest) -> None:
    assert session(EMPTY_CONSUMER, wanted).status is CheckStatus.BLOCKED
