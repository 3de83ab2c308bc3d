"""All checks of a group, its readiness to migrate, and the readiness of many groups in a few rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from kgroup.groups.migration import (
    about_assignors,
    about_brokers,
    about_group,
    about_offsets,
    about_sessions,
    about_streams,
    clients,
)
from kgroup.groups.migration.about_brokers import defect_notes
from kgroup.groups.migration.about_group import ALREADY
from kgroup.groups.migration.check import (
    CheckStatus,
    CheckSubject,
    MigrationCheck,
    MigrationPath,
    Readiness,
    ReadinessResult,
)
from kgroup.groups.migration.evidence import MigrationCase, MigrationEvidence, MigrationRequest
from kgroup.groups.migration.known_versions import MigrationRules

Function = Callable[[MigrationCase], MigrationCheck | None]

_ALL: tuple[tuple[CheckSubject, Function], ...] = (
    (about_group.KIND, about_group.kind),
    (about_group.ALREADY, about_group.already_there),
    (about_group.MEMBERS, about_group.members),
    (about_brokers.PROTOCOL, about_brokers.protocol_available),
    (about_brokers.POLICY, about_brokers.migration_policy),
    (about_assignors.ASSIGNORS, about_assignors.assignors),
    (about_assignors.USER_DATA, about_assignors.user_data),
    (about_group.SIZE, about_group.group_size),
    (about_sessions.SESSION, about_sessions.session),
    (about_sessions.HEARTBEAT, about_sessions.heartbeat),
    (about_group.STATIC, about_group.static_members),
    (about_group.REGEX, about_group.regex),
    (about_group.RACK, about_group.rack),
    (about_brokers.ACCESS, about_brokers.topic_describe),
    (about_offsets.EXPIRY, about_offsets.offsets_expiry),
    (about_offsets.GONE, about_offsets.gone_topics),
    (about_offsets.PENDING, about_offsets.pending_transactions),
    (about_offsets.HIDDEN, about_offsets.hidden_commits),
    (clients.CLIENTS, clients.check_clients),
    (about_brokers.DEFECTS, about_brokers.broker_defects),
    (about_brokers.MONITORS, about_brokers.monitors),
)
_OF_STREAMS: tuple[tuple[CheckSubject, Function], ...] = (
    (about_streams.PROTOCOL, about_streams.streams_protocol),
    (about_streams.RESTART, about_streams.streams_restart),
    (about_streams.STATIC, about_streams.streams_static_members),
    (about_streams.LOST, about_streams.streams_settings),
)
CHECKS: tuple[CheckSubject, ...] = tuple(subject for subject, _ in (*_ALL, *_OF_STREAMS))
"""The table of checks: id, meaning, source, and the label under which groups are counted."""

_OF_ONE_THAT_IS_THERE = (about_group.already_there, about_sessions.session, about_sessions.heartbeat)


def run_checks(case: MigrationCase) -> tuple[MigrationCheck, ...]:
    """Run the checks of a group, in order.

    A group of another kind gets only that check; a classic application of Kafka Streams also those of a move of its
    own. A group already on the target protocol gets only ``already-there`` and, if the user asks for timeouts, the
    checks of these.
    """
    kind = about_group.kind(case)
    if kind is not None and kind.status is CheckStatus.BLOCKED:
        own = _OF_STREAMS if about_group.is_streams_application(case) else ()
        return (kind, *(check for _, function in own if (check := function(case)) is not None))
    functions = [function for _, function in _ALL if function is not about_group.kind]
    if case.arrived:
        sets_timeouts = case.request.session_timeout_ms is not None or case.request.heartbeat_interval_ms is not None
        functions = list(_OF_ONE_THAT_IS_THERE if sets_timeouts else _OF_ONE_THAT_IS_THERE[:1])
        kind = None
    checks = (kind, *(function(case) for function in functions))
    return tuple(check for check in checks if check is not None)


_WORST_FIRST = (ReadinessResult.BLOCKED, ReadinessResult.WARNING, ReadinessResult.READY, ReadinessResult.DONE)
_HARDEST_FIRST = (MigrationPath.NONE, MigrationPath.STOP, MigrationPath.ROLLING, MigrationPath.NOW)
_WEIGHTY = (CheckStatus.BLOCKED, CheckStatus.WARNING)


def assess_readiness(evidence: MigrationEvidence, request: MigrationRequest, rules: MigrationRules) -> Readiness:
    """Whether and how a group can migrate, and the main reason; unknown facts never make it less ready."""
    case = MigrationCase(evidence, request, rules)
    checks = run_checks(case)
    result = _result(case, checks)
    how = _how(case, checks, result)
    main = main_check(checks)
    reason = _explained(case, checks, result, how) if main is None else main.brief
    if how is MigrationPath.STOP and main is not None and (offline := offline_check(checks)) not in (None, main):
        reason = f"{offline.brief}; {main.brief}"
    more = sum(check.status in _WEIGHTY for check in checks) - (main is not None)
    return Readiness(evidence.group.name, checks, result, how, reason, more)


def main_check(checks: Sequence[MigrationCheck]) -> MigrationCheck | None:
    """The main reason: the first check that blocks, else the first that warns; None if there is none."""
    return next((check for status in _WEIGHTY for check in checks if check.status is status), None)


def offline_check(checks: Sequence[MigrationCheck]) -> MigrationCheck | None:
    """The first check that prevents a live group from migrating while it runs; None if there is none."""
    return next((check for check in checks if check.offline_only), None)


def worst_first(readinesses: Iterable[Readiness]) -> tuple[Readiness, ...]:
    """Sort by readiness, worst first, then by how hard the migration is, then by name."""
    return tuple(
        sorted(readinesses, key=lambda r: (_WORST_FIRST.index(r.result), _HARDEST_FIRST.index(r.how), r.group))
    )


def cluster_notes(evidence: MigrationEvidence, request: MigrationRequest, rules: MigrationRules) -> tuple[str, ...]:
    """One line for each known defect of the brokers that affects this group."""
    return tuple(defect_notes(MigrationCase(evidence, request, rules)))


def _result(case: MigrationCase, checks: Sequence[MigrationCheck]) -> ReadinessResult:
    statuses = {check.status for check in checks}
    if CheckStatus.BLOCKED in statuses:
        return ReadinessResult.BLOCKED
    if case.arrived:
        return ReadinessResult.DONE
    return ReadinessResult.WARNING if CheckStatus.WARNING in statuses else ReadinessResult.READY


def _how(case: MigrationCase, checks: Sequence[MigrationCheck], result: ReadinessResult) -> MigrationPath:
    if result in (ReadinessResult.BLOCKED, ReadinessResult.DONE):
        return MigrationPath.NONE
    if case.empty:
        return MigrationPath.NOW
    return MigrationPath.STOP if offline_check(checks) else MigrationPath.ROLLING


def _explained(
    case: MigrationCase, checks: Sequence[MigrationCheck], result: ReadinessResult, how: MigrationPath
) -> str | None:
    """The reason for ``how`` if no check blocks or warns."""
    if result is ReadinessResult.DONE:
        return f"on the {case.request.target} protocol already"
    if how is MigrationPath.NOW:
        return "Empty"
    offline = offline_check(checks)
    if offline is not None:
        return f"live; {offline.brief}"
    under_way = next((check.brief for check in checks if check.id == ALREADY.id and check.brief), None)
    way = "upgrade" if case.to_consumer else "downgrade"
    return under_way or f"live; online {way} possible (policy {case.broker.policy})"


_VERDICTS = (ReadinessResult.DONE, ReadinessResult.READY, ReadinessResult.WARNING, ReadinessResult.BLOCKED)
_HOWS = (MigrationPath.NONE, MigrationPath.NOW, MigrationPath.ROLLING, MigrationPath.STOP)
_LABELS = {subject.id: subject.label for subject in CHECKS}
_SHOWN = 4


class ReadinessSummary(msgspec.Struct, frozen=True):
    """Groups of one readiness that migrate in one way; ``reason`` is their common one, or counts their reasons."""

    result: ReadinessResult
    how: MigrationPath
    count: int
    reason: str


def readiness_summary(readinesses: Iterable[Readiness]) -> tuple[ReadinessSummary, ...]:
    """Rows for done, ready, warning and blocked groups, in this order; each split by how the groups migrate."""
    sorts: dict[tuple[ReadinessResult, MigrationPath], list[Readiness]] = {}
    for item in readinesses:
        sorts.setdefault((item.result, item.how), []).append(item)
    return tuple(
        ReadinessSummary(result, how, len(group_readinesses), _reason(group_readinesses))
        for result in _VERDICTS
        for how in _HOWS
        if (group_readinesses := sorts.get((result, how)))
    )


def _reason(readinesses: Sequence[Readiness]) -> str:
    """The reason if all groups have the same one, else the labels of the reasons with counts, most frequent first."""
    reasons = {item.reason for item in readinesses}
    if len(reasons) == 1:
        return reasons.pop() or ""
    counts = Counter(_label(item) for item in readinesses)
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    named = ", ".join(f"{label} ({count})" for label, count in ordered[:_SHOWN])
    rest = sum(count for _, count in ordered[_SHOWN:])
    return f"{named}, others ({rest})" if rest else named


def _label(item: Readiness) -> str:
    check = main_check(item.checks) or offline_check(item.checks)
    if check is None:
        under_way = any(check.id == ALREADY.id and check.brief for check in item.checks)
        return ALREADY.label if under_way else item.reason or "others"
    if check.id == "kind" and check.brief:
        return check.brief.removeprefix("owned by ").removeprefix("a ").removesuffix(" group")
    return _LABELS.get(check.id, check.id)
