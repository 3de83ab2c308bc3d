"""Applies all rules to a group or the cluster, checks ``--fail-on``, and summarizes many groups in a few rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kgroup.groups.doctor import about_lag, about_offsets, about_rebalances, about_streams_groups, about_transactions
from kgroup.groups.doctor.about_members import MIGRATE
from kgroup.groups.doctor.finding import (
    Answer,
    Diagnosis,
    Finding,
    NotChecked,
    Rule,
    Severity,
    kgroup_command,
    tool_command,
)
from kgroup.groups.doctor.rules import (
    CLUSTER_RULES,
    GROUP_RULES,
    OF_COMMITS,
    ORDER,
    QUERY_RULES,
    SHARE_RULES,
    STREAMS_RULES,
)
from kgroup.groups.doctor.snapshot import ClusterSnapshot, GroupSnapshot
from kgroup.groups.foreign_owners import STATE_AND_OFFSETS
from kgroup.groups.lag.past import group_past
from kgroup.groups.next_commands import READ_STREAMS
from kgroup.model.hidden_commits import hidden_words
from kgroup.model.share_group import SHARE
from kgroup.model.streams_group import STREAMS
from kgroup.support.hint import Hint
from kgroup.support.quoting import quote

_Snapshot = TypeVar("_Snapshot")

_FOLLOW: dict[str, tuple[str, ...]] = {
    about_rebalances.REBALANCE_STORM.id: (
        about_lag.LARGE_GAP.id,
        about_lag.SKEWED_LAG.id,
        about_rebalances.EAGER.id,
    ),
    about_rebalances.WAITS.id: (about_lag.STALLED_COMMITS.id, about_lag.SKEWED_LAG.id),
    about_transactions.PENDING_COMMIT.id: (about_lag.STALLED_COMMITS.id, about_lag.SKEWED_LAG.id),
    about_lag.STALLED_COMMITS.id: (about_lag.SKEWED_LAG.id,),
    about_streams_groups.UNREADY.id: (about_offsets.GONE.id,),
}
"""What is found because of another problem, or is advice about its cost: to mend it does not mend the cause."""


def diagnose_group(snapshot: GroupSnapshot) -> Diagnosis:
    """The answers of all rules for a group, for a share or streams group, or for a streaming query.

    What could not be checked is listed in ``not_checked``, never as a finding.
    """
    group = snapshot.group
    rules = QUERY_RULES if group.query is not None else _RULES_OF_TYPE.get(group.type, GROUP_RULES)
    diagnosis = _without_offers(_diagnosis(snapshot.group.name, snapshot, rules))
    if group.is_streams:
        diagnosis = replace(diagnosis, findings=tuple(_of_streams(snapshot, each) for each in diagnosis.findings))
    if any(log.past_ends for log in snapshot.logs.values()):
        diagnosis = replace(diagnosis, past=group_past(snapshot.lag, snapshot.evidence))
    hidden = hidden_words(snapshot.group.hidden_commits)
    if hidden is None:
        return diagnosis
    named = {item.rule for item in diagnosis.not_checked}
    unseen = tuple(NotChecked(rule.id, hidden, partly=True) for rule in OF_COMMITS if rule.id not in named)
    return replace(diagnosis, not_checked=(*diagnosis.not_checked, *unseen))


_RULES_OF_TYPE = {SHARE: SHARE_RULES, STREAMS: STREAMS_RULES}


def _of_streams(snapshot: GroupSnapshot, finding: Finding) -> Finding:
    """Without the commands of verbs that refuse streams groups. Where one moves offsets, Kafka's own is shown."""
    group = snapshot.group.name
    verbs = [each.commands[0][0] if isinstance(each, Hint) else None for each in finding.commands]
    kept = tuple(each for each, verb in zip(finding.commands, verbs, strict=True) if verb in (None, *READ_STREAMS))
    if {"reset", "delete-offsets"}.isdisjoint(verbs):
        return replace(finding, commands=kept or (kgroup_command("describe", group),))
    moves = f"--reset-offsets --group {quote(group)} --all-input-topics --to-earliest --dry-run"
    return replace(
        finding,
        remedy=f"{finding.remedy}. {STATE_AND_OFFSETS}: stop all instances, and delete the internal topics and the "
        "local state too",
        commands=(*kept, tool_command("kafka-streams-groups.sh", snapshot.bootstrap, moves)),
    )


def _without_offers(diagnosis: Diagnosis) -> Diagnosis:
    """Without the offer to migrate where something is wrong: it is noise in an incident."""
    if diagnosis.worst in (None, Severity.INFO):
        return diagnosis
    return replace(diagnosis, findings=tuple(each for each in diagnosis.findings if each.rule != MIGRATE.id))


def diagnose_cluster(snapshot: ClusterSnapshot) -> Diagnosis:
    """The answers of all cluster rules."""
    return _diagnosis(None, snapshot, CLUSTER_RULES)


def _diagnosis(
    group: str | None, snapshot: _Snapshot, rules: Sequence[tuple[Rule, Callable[[_Snapshot], Answer]]]
) -> Diagnosis:
    answers = [item for _, apply_rule in rules for item in apply_rule(snapshot)]
    missing = tuple(item for item in answers if isinstance(item, NotChecked))
    findings = _ranked([item for item in answers if isinstance(item, Finding)])
    return Diagnosis(
        group,
        tuple(sorted(findings, key=lambda finding: (-finding.severity.rank, ORDER.index(finding.rule)))),
        missing,
        len(rules) - sum(not item.partly for item in missing),
    )


def _ranked(findings: Sequence[Finding]) -> Iterable[Finding]:
    """The findings; one that follows from another is information, and names that one, which is as severe at least."""
    causes = {finding.rule: finding for finding in findings if finding.numbers.get("rebalancing", 1)}
    followed: dict[str, str] = {}
    worst: dict[str, Severity] = {}
    for finding in findings:
        of = (causes[rule] for rule, follow in _FOLLOW.items() if rule in causes and finding.rule in follow)
        cause = next((each.rule for each in of if _may_cause(each, finding)), None)
        if cause is not None and finding.severity is not Severity.INFO:
            followed[finding.rule] = cause
            worst[cause] = max(worst.get(cause, finding.severity), finding.severity, key=lambda one: one.rank)
    for finding in findings:
        if cause := followed.get(finding.rule):
            evidence = f"{finding.evidence}; it follows from {cause}"
            yield replace(finding, severity=Severity.INFO, evidence=evidence)
        else:
            least = worst.get(finding.rule, finding.severity)
            yield replace(finding, severity=max(finding.severity, least, key=lambda one: one.rank))


def _may_cause(cause: Finding, finding: Finding) -> bool:
    """Whether it is about the same: a partition elsewhere that is stuck or lags has another cause.

    A rebalance stops all members. One that waits for a known member may itself be caused by what that member does.
    """
    if cause.rule == about_rebalances.WAITS.id:
        return not cause.affected
    elsewhere = {*finding.affected}.isdisjoint(cause.affected)
    return not (elsewhere and finding.rule in (about_lag.STALLED_COMMITS.id, about_lag.SKEWED_LAG.id))


def worst_first(diagnoses: Iterable[Diagnosis]) -> tuple[Diagnosis, ...]:
    """The cluster first, then groups by their worst finding: its severity, then the order of the rules.

    What has stopped comes before what could be better. Of equal ones the group with more critical findings comes
    first, then with more warnings, more infos, then by name.
    """
    weights = tuple(reversed(Severity))

    def key(diagnosis: Diagnosis) -> tuple[int | str | bool, ...]:
        worst = diagnosis.findings[0] if diagnosis.findings else None
        first = (0, 0) if worst is None else (-1 - worst.severity.rank, ORDER.index(worst.rule))
        counts = (-diagnosis.count(severity) for severity in weights)
        return diagnosis.group is not None, *first, *counts, diagnosis.subject

    return tuple(sorted(diagnoses, key=key))


class CheckDecision(msgspec.Struct, frozen=True):
    """Whether the check failed (exit 8), and one line for each finding that caused it."""

    failed: bool
    lines: tuple[str, ...]


def check_fail_on(diagnoses: Iterable[Diagnosis], fail_on: Severity | None) -> CheckDecision:
    """Check ``--fail-on``: findings of that severity or worse fail. None never fails, nor does an unchecked rule."""
    if fail_on is None:
        return CheckDecision(False, ())
    lines = tuple(
        f"{diagnosis.subject}: {finding.severity} {finding.rule}: {finding.evidence}"
        for diagnosis in worst_first(diagnoses)
        for finding in diagnosis.findings
        if finding.severity.rank >= fail_on.rank
    )
    return CheckDecision(bool(lines), lines)


class FindingSummary(msgspec.Struct, frozen=True):
    """A rule over many groups: its worst severity, the number of groups (the cluster counts as one), worst first."""

    rule: str
    severity: Severity
    count: int
    subjects: tuple[str, ...]


def finding_summary(diagnoses: Iterable[Diagnosis]) -> tuple[FindingSummary, ...]:
    """One row per rule with findings: the worst severity first, then what has stopped before what could be better."""
    by_rule: dict[str, list[tuple[Finding, str]]] = {}
    for diagnosis in worst_first(diagnoses):
        for finding in diagnosis.findings:
            by_rule.setdefault(finding.rule, []).append((finding, diagnosis.subject))
    rows = []
    for rule, findings in by_rule.items():
        by_weight = sorted(findings, key=lambda pair: -pair[0].severity.rank)
        subjects = tuple(subject for _, subject in by_weight)
        rows.append(FindingSummary(rule, by_weight[0][0].severity, len(findings), subjects))
    return tuple(sorted(rows, key=lambda row: (-row.severity.rank, ORDER.index(row.rule))))


class UncheckedRow(msgspec.Struct, frozen=True):
    """A reason why rules could not check, and in how many groups. Several rules may lack the same right."""

    why: str
    rules: tuple[str, ...]
    count: int


def unchecked_summary(diagnoses: Iterable[Diagnosis], *, partly: bool = False) -> tuple[UncheckedRow, ...]:
    """Unchecked rules by reason, the most frequent reason first; ``partly`` includes partly checked rules."""
    rules: dict[str, set[str]] = {}
    counts: dict[str, int] = {}
    for diagnosis in diagnoses:
        missing = [item for item in diagnosis.not_checked if partly or not item.partly]
        for item in missing:
            rules.setdefault(item.why, set()).add(item.rule)
        for why in {item.why for item in missing}:
            counts[why] = counts.get(why, 0) + 1
    ordered = sorted(counts, key=lambda why: (-counts[why], why))
    return tuple(UncheckedRow(why, tuple(sorted(rules[why], key=ORDER.index)), counts[why]) for why in ordered)
