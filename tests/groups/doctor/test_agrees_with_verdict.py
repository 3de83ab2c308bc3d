"""For the same facts, the verdict of ``describe`` and ``lag`` and the findings of ``doctor`` do not contradict."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from kgroup.groups.doctor.diagnose import diagnose_group
from kgroup.groups.doctor.finding import Diagnosis, Finding
from kgroup.groups.doctor.snapshot import GroupSnapshot
from kgroup.groups.lag.status import LagStatus
from kgroup.groups.verdict.facts import stuck_of
from kgroup.groups.verdict.group import GroupVerdict, group_verdict
from kgroup.groups.verdict.shape import LagShape
from kgroup.output.pages.verdict import verdict_lines
from tests.helpers.cases import doctor_of_members, doctor_of_offsets
from tests.helpers.cases.doctor import KEYS, NOW, Case, H, M, S, commits, logged
from tests.helpers.cases.doctor_of_offsets import lagging, produced, reading, standing, unread
from tests.helpers.for_each import for_each


def _slow_commits(ago_ms: int) -> GroupSnapshot:
    """It commits each minute, and for so long one offset."""
    moved = commits(*range(900, 905), every_ms=M, until_ms=NOW - ago_ms - M)
    same = commits(*[1000] * (ago_ms // M), every_ms=M, until_ms=NOW - S)
    return replace(standing(ago_ms), commits={KEYS[0]: moved + same})


def _it_read(records: int) -> GroupSnapshot:
    """No member for 20 minutes, and a gap that is large at the rate at which it last read; so many records arrive."""
    read = tuple(logged(1000 - 10 * ago, NOW - 20 * M - ago * S) for ago in (100, 0))
    return replace(unread(20 * M, records=records, lag=6100), commits={KEYS[0]: read})


SITUATIONS = (
    *(Case("", f"stalled {ms}, {n} commits", standing(ms, attempts=n), None) for n in (1, 2, 3, 9, 10, 60)
      for ms in (29 * S, 31 * S, 4 * M, 5 * M, 15 * M, H)),
    *(Case("", f"commits each minute, stalled {n}", _slow_commits(n * M), None) for n in (1, 4, 6, 12)),
    *(Case("", f"waits at {stable}", standing(38 * M, stable=stable), None) for stable in (999, 1000, 1001)),
    *(Case("", f"no member {ms}, {records}", unread(ms, records=records, lag=lag), None)
      for ms in (59 * S, 2 * M, 20 * M, 48 * H) for records in (0, 600) for lag in (99, 500, 90_000)),
    *(Case("", f"assign() {ago}", unread(H, by_consumer_ago=ago), None) for ago in (M, 299 * S, 300 * S, 20 * M)),
    *(Case("", f"reads {per_s}/s of {lag}", reading(per_s, lag), None)
      for per_s in (0.5, 5, 10, 11, 20) for lag in (90, 999, 1000, 6000, 6100, 90_000)),
    *(Case("", f"hot {records}", replace(produced(records, *[others] * 5), group=lagging(9000, 0, 0).group), None)
      for records in (999, 1000, 30_000, 90_000) for others in (0, 100, 6000, 18_000)),
    *(Case("", f"skewed {lags}", lagging(*lags), None)
      for lags in ((9000, 0, 0), (9000, 1799, 0), (9000, 1800, 0), (999, 0, 0), (5000, 5000, 5000, 0, 0, 0))),
    *(Case("", f"it read, no member, {records}", _it_read(records), None) for records in (0, 600)),
    Case("", "reset", unread(20 * M, reset_ago=10 * M), None),
    Case("", "one tool alone", replace(unread(H), commits={KEYS[0]: (logged(1000, NOW - H, by_tool=True),)}), None),
)  # fmt: skip
SNAPSHOTS = tuple(
    case
    for case in (*doctor_of_members.CASES, *doctor_of_offsets.CASES, *SITUATIONS)
    if isinstance(case.snapshot, GroupSnapshot)
)


def judged(case: Case) -> tuple[GroupSnapshot, GroupVerdict, Diagnosis, Mapping[str, Finding]]:
    snapshot = case.snapshot
    assert isinstance(snapshot, GroupSnapshot)
    diagnosis = diagnose_group(snapshot)
    return (
        snapshot,
        group_verdict(snapshot.group, snapshot.evidence),
        diagnosis,
        {found.rule: found for found in diagnosis.findings},
    )


@for_each("case", SNAPSHOTS)
def test_what_is_stuck_and_since_when(case: Case) -> None:
    snapshot, verdict, diagnosis, found = judged(case)
    stuck = [row for row in stuck_of(verdict.report) if row.status is not LagStatus.NO_READER]
    unchecked = {item.rule: item.why for item in diagnosis.not_checked}

    finding = found.get("stalled-commits")
    if finding is not None and "max_poll_interval_ms" in finding.numbers:  # its members come back, and are not here now
        assert (verdict.next or "").startswith(finding.evidence)
        return
    named = set() if finding is None else set(finding.affected)
    assert named <= {row.where for row in stuck}
    for row in stuck:
        assert row.where in named or row.where in unchecked.get("stalled-commits", "")
    if finding is not None:
        (worst,) = (row for row in stuck if row.where == finding.affected[0])
        assert finding.numbers["stalled_ms"] == snapshot.now_ms - (worst.status_result.since_ms or 0)
        (line,) = (line.text for line in verdict_lines(verdict) if line.word == "STUCK")
        how = finding.evidence.partition(": ")[2].partition(" while ")[0].partition(";")[0]
        assert how in line
        follows = "it follows from pending-commit" in finding.evidence
        assert (finding.severity == "critical") is (finding.numbers["stalled_ms"] >= 15 * M and not follows)


@for_each("case", SNAPSHOTS)
def test_what_has_no_reader(case: Case) -> None:
    _, verdict, diagnosis, found = judged(case)
    unread_rows = [row.where for row in verdict.report.partitions if row.status is LagStatus.NO_READER]

    if (finding := found.get("no-reader")) is not None:
        assert sorted(finding.affected) == sorted(unread_rows)
    elif unread_rows and not any(item.rule == "no-reader" for item in diagnosis.not_checked):
        assert all(line.text.find("arrive") < 0 for line in verdict_lines(verdict) if line.word == "STUCK")
        assert not any("catchup" in command for command in verdict.commands)


@for_each("case", SNAPSHOTS)
def test_what_is_a_large_gap(case: Case) -> None:
    _, verdict, diagnosis, found = judged(case)

    offers = [
        rule
        for rule, finding in found.items()
        # Not of a gap that was passed over, by an earlier change or not: no lag shows it.
        if rule not in ("pending-catchup", "offsets-moved", "passed-over")
        and any("catchup start" in each for each in finding.commands)
    ]
    if any("catchup start" in command and "--range" not in command for command in verdict.commands):
        assert set(offers) <= {"large-gap", "no-reader"}
        assert offers or any(item.rule in ("large-gap", "no-reader") for item in diagnosis.not_checked)
    else:
        assert offers == []


@for_each("case", SNAPSHOTS)
def test_what_is_skewed_or_hot(case: Case) -> None:
    _, verdict, _, found = judged(case)

    if (skewed := found.get("skewed-lag")) is not None:
        assert verdict.shape.kind in (LagShape.ONE_PARTITION, LagShape.ONE_MEMBER)
        assert verdict.shape.kind is LagShape.ONE_MEMBER or skewed.affected == (verdict.shape.behind[0].where,)
    elif verdict.shape.kind is LagShape.ONE_PARTITION and verdict.shape.of >= 3:
        (behind,) = verdict.shape.behind
        assert (behind.lag or 0) < 1000 or behind.status is LagStatus.NO_READER
    sentence = verdict.next or ""
    if "keys are not spread evenly" in sentence:
        assert sentence.split()[0] in found["hot-partition"].affected


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("no commit for", "stalled-commits"),
        ("commits of the same offset", "stalled-commits"),
        ("no reader for", "no-reader"),
        ("keys are not spread evenly", "hot-partition"),
        ("one partition of", "skewed-lag"),
        ("the 3 partitions of one member", "skewed-lag"),
        ("kgroup catchup start", "large-gap"),
    ],
)
def test_the_cases_have_both(words: str, rule: str) -> None:
    both = []
    for case in SNAPSHOTS:
        _, verdict, _, found = judged(case)
        texts = (*(line.text for line in verdict_lines(verdict)), verdict.next or "", *verdict.commands)
        both.append((any(words in text for text in texts), rule in found))

    assert both.count((True, True)) > 0
    assert both.count((False, False)) > 0
