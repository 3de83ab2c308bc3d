"""Checks of session timeout and heartbeat interval: set by each classic client, by group or broker for consumers."""

from __future__ import annotations

import msgspec

from kgroup.groups.migration.check import CheckSubject, MigrationCheck
from kgroup.groups.migration.evidence import MigrationCase
from kgroup.model.migration_facts import HEARTBEAT_CONFIG, SESSION_CONFIG, ConfigBounds
from kgroup.support.durations import format_duration

SESSION = CheckSubject(
    "session",
    "the session timeout so far against what it will be, and what brokers allow",
    "KIP-848; group.consumer.session.timeout.ms",
    "session timeout",
)
HEARTBEAT = CheckSubject(
    "heartbeat",
    "the heartbeat interval is within what brokers allow, and no more than a third of the session timeout",
    "KIP-848; group.consumer.heartbeat.interval.ms",
    "heartbeat interval",
)
_BROKER_SESSION, _BROKER_HEARTBEAT = "group.consumer.session.timeout.ms", "group.consumer.heartbeat.interval.ms"
_CLIENTS_DEFAULT_MS = 45_000
_HEARTBEATS_IN_A_SESSION = 3


class _Value(msgspec.Struct, frozen=True):
    ms: int
    origin: str


def session(case: MigrationCase) -> MigrationCheck | None:
    """WARNING if the session timeout changes unasked: dead members are detected later, or slow ones removed earlier."""
    requested_ms, bounds = case.request.session_timeout_ms, case.broker.session
    if not case.to_consumer:
        return _classic_session(case)
    if requested_ms is not None and bounds and not _within(requested_ms, bounds):
        return _out_of_bounds(SESSION, "--session-timeout", requested_ms, bounds, _BROKER_SESSION)
    will_be, was = _session_of(case), _old(case)
    if will_be is None:
        return SESSION.unknown(f"what it will be is not known{case.why('session', 'configs')}{_so_far(was)}")
    if not was:
        source = case.why("past")
        return SESSION.unknown(
            f"was not seen{source}, is {_text(will_be.ms)} on the consumer protocol: {will_be.origin}"
        )
    if set(was) == {will_be.ms}:
        return SESSION.ok(f"{_text(will_be.ms)} as before")
    if requested_ms is not None:
        return SESSION.ok(f"was {_span(was)} in the client, now {_text(requested_ms)}: as asked for")
    if will_be.origin == _OWN:
        return SESSION.info(f"was {_span(was)} in the client, now {_text(will_be.ms)}: {_OWN} {SESSION_CONFIG}")
    return _changed(case, was, will_be, bounds)


def _changed(case: MigrationCase, was: tuple[int, ...], will_be: _Value, bounds: ConfigBounds | None) -> MigrationCheck:
    new = will_be.ms
    old = was[0]
    if bounds and old < bounds.min_ms:
        least_text = (
            ": the brokers' minimum" if new == bounds.min_ms else f"; the brokers' minimum is {_text(bounds.min_ms)}"
        )
        return SESSION.warning(
            f"was {_span(was)} in the client, now {_text(new)}{least_text}",
            brief=f"session timeout {_text(old)} < {_text(bounds.min_ms)}",
            remedy=f"a dead member is noticed after {_text(new)} instead of {_text(old)}; less needs another "
            "group.consumer.min.session.timeout.ms on the brokers",
        )
    old = was[-1]
    if bounds and old > bounds.max_ms:
        return SESSION.warning(
            f"was {_span(was)} in the client, now {_text(new)}; the brokers' maximum is {_text(bounds.max_ms)}",
            brief=f"session timeout {_text(old)} > {_text(bounds.max_ms)}",
            remedy=f"a member that is silent for {_text(new)} is removed; {_option(bounds.max_ms)} is the most, "
            "more needs another group.consumer.max.session.timeout.ms on the brokers",
        )
    old = max(ms for ms in was if ms != new)
    return SESSION.warning(
        f"was {_span(was)} in the client, now {_text(new)}: {will_be.origin}",
        brief=f"session timeout {_text(old)} -> {_text(new)}",
        remedy=f"{_option(old)} keeps it",
    )


def _option(ms: int) -> str:
    return f"--session-timeout {_text(ms)} (the group config {SESSION_CONFIG}={ms})"


def heartbeat(case: MigrationCase) -> MigrationCheck | None:
    """Whether three intervals fit in the session timeout; brokers refuse group configs unless it is the longer one."""
    if not case.to_consumer:
        return None
    requested_ms, bounds = case.request.heartbeat_interval_ms, case.broker.heartbeat
    if requested_ms is not None and bounds and not _within(requested_ms, bounds):
        return _out_of_bounds(HEARTBEAT, "--heartbeat-interval", requested_ms, bounds, _BROKER_HEARTBEAT)
    will_be, session_timeout = _heartbeat_of(case), _session_of(case)
    if will_be is None or session_timeout is None:
        return HEARTBEAT.unknown("what it will be is not known" + case.why("heartbeat", "session", "configs"))
    facts = f"every {_text(will_be.ms)} ({will_be.origin}), session timeout {_text(session_timeout.ms)}"
    sets_timeouts = requested_ms is not None or case.request.session_timeout_ms is not None
    if sets_timeouts and will_be.ms >= session_timeout.ms:
        return HEARTBEAT.blocked(
            f"{facts}: brokers require a longer session timeout",
            brief=f"heartbeat {_text(will_be.ms)} >= session {_text(session_timeout.ms)}",
            remedy="a shorter --heartbeat-interval, or a longer --session-timeout",
        )
    if will_be.ms * _HEARTBEATS_IN_A_SESSION > session_timeout.ms:
        return HEARTBEAT.warning(
            f"{facts}: fewer than {_HEARTBEATS_IN_A_SESSION} fit, so one lost heartbeat may end the membership",
            brief=f"heartbeat {_text(will_be.ms)}, session {_text(session_timeout.ms)}",
            remedy=f"--heartbeat-interval of at most {_text(session_timeout.ms // _HEARTBEATS_IN_A_SESSION)}",
        )
    return HEARTBEAT.ok(facts)


def _classic_session(case: MigrationCase) -> MigrationCheck:
    """The check for the classic protocol: each client has its own timeout; BLOCKED if the user sets a group's."""
    if case.request.session_timeout_ms is not None or case.request.heartbeat_interval_ms is not None:
        return SESSION.blocked(
            "a classic group has no timeouts of its own: its members set theirs",
            brief="timeouts of a classic group",
            remedy="without --session-timeout and --heartbeat-interval: session.timeout.ms in the client",
        )
    now, bounds = _session_of(case), case.broker.classic_session
    allowed = f"; brokers allow {_text(bounds.min_ms)} to {_text(bounds.max_ms)}" if bounds else ""
    so_far = f"{_text(now.ms)} so far" if now else "not known so far"
    remedy = None
    if now and now.ms != _CLIENTS_DEFAULT_MS:
        remedy = f"session.timeout.ms={now.ms} in the client keeps it"
    return SESSION.info(f"{so_far}; each client's own session.timeout.ms counts again{allowed}", remedy=remedy)


_OWN = "the group's own"
_DEFAULT = "the brokers' default"


def _session_of(case: MigrationCase) -> _Value | None:
    return _value(case, case.request.session_timeout_ms, SESSION_CONFIG, case.broker.session)


def _heartbeat_of(case: MigrationCase) -> _Value | None:
    return _value(case, case.request.heartbeat_interval_ms, HEARTBEAT_CONFIG, case.broker.heartbeat)


def _value(case: MigrationCase, requested_ms: int | None, config: str, bounds: ConfigBounds | None) -> _Value | None:
    """The value asked for, else the group's own, else the brokers' default; None if the one that applies is unknown."""
    if requested_ms is not None:
        return _Value(requested_ms, "as asked for")
    configs = case.evidence.configs
    if configs is None:
        return None
    own = configs.get(config, "")
    if own.isdecimal():
        return _Value(int(own), _OWN)
    return _Value(bounds.default_ms, _DEFAULT) if bounds else None


def _old(case: MigrationCase) -> tuple[int, ...]:
    """The members' different session timeouts so far, ascending; empty if unknown."""
    return tuple(sorted({member.session_timeout_ms for member in case.past.members})) if case.past else ()


def _so_far(was: tuple[int, ...]) -> str:
    return f"; it was {_span(was)} in the client" if was else ""


def _span(values: tuple[int, ...]) -> str:
    return _text(values[0]) if len(values) == 1 else f"{_text(values[0])} to {_text(values[-1])}"


def _within(ms: int, bounds: ConfigBounds) -> bool:
    return bounds.min_ms <= ms <= bounds.max_ms


def _out_of_bounds(subject: CheckSubject, option: str, ms: int, bounds: ConfigBounds, setting: str) -> MigrationCheck:
    low = ms < bounds.min_ms
    limit = bounds.min_ms if low else bounds.max_ms
    sign, end = ("<", "min") if low else (">", "max")
    return subject.blocked(
        f"{option} {_text(ms)}: brokers allow {_text(bounds.min_ms)} to {_text(bounds.max_ms)}",
        brief=f"{subject.label} {_text(ms)} {sign} {_text(limit)}",
        remedy=f"choose within that, or change {setting.replace('consumer.', f'consumer.{end}.')} on the brokers",
    )


def _text(ms: int) -> str:
    # 44999 ms would be shown as 45s, though it is below 45s.
    return f"{ms}ms" if ms % 1000 else format_duration(ms / 1000)
