"""All checks, in the order in which they are shown; of equal status the first is the main reason."""

from __future__ import annotations

from collections.abc import Callable

from kgroup.groups.migration import about_assignors, about_brokers, about_group, about_offsets, about_sessions, clients
from kgroup.groups.migration.case import Case
from kgroup.groups.migration.check import Check, CheckStatus
from kgroup.groups.migration.subject import Subject

Function = Callable[[Case], Check | None]

_ALL: tuple[tuple[Subject, Function], ...] = (
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
CHECKS: tuple[Subject, ...] = tuple(subject for subject, _ in _ALL)
"""The table of checks: id, meaning, source, and the label under which groups are counted."""

_OF_ONE_THAT_IS_THERE = (about_group.already_there, about_sessions.session, about_sessions.heartbeat)


def run_checks(case: Case) -> tuple[Check, ...]:
    """Run the checks of a group, in order.

    A group of another kind gets only that check. A group already on the target protocol gets only ``already-there``
    and, if the user asks for timeouts, the checks of these.
    """
    kind = about_group.kind(case)
    if kind is not None and kind.status is CheckStatus.BLOCKED:
        return (kind,)
    functions = [function for _, function in _ALL]
    if case.arrived:
        asked = case.wanted.session_timeout_ms is not None or case.wanted.heartbeat_interval_ms is not None
        functions = list(_OF_ONE_THAT_IS_THERE if asked else _OF_ONE_THAT_IS_THERE[:1])
    return tuple(check for function in functions if (check := function(case)) is not None)
