"""The pages of the doctor: one group, many, one rule; 80 columns wide."""

from __future__ import annotations

import csv
import io

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from kgroup.groups.doctor.diagnose import diagnose_cluster, diagnose_group
from kgroup.groups.doctor.finding import Diagnosis
from kgroup.groups.doctor.rules import GROUP_RULES, ORDER
from kgroup.groups.doctor.snapshot import GroupSnapshot
from kgroup.groups.lag.evidence import MemberFacts
from kgroup.model.outcome import Outcome
from kgroup.output.pages.doctor import explanation_outcome, outcome, rules_screen
from kgroup.output.terminal import draw
from kgroup.queries.doctor_explanations import explain
from kgroup.support.cluster_ref import ClusterRef
from tests.helpers import pages
from tests.helpers.cases import doctor_of_cluster, doctor_of_members, doctor_of_offsets
from tests.helpers.cases.doctor import CLUSTER, EMPTY, S, having
from tests.helpers.cases.doctor_of_offsets import unread

REF = ClusterRef("id", "b1:9092", "prod")
SEVEN = (*doctor_of_members.EACH, doctor_of_members.SIX)
STORM = replace(
    having(SEVEN),
    settings={each.member_id: MemberFacts(300_000, 45_000) for each in SEVEN},
    history=doctor_of_members.stormy(17, 30_000),
    transactions=None,
    logs={},
    unread={"transactions": "no READ on orders", "last_stable": "no READ on orders"},
)


def named(snapshot: GroupSnapshot, name: str) -> GroupSnapshot:
    return replace(snapshot, group=replace(snapshot.group, name=name))


def drawn(about: Outcome, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines as a terminal of 80 columns has them."""
    monkeypatch.setattr(draw, "terminal_width", lambda stream: 80)
    return pages.drawn(about)


def test_one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = drawn(outcome([diagnose_group(STORM)], REF), monkeypatch)

    assert lines[0].startswith("orders-enrich  2 findings: 1 critical, 1 info")
    assert lines[1].split() == ["SEVERITY", "RULE", "EVIDENCE"]
    assert lines[2].startswith("critical  rebalance-storm  17 in 8m, not over")
    assert "  kgroup history orders-enrich --since 1h" in lines
    assert any(line.startswith(f"UNCHECKED  3 of {len(GROUP_RULES)} rules") for line in lines), lines
    assert any("hanging-transaction, lso-stuck: no READ on orders" in line for line in lines)
    assert lines[-1] == "One in full: kgroup doctor --explain rebalance-storm"


def test_one_that_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = drawn(outcome([diagnose_group(EMPTY)], REF), monkeypatch)

    assert lines[0].startswith("orders-enrich  nothing found")
    assert not any("One in full" in line for line in lines)


def test_many_groups_begin_with_a_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [diagnose_group(named(STORM, f"group-{number:02}")) for number in range(25)]
    lines = drawn(outcome([*many, diagnose_group(EMPTY), diagnose_cluster(CLUSTER)], REF), monkeypatch)

    assert lines[0].startswith("26 groups and the cluster  25 critical, 25 info")
    assert lines[2].split() == [
        "critical",
        "rebalance-storm",
        "25",
        *["group-00,", "group-01,", "group-02", "and", "22", "more"],
    ]
    assert "5 more: --verbose, or -o csv" in lines
    at = lines.index("25 of 26 groups with findings")
    assert lines[at + 1] == "-> kgroup doctor group-00", "the worst"


def test_a_problem_that_may_just_have_begun_is_no_all_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    early = diagnose_group(replace(unread(20 * S), readiness=None))

    one = drawn(outcome([early], REF), monkeypatch)
    several = drawn(outcome([early, diagnose_cluster(CLUSTER)], REF), monkeypatch)

    assert one[0].startswith("orders-enrich  nothing found yet")
    assert "no-reader: no member for less than 1m, which may be a restart" in one
    assert "-> kgroup lag orders-enrich shows its status, lag and rates now" in one
    assert several[0].startswith("1 group and the cluster  nothing found yet")
    assert any("no-reader: no member for less than 1m" in line for line in several)


def every_diagnosis() -> list[Diagnosis]:
    cases = (*doctor_of_members.CASES, *doctor_of_offsets.CASES, *doctor_of_cluster.CASES)
    return [
        diagnose_group(case.snapshot) if isinstance(case.snapshot, GroupSnapshot) else diagnose_cluster(case.snapshot)
        for case in cases
    ]


def test_no_table_or_sentence_is_wider_than_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are, where they have to be: they get pasted."""
    diagnoses = every_diagnosis()
    words = {word for told in diagnoses for found in told.findings for c in found.commands for word in c.split()}
    for verbose in (False, True):
        for shown in (*([told] for told in diagnoses), diagnoses):
            for line in drawn(outcome(shown, REF, verbose=verbose), monkeypatch):
                assert cell_len(line) <= 80 or words.issuperset(line.split()), line


@pytest.mark.parametrize("rule", ORDER)
def test_a_rule_in_full(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = drawn(explanation_outcome(explain(rule)), monkeypatch)

    assert lines[0].startswith(rule)
    for word in ("IMPACT", "HOW-TO-SEE", "FIX", "SOURCE"):
        assert word in lines
    assert all(cell_len(line) <= 80 for line in lines)


def test_all_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = drawn(replace(explanation_outcome(explain(ORDER[0])), screen=rules_screen), monkeypatch)

    assert lines[0].startswith(f"{len(ORDER)} rules")
    assert all(cell_len(line) <= 80 for line in lines)


def test_csv_has_a_row_a_finding() -> None:
    found = outcome([diagnose_group(STORM), diagnose_group(EMPTY)], REF).records()
    text = io.StringIO()
    csv.writer(text).writerows([found.header, *found.rows])

    assert [row[:3] for row in found.rows] == [
        ("orders-enrich", "critical", "rebalance-storm"),
        ("orders-enrich", "info", "idle-members"),
    ]
