"""Decides which settings of one consumer change when its group moves to the other protocol."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from kgroup.groups.migration.about_assignors import client_assignors, server_assignor, server_name
from kgroup.groups.migration.client_config.names import (
    CLASSIC_ONLY,
    HEARTBEAT,
    PROTOCOL,
    PROTOCOL_TYPE,
    REMOTE_ASSIGNOR,
    SESSION,
    STRATEGY,
)
from kgroup.groups.migration.client_config.scopes import ConfigEntry, Scope
from kgroup.support.redact import HIDDEN

Flavour = Literal["java", "librdkafka"]

DEFAULT_ASSIGNOR = "uniform"
"""The first of the broker's ``group.consumer.assignors`` by default."""

_JAVA_CLASSES = {
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
}
_DURATION = re.compile(r"(\d+)\s*(ms|s|m|h)?")
_UNITS = {None: 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_SET = {
    PROTOCOL: "the rebalance protocol of the group",
    REMOTE_ASSIGNOR: "the broker's assignor",
    STRATEGY: "the client's assignor that does the same",
    SESSION: "the session timeout is the client's again",
}
_REMOVED = {
    SESSION: "the session timeout is the broker's (group config consumer.session.timeout.ms)",
    HEARTBEAT: "the heartbeat interval is the broker's (group config consumer.heartbeat.interval.ms)",
    STRATEGY: "the broker assigns the partitions (group.remote.assignor)",
    PROTOCOL_TYPE: "clients refuse it together with group.protocol=consumer",
    REMOTE_ASSIGNOR: "only the consumer protocol has it",
}
# Numbers, names, classes, lists of them, and placeholders. A password that a user wrote after one does not match.
_WORD = r"(?:\$\{[\w.-]*(?::(?:\d+\w{0,2})?)?\}|[\w.$-])+"
_PLAIN = re.compile(rf"\s*(?:{_WORD}(?:\s*,\s*{_WORD})*)?\s*")
_LONGEST_SHOWN = 80


class ConfigChange(msgspec.Struct, frozen=True):
    """One setting to write, or to remove if ``new_value`` is None.

    ``old`` is the entry that is replaced or removed, None for a new setting, which goes after the entry ``near``.
    """

    key: str
    new_value: str | None
    reason: str
    old: ConfigEntry | None
    near: ConfigEntry

    @property
    def old_value(self) -> str | None:
        """The old value to show; None for a new setting."""
        return None if self.old is None else masked(self.old.value)


class ScopeChanges(msgspec.Struct, frozen=True):
    """The changes to one consumer.

    ``assignor`` is the server-side assignor, None if there is none. ``strategies`` are those without a counterpart.
    ``foreign`` is a note about a ``group.protocol`` that no plain consumer has; then nothing is changed.
    """

    scope: Scope
    changes: tuple[ConfigChange, ...] = ()
    assignor: str | None = None
    strategies: tuple[str, ...] = ()
    foreign: str | None = None

    def sets(self, key: str) -> bool:
        """Whether one of the changes writes this setting."""
        return any(change.new_value is not None and f".{change.key}".endswith(f".{key}") for change in self.changes)


def to_consumer(scope: Scope, fallback: str | None) -> ScopeChanges:
    """The changes to ``group.protocol=consumer``; ``fallback`` is the server-side assignor if the file names none."""
    if note := _foreign_protocol(scope):
        return ScopeChanges(scope, foreign=note)
    strategies = strategies_of(scope)
    mapped = next((server for name in strategies if (server := server_assignor(name))), None)
    if not strategies and _protocol(scope) != "consumer":
        mapped = fallback
    written = scope.value(REMOTE_ASSIGNOR)
    changes = _put(scope, PROTOCOL, "consumer") if _protocol(scope) != "consumer" else ()
    if written is None and mapped is not None:
        changes += _put(scope, REMOTE_ASSIGNOR, mapped)
    return ScopeChanges(
        scope,
        (*changes, *_removed(scope, CLASSIC_ONLY)),
        written or mapped or (None if strategies else DEFAULT_ASSIGNOR),
        () if written else tuple(name for name in strategies if server_assignor(name) is None),
    )


def to_classic(scope: Scope, flavour: Flavour, fallback: str | None, session_timeout_ms: int | None) -> ScopeChanges:
    """The changes to ``group.protocol=classic``; ``fallback`` is the server-side assignor if the file names none."""
    if note := _foreign_protocol(scope):
        return ScopeChanges(scope, foreign=note)
    assignor = server_name(scope.value(REMOTE_ASSIGNOR) or fallback or DEFAULT_ASSIGNOR)
    strategy = next(iter(client_assignors(assignor)), None)
    changes: tuple[ConfigChange, ...] = ()
    if _protocol(scope) not in ("", "classic"):
        changes = _put(scope, PROTOCOL, "classic")
        if strategy is not None and scope.value(STRATEGY) is None:
            changes += _put(scope, STRATEGY, _JAVA_CLASSES[strategy] if flavour == "java" else strategy)
        if session_timeout_ms is not None:
            changes += _put(scope, SESSION, str(session_timeout_ms))
    return ScopeChanges(
        scope,
        (*changes, *_removed(scope, (REMOTE_ASSIGNOR,))),
        assignor if strategy else None,
        () if strategy else (masked(assignor),),
    )


def milliseconds(text: str) -> int | None:
    """A timeout from a file in ms (``30000``, in Spring also ``30s``); None if the text is not a duration."""
    parsed = _DURATION.fullmatch(text.strip().replace("_", "").lower())
    return int(parsed[1]) * _UNITS[parsed[2]] if parsed else None


def strategies_of(scope: Scope) -> tuple[str, ...]:
    """The client's assignors in the file, in order."""
    return tuple(masked(name.strip()) for name in (scope.value(STRATEGY) or "").split(",") if name.strip())


def masked(value: str) -> str:
    """The value of a setting to show; everything from the first part that is not a plain value is hidden."""
    value = value.strip()
    plain = _PLAIN.match(value)
    end = plain.end() if plain else 0
    value = value if end == len(value) else value[:end] + HIDDEN
    return value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + "..."


def _protocol(scope: Scope) -> str:
    return (scope.value(PROTOCOL) or "").lower()


def _foreign_protocol(scope: Scope) -> str | None:
    protocol = _protocol(scope)
    if protocol in ("", "classic", "consumer") or protocol.startswith("${"):
        return None
    entry = scope.all(PROTOCOL)[-1]
    return f"line {entry.line}: {entry.key} stays: {masked(protocol)} is not a protocol of a plain consumer"


def _put(scope: Scope, key: str, value: str) -> tuple[ConfigChange, ...]:
    """The change that writes a setting; if the key occurs several times, the last is replaced, the others removed."""
    old = scope.all(key)
    if not old:
        return (ConfigChange(scope.prefix + key, value, _SET[key], None, scope.near),)
    if old[-1].value.strip() == value:
        return ()
    again = (ConfigChange(entry.key, None, f"line {old[-1].line} sets it again", entry, entry) for entry in old[:-1])
    return (ConfigChange(old[-1].key, value, _SET[key], old[-1], old[-1]), *again)


def _removed(scope: Scope, keys: tuple[str, ...]) -> tuple[ConfigChange, ...]:
    return tuple(
        ConfigChange(entry.key, None, _REMOVED[key], entry, entry) for key, entry in scope.settings if key in keys
    )
