"""What the checks of a group come to; what of ignorance never comes; many groups in a few rows."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any, cast

import msgspec.structs
import pytest

from kgroup.groups.migration.check import CheckStatus, MigrationPath, Readiness, ReadinessResult
from kgroup.groups.migration.documents import check_document
from kgroup.groups.migration.evidence import ApplicationClient, MigrationEvidence, MigrationRequest
from kgroup.groups.migration.known_versions import MigrationRules
from kgroup.groups.migration.readiness import (
    CHECKS,
    ReadinessSummary,
    assess_readiness,
    cluster_notes,
    readiness_summary,
    worst_first,
)
from kgroup.groups.migration.rollout import rolling_steps
from kgroup.model.migration_facts import Access, BrokerFacts, GroupPast, PrincipalWithoutDescribe
from kgroup.model.topic_partition import TopicPartition
from kgroup.queries.migration_data import load_rules
from kgroup.support.json_line import plain
from tests.helpers.cases.migration import (
    EMPTY,
    EMPTY_CONSUMER,
    LIVE,
    LIVE_CONSUMER,
    MIXED,
    NOW_MS,
    TO_CLASSIC,
    TO_CONSUMER,
    broker,
    group,
    member,
    past,
    past_member,
)

RULES = load_rules()
USER_DATA = msgspec.structs.replace(LIVE, past=past(past_member(user_data=True)))
SHORT = msgspec.structs.replace(EMPTY, past=past(past_member(session_ms=10_000)))
STATIC = msgspec.structs.replace(LIVE, group=group(member("a", instance="a"), assignor="range"))
BLIND = Access(True, (PrincipalWithoutDescribe("User:app", ("orders",)),))


def judge(evidence: MigrationEvidence, wanted: MigrationRequest = TO_CONSUMER) -> Readiness:
    return assess_readiness(evidence, wanted, RULES)


@pytest.mark.parametrize(
    ("evidence", "wanted", "verdict", "how", "reason", "more"),
    [
        (EMPTY, TO_CONSUMER, ReadinessResult.READY, MigrationPath.NOW, "Empty", 0),
        (EMPTY_CONSUMER, TO_CLASSIC, ReadinessResult.READY, MigrationPath.NOW, "Empty", 0),
        (EMPTY_CONSUMER, TO_CONSUMER, ReadinessResult.DONE, MigrationPath.NONE, "on the consumer protocol already", 0),
        (LIVE_CONSUMER, TO_CONSUMER, ReadinessResult.DONE, MigrationPath.NONE, "on the consumer protocol already", 0),
        (EMPTY, TO_CLASSIC, ReadinessResult.DONE, MigrationPath.NONE, "on the classic protocol already", 0),
        (
            LIVE,
            TO_CONSUMER,
            ReadinessResult.READY,
            MigrationPath.ROLLING,
            "live; online upgrade possible (policy BIDIRECTIONAL)",
            0,
        ),
        (
            LIVE_CONSUMER,
            TO_CLASSIC,
            ReadinessResult.READY,
            MigrationPath.ROLLING,
            "live; online downgrade possible (policy BIDIRECTIONAL)",
            0,
        ),
        (MIXED, TO_CONSUMER, ReadinessResult.READY, MigrationPath.ROLLING, "2 of 3 members still classic", 0),
        (
            USER_DATA,
            TO_CONSUMER,
            ReadinessResult.READY,
            MigrationPath.STOP,
            "live; members carry userData: offline only",
            0,
        ),
        (
            broker(LIVE, policy="DISABLED"),
            TO_CONSUMER,
            ReadinessResult.READY,
            MigrationPath.STOP,
            "live; policy DISABLED: offline only",
            0,
        ),
        (broker(EMPTY, policy="DISABLED"), TO_CONSUMER, ReadinessResult.READY, MigrationPath.NOW, "Empty", 0),
        (
            broker(LIVE, policy=None),
            TO_CONSUMER,
            ReadinessResult.READY,
            MigrationPath.STOP,
            "live; policy not known: stopping it is safe",
            0,
        ),
        (STATIC, TO_CONSUMER, ReadinessResult.WARNING, MigrationPath.ROLLING, "static members", 0),
        (
            broker(STATIC, policy="DISABLED"),
            TO_CONSUMER,
            ReadinessResult.WARNING,
            MigrationPath.STOP,
            "policy DISABLED: offline only; static members",
            0,
        ),
        (SHORT, TO_CONSUMER, ReadinessResult.WARNING, MigrationPath.NOW, "session timeout 10s < 45s", 0),
        (
            msgspec.structs.replace(STATIC, past=SHORT.past, access=BLIND),
            TO_CONSUMER,
            ReadinessResult.WARNING,
            MigrationPath.ROLLING,
            "session timeout 10s < 45s",
            2,
        ),
        (
            broker(msgspec.structs.replace(STATIC, access=BLIND), serves_consumer=False, group_version=0),
            TO_CONSUMER,
            ReadinessResult.BLOCKED,
            MigrationPath.NONE,
            "no consumer protocol",
            2,
        ),
        (
            msgspec.structs.replace(LIVE, group=group(member("a"), assignor="com.acme.Geo")),
            TO_CONSUMER,
            ReadinessResult.BLOCKED,
            MigrationPath.NONE,
            "assignor com.acme.Geo",
            0,
        ),
        (
            msgspec.structs.replace(EMPTY, pending=(TopicPartition("orders", 0),)),
            TO_CONSUMER,
            ReadinessResult.BLOCKED,
            MigrationPath.NONE,
            "pending transaction",
            0,
        ),
        (
            msgspec.structs.replace(EMPTY, clients=(ApplicationClient("sarama", "1.45"),)),
            TO_CONSUMER,
            ReadinessResult.BLOCKED,
            MigrationPath.NONE,
            "sarama: not supported",
            0,
        ),
    ],
)
def test_verdict(
    evidence: MigrationEvidence,
    wanted: MigrationRequest,
    verdict: ReadinessResult,
    how: MigrationPath,
    reason: str | None,
    more: int,
) -> None:
    found = judge(evidence, wanted)

    assert (found.result, found.how, found.reason, found.more) == (verdict, how, reason, more)
    assert found.group == "pay-svc"


def test_of_another_kind_of_group_nothing_else_is_said() -> None:
    workers = msgspec.structs.replace(STATIC, group=group(member("w"), protocol_type="connect"), access=BLIND)

    found = judge(workers)

    assert [check.id for check in found.checks] == ["kind"]
    assert (found.result, found.reason, found.more) == (ReadinessResult.BLOCKED, "owned by Kafka Connect", 0)


@pytest.mark.parametrize(
    ("wanted", "verdict", "ids"),
    [
        (TO_CONSUMER, ReadinessResult.DONE, ["already-there"]),
        (MigrationRequest("consumer", 50_000), ReadinessResult.DONE, ["already-there", "session", "heartbeat"]),
        (MigrationRequest("consumer", 20_000), ReadinessResult.BLOCKED, ["already-there", "session", "heartbeat"]),
    ],
)
def test_a_group_that_is_there_is_only_asked_for_its_timeouts(
    wanted: MigrationRequest, verdict: ReadinessResult, ids: list[str]
) -> None:
    found = judge(EMPTY_CONSUMER, wanted)

    assert [check.id for check in found.checks] == ids
    assert found.result is verdict


def test_a_fresh_group_at_epoch_2_beside_assignment_epoch_1_is_not_rebalancing() -> None:
    fresh = msgspec.structs.replace(
        EMPTY_CONSUMER, group=msgspec.structs.replace(EMPTY_CONSUMER.group, group_epoch=2, assignment_epoch=1)
    )

    for wanted in (TO_CONSUMER, TO_CLASSIC):
        for check in judge(fresh, wanted).checks:
            assert "rebalanc" not in check.evidence
            assert check.status in (CheckStatus.OK, CheckStatus.INFO, CheckStatus.UNKNOWN), check


def everything() -> Iterator[tuple[MigrationEvidence, MigrationRequest]]:
    evidences = (EMPTY, LIVE, EMPTY_CONSUMER, LIVE_CONSUMER, MIXED, STATIC, SHORT, USER_DATA)
    wanted = (TO_CONSUMER, TO_CLASSIC, MigrationRequest("consumer", 50_000, 10_000), MigrationRequest("consumer", 1, 1))
    return itertools.product(evidences, wanted)


@pytest.mark.parametrize(("evidence", "wanted"), list(everything()))
def test_every_check_has_its_row_in_the_table_and_comes_in_order(
    evidence: MigrationEvidence, wanted: MigrationRequest
) -> None:
    table = [subject.id for subject in CHECKS]
    ids = [check.id for check in judge(evidence, wanted).checks]

    assert ids == [known for known in table if known in ids]


def test_the_table_of_checks() -> None:
    assert len({subject.id for subject in CHECKS}) == len(CHECKS) == 25
    for subject in CHECKS:
        assert subject.id == subject.id.lower().replace(" ", "-")
        assert subject.meaning
        assert subject.source
        assert subject.label


# What is not known.

UNKNOWN_BROKER = BrokerFacts()


def without(field: str) -> dict[str, Any]:
    return {field: None}


def blanks(evidence: MigrationEvidence) -> dict[str, list[Any]]:
    """The ways in which parts of the evidence may be missing, by what they are parts of."""
    return {
        "broker": [UNKNOWN_BROKER]
        + [replace(evidence.broker, **without(f.name)) for f in fields(BrokerFacts) if f.name != "unread"],
        "past": [None, GroupPast(), GroupPast(complete=True)],
        "configs": [None],
        "access": [None],
        "group": [
            msgspec.structs.replace(evidence.group, members=None),
            msgspec.structs.replace(evidence.group, assignor=None),
            msgspec.structs.replace(evidence.group, protocol_type=None),
            msgspec.structs.replace(
                evidence.group,
                members=tuple(
                    msgspec.structs.replace(m, protocol=None, subscription=None, assignment=None, rack=None, epoch=None)
                    for m in evidence.group.members or ()
                ),
            ),
        ],
    }


STARTS = [(EMPTY, TO_CONSUMER), (LIVE, TO_CONSUMER), (EMPTY_CONSUMER, TO_CLASSIC), (LIVE_CONSUMER, TO_CLASSIC)]


@pytest.mark.parametrize(("evidence", "wanted"), STARTS)
def test_nothing_that_is_not_known_makes_a_group_less_fit(
    evidence: MigrationEvidence, wanted: MigrationRequest
) -> None:
    assert judge(evidence, wanted).result is ReadinessResult.READY

    for name, values in blanks(evidence).items():
        for value in values:
            found = judge(msgspec.structs.replace(evidence, **{name: value}), wanted)
            assert found.result is ReadinessResult.READY, (name, value, found.reason)


@pytest.mark.parametrize(("evidence", "wanted"), STARTS)
def test_nothing_at_all_is_known(evidence: MigrationEvidence, wanted: MigrationRequest) -> None:
    bare = MigrationEvidence(
        msgspec.structs.replace(evidence.group, members=None, assignor=None, coordinator=None),
        evidence.kind,
        UNKNOWN_BROKER,
        None,
        None,
        None,
        NOW_MS,
    )
    found = assess_readiness(bare, wanted, MigrationRules())

    assert found.result is ReadinessResult.READY
    assert found.how in (MigrationPath.NOW, MigrationPath.STOP)
    assert found.reason
    assert rolling_steps(bare, wanted, found.how) == ()


def test_any_mixture_of_what_is_known_and_not_gives_a_sound_verdict() -> None:
    """2,000 random ones: nothing raises, and what is said keeps to its rules."""
    chance = random.Random(848)
    remarkable = (EMPTY, LIVE, EMPTY_CONSUMER, LIVE_CONSUMER, MIXED, STATIC, SHORT, USER_DATA)
    sessions, beats = (None, None, 0, 20_000, 45_000, 60_000), (None, None, 5_000, 60_000)
    for _ in range(2_000):
        base = chance.choice(remarkable)
        parts = {name: chance.choice([getattr(base, name), *values]) for name, values in blanks(base).items()}
        evidence = msgspec.structs.replace(
            base,
            **parts,
            kind=chance.choice(["classic", "consumer", "share", "streams"]),
            gone=chance.choice([(), ("audit",)]),
            pending=chance.choice([(), (), (TopicPartition("orders", 0),)]),
            clients=chance.choice([(), (), (ApplicationClient("java", "4.0"),), (ApplicationClient("nobody", "x"),)]),
            unread=chance.choice([{}, {"past": "no DESCRIBE"}]),
        )
        evidence = msgspec.structs.replace(
            evidence,
            group=msgspec.structs.replace(
                evidence.group, state=chance.choice(["Empty", "Stable", "PreparingRebalance", "Dead"])
            ),
        )
        target = chance.choice(["consumer", "classic"])
        wanted = MigrationRequest(cast(Any, target), chance.choice(sessions), chance.choice(beats))
        rules = chance.choice([RULES, MigrationRules()])
        found = assess_readiness(evidence, wanted, rules)
        check_sound(evidence, found)
        assert bool(rolling_steps(evidence, wanted, found.how)) is (found.how is MigrationPath.ROLLING)


def check_sound(evidence: MigrationEvidence, found: Readiness) -> None:
    statuses = [check.status for check in found.checks]
    heavy = [check for check in found.checks if check.status in (CheckStatus.BLOCKED, CheckStatus.WARNING)]
    assert found.checks
    assert found.reason
    assert (found.result is ReadinessResult.BLOCKED) is (CheckStatus.BLOCKED in statuses)
    assert (found.how is MigrationPath.NONE) is (found.result in (ReadinessResult.BLOCKED, ReadinessResult.DONE))
    assert found.more == max(0, len(heavy) - 1)
    for check in found.checks:
        assert check.evidence
        assert check.source
        if check in heavy or check.offline_only:
            assert check.brief, check
            assert check.remedy, check
            assert len(check.brief) <= 40, check.brief
    if found.how is MigrationPath.ROLLING:
        assert evidence.group.state not in ("Empty", "Dead") or evidence.group.members
        assert not any(check.offline_only for check in found.checks)
    if found.how is MigrationPath.NOW:
        assert not evidence.group.members


# Many groups.


def named(evidence: MigrationEvidence, name: str) -> MigrationEvidence:
    return msgspec.structs.replace(evidence, group=msgspec.structs.replace(evidence.group, name=name))


def connect(name: str) -> MigrationEvidence:
    return msgspec.structs.replace(EMPTY, group=group(protocol_type="connect", name=name))


def fleet() -> list[Readiness]:
    share = msgspec.structs.replace(
        EMPTY, kind="share", group=msgspec.structs.replace(group(kind="share", name="s"), members=None)
    )
    custom = msgspec.structs.replace(LIVE, group=group(member("a"), assignor="com.acme.Geo", name="geo-router"))
    regex = named(
        msgspec.structs.replace(
            STATIC, access=BLIND, group=msgspec.structs.replace(STATIC.group, members=LIVE.group.members)
        ),
        "orders",
    )
    return [
        judge(found)
        for found in (
            named(LIVE, "pay-svc"),
            named(EMPTY, "nightly-report"),
            named(STATIC, "b-static"),
            named(STATIC, "a-static"),
            regex,
            connect("connect-b"),
            custom,
            connect("connect-a"),
            share,
            named(EMPTY_CONSUMER, "done"),
            named(
                msgspec.structs.replace(
                    USER_DATA, group=msgspec.structs.replace(STATIC.group, members=STATIC.group.members)
                ),
                "ledger-writer",
            ),
            named(EMPTY, "another-report"),
            named(broker(LIVE, policy="UPGRADE"), "upgrade"),
            named(MIXED, "mixed"),
            named(MIXED, "mixed-too"),
        )
    ]


def test_the_summary_of_a_fleet() -> None:
    assert readiness_summary(fleet()) == (
        ReadinessSummary(ReadinessResult.DONE, MigrationPath.NONE, 1, "on the consumer protocol already"),
        ReadinessSummary(ReadinessResult.READY, MigrationPath.NOW, 2, "Empty"),
        ReadinessSummary(
            ReadinessResult.READY,
            MigrationPath.ROLLING,
            4,
            "rollout under way (2), live; online upgrade possible (policy BIDIRECTIONAL) (1), "
            "live; online upgrade possible (policy UPGRADE) (1)",
        ),
        ReadinessSummary(ReadinessResult.WARNING, MigrationPath.ROLLING, 3, "static members (2), topic DESCRIBE (1)"),
        ReadinessSummary(
            ReadinessResult.WARNING,
            MigrationPath.STOP,
            1,
            "members carry userData: offline only; static members",
        ),
        ReadinessSummary(
            ReadinessResult.BLOCKED, MigrationPath.NONE, 4, "Kafka Connect (2), custom assignor (1), share (1)"
        ),
    )
    assert readiness_summary([]) == ()


def test_many_different_reasons_are_cut() -> None:
    many = [judge(msgspec.structs.replace(EMPTY, group=group(protocol_type="connect")))]
    many.append(judge(msgspec.structs.replace(EMPTY, group=group(protocol_type="sr"))))
    many.append(judge(msgspec.structs.replace(EMPTY, group=group(name="spark-kafka-source-1", protocol_type=""))))
    many.append(judge(msgspec.structs.replace(LIVE, group=group(member("a"), assignor="com.acme.Geo"))))
    many.append(judge(msgspec.structs.replace(EMPTY, pending=(TopicPartition("orders", 0),))))

    (row,) = readiness_summary(many)

    assert row.count == 5
    assert row.reason.endswith("others (1)")


def test_the_worst_first_then_what_is_hardest_to_move_then_by_name() -> None:
    assert [item.group for item in worst_first(fleet())] == [
        "connect-a",
        "connect-b",
        "geo-router",
        "s",
        "ledger-writer",
        "a-static",
        "b-static",
        "orders",
        "mixed",
        "mixed-too",
        "pay-svc",
        "upgrade",
        "another-report",
        "nightly-report",
        "done",
    ]


def test_what_is_known_of_the_brokers_can_be_said_once_for_all_groups() -> None:
    notes = cluster_notes(broker(EMPTY, release="4.1"), TO_CONSUMER, RULES)

    assert notes[0].startswith("brokers 4.1.0 and 4.1.1: the coordinator may fail to load")
    assert notes[0].endswith("KAFKA-19862 is fixed in 4.0.2, 4.1.2, 4.2.0")
    assert cluster_notes(EMPTY, TO_CONSUMER, RULES) == ()


def test_the_json_form_of_a_check() -> None:
    readiness = judge(SHORT)

    assert (readiness.result.value, readiness.how.value) == ("warning", "now")
    session = plain(check_document(next(check for check in readiness.checks if check.id == "session")))
    assert session["status"] == "warning"
    assert set(session) == {"id", "status", "evidence", "remedy", "source", "offline_only"}
