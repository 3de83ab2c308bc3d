"""What a move of a classic Kafka Streams application to a streams group would cost; no broker."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kgroup.groups.migration.check import CheckStatus, MigrationCheck, ReadinessResult
from kgroup.groups.migration.readiness import assess_readiness
from kgroup.queries.migration_data import load_rules
from tests.helpers.cases.migration import EMPTY, TO_CLASSIC, TO_CONSUMER, broker, group, member, past, past_member

OK, INFO, UNKNOWN, WARNING = CheckStatus.OK, CheckStatus.INFO, CheckStatus.UNKNOWN, CheckStatus.WARNING
IDS = ["kind", "streams-protocol", "streams-restart", "streams-settings"]


def checks(*instances: str | None, was: str | None = None, **facts: Any) -> dict[str, MigrationCheck]:
    """Of an application with these members, by id; ``was`` is the instance id of a former one."""
    threads = [member(f"counts-{at}", instance=each) for at, each in enumerate(instances)]
    evidence = replace(
        broker(EMPTY, **{"streams_version": 1} | facts),
        group=group(*threads, assignor="stream", name="counts"),
        past=past(past_member(instance=was, session_ms=30_000)),
    )
    readiness = assess_readiness(evidence, TO_CONSUMER, load_rules())
    assert (readiness.result, readiness.reason) == (ReadinessResult.BLOCKED, "owned by Kafka Streams")
    return {check.id: check for check in readiness.checks}


@pytest.mark.parametrize(
    ("facts", "status", "said"),
    [
        ({}, OK, "KAFKA-20254) is not in them"),
        ({"release": "4.3"}, OK, "brokers of 4.3"),
        ({"release": "4.2"}, WARNING, "4.2.0 fails to load"),
        ({"release": "4.1"}, WARNING, "came with 4.2"),
        ({"release": "4.2", "streams_version": 0}, WARNING, "streams.version is 0"),
        ({"rebalance_protocols": ("classic", "consumer")}, WARNING, "leaves streams groups out"),
        ({"release": None}, UNKNOWN, "not known"),
    ],
)
def test_brokers(facts: dict[str, Any], status: CheckStatus, said: str) -> None:
    check = checks(**facts)["streams-protocol"]
    assert check.status is status
    assert said in check.evidence


def test_all_members_have_to_stop() -> None:
    assert checks()["streams-restart"].status is OK
    live = checks(None, None)["streams-restart"]
    assert (live.status, live.remedy) == (WARNING, "kgroup wait counts --for empty")
    assert "2 members" in live.evidence


@pytest.mark.parametrize(
    ("instances", "was", "release", "status"),
    [
        ((None,), None, "4.3", None),
        (("i-0",), None, "4.3", WARNING),
        ((), "i-0", "4.3", WARNING),
        (("i-0",), None, "4.4", INFO),
    ],
)
def test_instance_ids(
    instances: tuple[str | None, ...], was: str | None, release: str, status: CheckStatus | None
) -> None:
    found = checks(*instances, was=was, release=release).get("streams-static-members")
    assert (found.status if found else None) is status


def test_what_is_kept_and_what_is_ignored() -> None:
    check = checks(release="4.3")["streams-settings"]
    assert "session.timeout.ms (was 30000 ms)" in check.evidence
    assert "no warm-up tasks before Kafka 4.4" in check.evidence
    assert "no warm-up tasks" not in checks()["streams-settings"].evidence
    assert list(checks()) == IDS


@pytest.mark.parametrize("kind", ["streams", "share"])
def test_others_are_not_asked_about_it(kind: str) -> None:
    other = replace(EMPTY, kind=kind, group=group(kind=kind, protocol_type=kind))
    assert [check.id for check in assess_readiness(other, TO_CONSUMER, load_rules()).checks] == ["kind"]
    back = replace(EMPTY, group=group(assignor="stream"))
    assert [check.id for check in assess_readiness(back, TO_CLASSIC, load_rules()).checks] == ["kind"]
