"""Decides which settings of one consumer change when its group moves to the other protocol."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from kgroup.groups.migration.assignor_names import client_assignors, server_assignor, server_name
from kgroup.groups.migration.client_config.entries import ConfigEntry
from kgroup.groups.migration.client_config.masking import shown
from kgroup.groups.migration.client_config.names import (
    CLASSIC_ONLY,
    HEARTBEAT,
    PROTOCOL,
    PROTOCOL_TYPE,
    REMOTE_ASSIGNOR,
    SESSION,
    STRATEGY,
)
from kgroup.groups.migration.client_config.scopes import Scope

Flavour = Literal["java", "librdkafka"]

DEFAULT_ASSIGNOR = "uniform"
"""The first of the broker's ``group.consumer.assignors`` by default."""

_JAVA_CLASSES = {
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
}
_DURATION = re.compile(r"(\d+)\s*(ms|s|m|h)?")
_UNITS = {None: 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_REASONS = {
    SESSION: "the session timeout is the broker's (group config consumer.session.timeout.ms)",
    HEARTBEAT: "the heartbeat interval is the broker's (group config consumer.heartbeat.interval.ms)",
    STRATEGY: "the broker assigns the partitions (group.remote.assignor)",
    PROTOCOL_TYPE: "it is refused beside group.protocol=consumer",
}
_LONGEST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Put:
    """A setting to write; ``replaced`` is the one that it replaces, None if it is new."""

    key: str
    value: str
    replaced: ConfigEntry | None


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """The settings of one consumer to remove and to write, and the lines that describe this.

    ``assignor`` is the server-side assignor, None if there is none. ``strategies`` are those without a counterpart.
    """

    scope: Scope
    gone: tuple[ConfigEntry, ...] = ()
    put: tuple[Put, ...] = ()
    changes: tuple[str, ...] = ()
    assignor: str | None = None
    strategies: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def to_consumer(scope: Scope, given: str | None) -> ConfigChange:
    """The change to ``group.protocol=consumer``; ``given`` is the server-side assignor if the file names none."""
    protocol = (scope.value(PROTOCOL) or "").lower()
    if protocol not in ("", "classic", "consumer") and not protocol.startswith("${"):
        return _left(scope, protocol)
    own = strategies_of(scope)
    mapped, unknown = _mapped(own)
    written = scope.value(REMOTE_ASSIGNOR)
    if not own and protocol != "consumer":
        mapped = given
    put = _Puts(scope)
    if protocol != "consumer":
        put(PROTOCOL, "consumer")
    if written is None and mapped is not None:
        put(REMOTE_ASSIGNOR, mapped)
    going = [setting.entry for setting in scope.settings if setting.key in CLASSIC_ONLY]
    why = {setting.entry: _REASONS[setting.key] for setting in scope.settings if setting.key in CLASSIC_ONLY}
    went = [f"line {entry.line}: {_shown(entry)} goes: {why[entry]}" for entry in going]
    return ConfigChange(
        scope=scope,
        gone=(*put.gone, *going),
        put=tuple(put.put),
        changes=(*put.changes, *went),
        assignor=written or mapped or (None if own else DEFAULT_ASSIGNOR),
        strategies=() if written else tuple(unknown),
    )


def to_classic(scope: Scope, flavour: Flavour, given: str | None, session_timeout_ms: int | None) -> ConfigChange:
    """The change to ``group.protocol=classic``; ``given`` is the server-side assignor if the file names none."""
    protocol = (scope.value(PROTOCOL) or "").lower()
    if protocol not in ("", "classic", "consumer") and not protocol.startswith("${"):
        return _left(scope, protocol)
    assignor = server_name(scope.value(REMOTE_ASSIGNOR) or given or DEFAULT_ASSIGNOR)
    strategy = next(iter(client_assignors(assignor)), None)
    put = _Puts(scope)
    if protocol not in ("", "classic"):
        put(PROTOCOL, "classic")
        if strategy is not None and scope.value(STRATEGY) is None:
            put(STRATEGY, _JAVA_CLASSES[strategy] if flavour == "java" else strategy)
        if session_timeout_ms is not None:
            put(SESSION, str(session_timeout_ms))
    going = [setting.entry for setting in scope.settings if setting.key == REMOTE_ASSIGNOR]
    went = [f"line {entry.line}: {_shown(entry)} goes: only the new protocol has it" for entry in going]
    return ConfigChange(
        scope=scope,
        gone=(*put.gone, *going),
        put=tuple(put.put),
        changes=(*put.changes, *went),
        assignor=assignor if strategy else None,
        strategies=() if strategy else (shown(assignor),),
    )


def milliseconds(text: str) -> int | None:
    """A timeout from a file in ms (``30000``, in Spring also ``30s``); None if the text is not a duration."""
    found = _DURATION.fullmatch(text.strip().replace("_", "").lower())
    return int(found[1]) * _UNITS[found[2]] if found else None


def strategies_of(scope: Scope) -> tuple[str, ...]:
    """The client's assignors in the file, in order."""
    return tuple(shown(name.strip()) for name in (scope.value(STRATEGY) or "").split(",") if name.strip())


def _left(scope: Scope, protocol: str) -> ConfigChange:
    found = scope.last(PROTOCOL)
    assert found is not None
    what = f"line {found.entry.line}: {_shown(found.entry)} stays: {shown(protocol)} is no protocol of a plain consumer"
    return ConfigChange(scope, notes=(what,))


class _Puts:
    """Collects settings to write; if a key occurs several times, the last is replaced and the others are removed."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.put: list[Put] = []
        self.gone: list[ConfigEntry] = []
        self.changes: list[str] = []

    def __call__(self, key: str, value: str) -> None:
        there = [setting for setting in self.scope.settings if setting.key == key]
        last = there[-1] if there else None
        if last is not None and (last.entry.value or "").strip() == value:
            return
        kept = next((setting for setting in reversed(there) if setting.home), None)
        self.gone += [setting.entry for setting in there if setting is not kept]
        self.put.append(Put(key, value, kept.entry if kept else None))
        if last is None:
            name = f"{self.scope.name}{key}"
            self.changes.append(f"{name}={value} comes: {_COMING[key]}")
        else:
            self.changes.append(f"line {last.entry.line}: {_shown(last.entry)} becomes {value}: {_COMING[key]}")


_COMING = {
    PROTOCOL: "the rebalance protocol of the group",
    REMOTE_ASSIGNOR: "the broker's assignor",
    STRATEGY: "the client's assignor that does the same",
    SESSION: "the session timeout is the client's again",
}


def _mapped(strategies: Iterable[str]) -> tuple[str | None, list[str]]:
    """The server-side counterpart of the first known assignor of a client's list, and those that have none.

    Members vote for the first of the list.
    """
    known = [(name, server_assignor(name)) for name in strategies]
    unknown = [name for name, assignor in known if assignor is None]
    return next((assignor for _, assignor in known if assignor is not None), None), unknown


def _shown(entry: ConfigEntry) -> str:
    value = shown((entry.value or "").strip())
    return f"{entry.full}={value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + '...'}"
