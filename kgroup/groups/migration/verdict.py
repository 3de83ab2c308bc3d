"""The readiness of a group from its checks, and the order of groups by readiness."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kgroup.groups.migration.about_brokers import defect_notes
from kgroup.groups.migration.about_group import ALREADY
from kgroup.groups.migration.case import Case
from kgroup.groups.migration.check import Check, CheckStatus, How, Readiness, ReadinessResult
from kgroup.groups.migration.checks import run_checks
from kgroup.groups.migration.evidence import MigrationEvidence, MigrationRequest
from kgroup.groups.migration.rules import MigrationRules

_WORST_FIRST = (ReadinessResult.BLOCKED, ReadinessResult.WARNING, ReadinessResult.READY, ReadinessResult.DONE)
_HARDEST_FIRST = (How.NONE, How.STOP, How.ROLLING, How.NOW)
_WEIGHTY = (CheckStatus.BLOCKED, CheckStatus.WARNING)


def readiness(evidence: MigrationEvidence, wanted: MigrationRequest, rules: MigrationRules) -> Readiness:
    """Whether and how a group can migrate, and the main reason; unknown facts never make it less ready."""
    case = Case(evidence, wanted, rules)
    checks = run_checks(case)
    verdict = _verdict(case, checks)
    how = _how(case, checks, verdict)
    main = main_check(checks)
    reason = _explained(case, checks, verdict, how) if main is None else main.brief
    more = sum(check.status in _WEIGHTY for check in checks) - (main is not None)
    return Readiness(evidence.group.name, checks, verdict, how, reason, more)


def main_check(checks: Sequence[Check]) -> Check | None:
    """The main reason: the first check that blocks, else the first that warns; None if there is none."""
    return next((check for status in _WEIGHTY for check in checks if check.status is status), None)


def offline_check(checks: Sequence[Check]) -> Check | None:
    """The first check that prevents a live group from migrating while it runs; None if there is none."""
    return next((check for check in checks if check.offline_only), None)


def worst_first(readinesses: Iterable[Readiness]) -> tuple[Readiness, ...]:
    """Sort by readiness, worst first, then by how hard the migration is, then by name."""
    return tuple(
        sorted(readinesses, key=lambda r: (_WORST_FIRST.index(r.verdict), _HARDEST_FIRST.index(r.how), r.group))
    )


def cluster_notes(evidence: MigrationEvidence, wanted: MigrationRequest, rules: MigrationRules) -> tuple[str, ...]:
    """One line for each known defect of the brokers that affects this group."""
    return tuple(defect_notes(Case(evidence, wanted, rules)))


def _verdict(case: Case, checks: Sequence[Check]) -> ReadinessResult:
    statuses = {check.status for check in checks}
    if CheckStatus.BLOCKED in statuses:
        return ReadinessResult.BLOCKED
    if case.arrived:
        return ReadinessResult.DONE
    return ReadinessResult.WARNING if CheckStatus.WARNING in statuses else ReadinessResult.READY


def _how(case: Case, checks: Sequence[Check], verdict: ReadinessResult) -> How:
    if verdict in (ReadinessResult.BLOCKED, ReadinessResult.DONE):
        return How.NONE
    if case.empty:
        return How.NOW
    return How.STOP if offline_check(checks) else How.ROLLING


def _explained(case: Case, checks: Sequence[Check], verdict: ReadinessResult, how: How) -> str | None:
    """The reason for ``how`` if no check blocks or warns."""
    if verdict is ReadinessResult.DONE:
        return f"on the {case.wanted.target} protocol already"
    if how is How.NOW:
        return "Empty"
    offline = offline_check(checks)
    if offline is not None:
        return f"live; {offline.brief}"
    under_way = next((check.brief for check in checks if check.id == ALREADY.id and check.brief), None)
    way = "upgrade" if case.to_consumer else "downgrade"
    return under_way or f"live; online {way} possible (policy {case.broker.policy})"
