"""Ranking, the check of --fail-on, summaries, documents."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from kgroup.groups.doctor.diagnose import (
    UncheckedRow,
    check_fail_on,
    diagnose_cluster,
    diagnose_group,
    finding_summary,
    unchecked_summary,
    worst_first,
)
from kgroup.groups.doctor.finding import Diagnosis, Finding, NotChecked, Severity
from kgroup.groups.doctor.snapshot import GroupSnapshot
from kgroup.output.pages.doctor import diagnosis_document
from kgroup.support.json_line import plain
from tests.helpers.cases import doctor_of_cluster, doctor_of_members, doctor_of_offsets
from tests.helpers.cases.doctor import (
    CLUSTER,
    CRITICAL,
    HEALTHY,
    INFO,
    KEYS,
    WARNING,
    A,
    B,
    H,
    M,
    S,
    having,
    log,
    partition,
    shown,
)


def finding(rule: str, severity: Severity) -> Finding:
    return Finding(rule, severity, "7 of 9", {"seven": 7}, (), "mend it", (), "KIP-1")


def diagnosis(group: str | None, *findings: Finding, missing: tuple[NotChecked, ...] = ()) -> Diagnosis:
    return Diagnosis(group, findings, missing, 20)


ILL = diagnosis("pay", finding("out-of-range", CRITICAL), finding("idle-members", INFO))
WARNED = diagnosis("orders", finding("idle-members", WARNING), finding("never-read", WARNING))
WELL = diagnosis("audit", missing=(NotChecked("rebalance-storm", "no READ"),))
ODD = diagnosis("zoo", finding("poll-interval", INFO))
THE_CLUSTER = diagnosis(None, finding("coordinator-load", INFO))
ALL = (WELL, ODD, WARNED, ILL, THE_CLUSTER)


def test_findings_come_worst_first_then_as_in_the_table() -> None:
    found = doctor_of_offsets.one(partition(0, 70, 100, 120))
    found = replace(
        found,
        readiness=doctor_of_members.READY,
        transactions=(doctor_of_offsets.hanging(10**7),),
        gone=frozenset(["orders"]),
    )

    told = diagnose_group(found)

    assert [item.rule for item in told.findings] == [
        "out-of-range",
        "hanging-transaction",
        "topic-gone",
    ]
    assert told.worst is CRITICAL


@pytest.mark.parametrize(
    ("ago_ms", "severity", "why"),
    [(10 * S, INFO, "; it follows from rebalance-storm"), (30 * M, WARNING, "")],
    ids=["a storm that is not over", "a storm that is over"],
)
def test_what_follows_from_a_cause_is_information(ago_ms: int, severity: Severity, why: str) -> None:
    storm = doctor_of_members.stormy(25, M, ago_ms)

    told = diagnose_group(replace(having((A, B), assignor="roundrobin"), history=storm))

    found = {item.rule: item for item in told.findings}
    assert told.findings[0].rule == "rebalance-storm"
    assert found["eager-assignor"].severity is severity
    assert found["eager-assignor"].evidence.partition("their owner stayed")[2] == why


def test_partitions_that_stand_still_follow_from_a_rebalance_that_waits_for_all_members() -> None:
    unread = {key: log(9999, 600, end=1500) for key in KEYS}

    told = diagnose_group(doctor_of_members.waiting(5 * M, "PreparingRebalance", logs=unread))

    found = {item.rule: item for item in told.findings}
    assert (found["rebalance-waits"].severity, found["stalled-commits"].severity) == (WARNING, INFO)
    assert found["stalled-commits"].evidence.endswith("; it follows from rebalance-waits")


def test_uneven_lag_follows_from_the_partition_that_is_stuck() -> None:
    stuck = doctor_of_offsets.standing(2 * M, lag=9000)

    found = {item.rule: item for item in diagnose_group(stuck).findings}

    assert found["skewed-lag"].affected == found["stalled-commits"].affected == ("orders:0",)
    assert (found["stalled-commits"].severity, found["skewed-lag"].severity) == (WARNING, INFO)


def test_a_partition_waits_for_the_transaction_that_holds_its_offset() -> None:
    """No command of the findings skips a record: none is to blame."""
    told = diagnose_group(doctor_of_offsets.in_transaction(2 * M)).findings

    found = {item.rule: item.severity for item in told}
    assert (found["pending-commit"], found["stalled-commits"]) == (WARNING, INFO)
    assert not [command for item in told for command in item.commands if "reset" in command]


def test_a_cause_is_as_severe_as_what_follows_from_it() -> None:
    held = doctor_of_offsets.in_transaction(2 * M).read.open_commits
    alone, both = (diagnose_group(shown(doctor_of_offsets.standing(3 * H), open_commits=each)) for each in ((), held))

    (stuck,) = (item for item in alone.findings if item.rule == "stalled-commits")
    found = {item.rule: item.severity for item in both.findings}
    assert stuck.severity is CRITICAL
    assert (found["pending-commit"], found["stalled-commits"]) == (CRITICAL, INFO)


@pytest.mark.parametrize(
    ("known", "name", "command"),
    [
        (True, "pay-tx", "describe --transactional-id pay-tx"),
        (False, "pay-tx", "abort --topic __consumer_offsets --partition 7 --start-offset 812"),
        (None, "pay-tx", "describe --transactional-id pay-tx"),
        (None, None, "list"),
    ],
)
def test_only_a_transaction_that_no_coordinator_knows_is_to_be_aborted(
    known: bool | None, name: str | None, command: str
) -> None:
    told = diagnose_group(doctor_of_offsets.in_transaction(2 * M, known, name)).findings

    (found,) = (item for item in told if item.rule == "pending-commit")
    assert found.commands == (f"kafka-transactions.sh --bootstrap-server b1:9092 {command}",)


def test_uneven_lag_of_another_member_does_not() -> None:
    slow = doctor_of_offsets.lagging(9000, 9000, 9000, 0, 0, 0)

    (uneven,) = (item for item in diagnose_group(slow).findings if item.rule == "skewed-lag")

    assert uneven.severity is WARNING


@pytest.mark.parametrize(
    ("ill", "rules"),
    [
        pytest.param(HEALTHY, ["ready-to-migrate"], id="well"),
        pytest.param(
            having((*doctor_of_members.EACH, doctor_of_members.SIX)),
            ["idle-members", "ready-to-migrate"],
            id="what could be better",
        ),
        pytest.param(doctor_of_offsets.one(partition(0, 70, 100, 120)), ["out-of-range"], id="what is wrong"),
    ],
)
def test_no_migration_is_offered_to_a_group_with_a_worse_finding(ill: GroupSnapshot, rules: list[str]) -> None:
    told = diagnose_group(replace(ill, readiness=doctor_of_members.READY))

    assert [item.rule for item in told.findings] == rules


def test_subjects_come_worst_first_the_cluster_before_all() -> None:
    assert [item.group for item in worst_first(ALL)] == [None, "pay", "orders", "zoo", "audit"]


@pytest.mark.parametrize(
    ("fail_on", "lines"),
    [
        (None, 0),
        (Severity.CRITICAL, 1),
        (Severity.WARNING, 3),
        (Severity.INFO, 6),
    ],
)
def test_fail_on(fail_on: Severity | None, lines: int) -> None:
    decision = check_fail_on(ALL, fail_on)

    assert len(decision.lines) == lines
    assert decision.failed is (lines > 0)


def test_a_line_a_violation() -> None:
    assert check_fail_on(ALL, CRITICAL).lines == ("pay: critical out-of-range: 7 of 9",)


def test_what_was_not_looked_at_fails_no_check() -> None:
    assert not check_fail_on((WELL,), INFO).failed


def test_summary_has_a_row_a_rule_worst_first() -> None:
    rows = finding_summary(ALL)

    assert [(row.rule, row.severity, row.count) for row in rows] == [
        ("out-of-range", CRITICAL, 1),
        ("never-read", WARNING, 1),
        ("idle-members", WARNING, 2),
        ("coordinator-load", INFO, 1),
        ("poll-interval", INFO, 1),
    ]
    assert rows[2].subjects == ("orders", "pay")  # where it is a warning before where it is info


def test_what_stands_still_comes_before_what_could_be_better() -> None:
    ledger = diagnosis("ledger", finding("stalled-commits", WARNING))
    export = diagnosis("billing-export", finding("no-reader", WARNING))
    restarts = [diagnosis(f"a{n}", finding("not-static", WARNING), finding("idle-members", WARNING)) for n in range(3)]

    assert [row.rule for row in finding_summary([*restarts, ledger, export])] == [
        "no-reader",
        "stalled-commits",
        "idle-members",
        "not-static",
    ]
    assert [item.group for item in worst_first([*restarts, ledger, export])][:2] == ["billing-export", "ledger"]


def test_what_was_not_looked_at_by_its_reason() -> None:
    other = diagnosis(
        "x", missing=(NotChecked("not-static", "no READ"), NotChecked("never-read", "no log", partly=True))
    )

    assert unchecked_summary((WELL, ODD, other)) == (UncheckedRow("no READ", ("rebalance-storm", "not-static"), 2),)
    assert len(unchecked_summary((WELL, ODD, other), partly=True)) == 2


def test_documents() -> None:
    told = diagnose_group(
        replace(HEALTHY, history=None, unread={"history": "no READ"}, readiness=doctor_of_members.READY)
    )
    document = plain(diagnosis_document(told))

    assert document["group"] == "orders-enrich"
    assert document["scope"] == "group"
    assert document["worst_severity"] == "info"
    assert document["finding_counts"] == {"info": 1, "warning": 0, "critical": 0}
    assert set(document["findings"][0]) == {
        "rule", "severity", "evidence", "numbers", "affected", "remedy", "commands", "source",
    }  # fmt: skip
    assert {"rule": "rebalance-storm", "reason": "no READ", "partly": False} in document["unchecked_rules"]
    assert diagnosis_document(diagnose_cluster(CLUSTER)).group is None


def test_every_snapshot_of_the_cases_has_a_document() -> None:
    for case in (*doctor_of_members.CASES, *doctor_of_offsets.CASES, *doctor_of_cluster.CASES):
        snapshot = case.snapshot
        told = diagnose_group(snapshot) if isinstance(snapshot, GroupSnapshot) else diagnose_cluster(snapshot)
        json.dumps(plain(diagnosis_document(told)))


def test_what_the_findings_of_a_hanging_transaction_tell_to_type() -> None:
    told = diagnose_group(replace(HEALTHY, transactions=(doctor_of_offsets.hanging(10**7),)))

    assert told.findings[0].commands == (
        "kafka-transactions.sh --bootstrap-server b1:9092 abort --topic orders --partition 3 --start-offset 812",
    )
