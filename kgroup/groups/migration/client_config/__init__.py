"""Lists what has to change in a consumer's configuration when its group moves to the other rebalance protocol. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from kgroup.groups.migration.client_config.decide import (
    ConfigChange,
    Flavour,
    ScopeChanges,
    strategies_of,
    to_classic,
    to_consumer,
)
from kgroup.groups.migration.client_config.names import JAVA_ONLY, LIBRDKAFKA_ONLY, STRATEGY, split_key
from kgroup.groups.migration.client_config.notes import classic_notes, consumer_notes
from kgroup.groups.migration.client_config.scopes import ConfigFile, find_scopes
from kgroup.support.errors import ConfigError

__all__ = ["ConfigPlan", "plan_config"]

_FRAMEWORKS = ("spring.", "mp.messaging.", "quarkus.", "micronaut.", "kafka.consumers.")


class ConfigPlan(msgspec.Struct, frozen=True):
    """What has to change in a client's configuration.

    ``kind`` is java, librdkafka or yaml. ``notes`` are lines about other changes of behaviour and about the
    application's code. ``assignor`` is the server-side one, None if the consumers of the file differ, or if the file's
    has no counterpart (a note then names it). ``strategies`` are the client's assignors in the file, in order.
    """

    kind: str
    changes: tuple[ConfigChange, ...]
    notes: tuple[str, ...]
    assignor: str | None
    strategies: tuple[str, ...]


def plan_config(
    file: ConfigFile,
    target: Literal["consumer", "classic"],
    *,
    assignor: str | None = None,
    session_timeout_ms: int | None = None,
) -> ConfigPlan:
    """The changes of a consumer's configuration for the ``target`` protocol.

    ``assignor`` is the server-side assignor that suits the group. It is used if the file names no assignor and is not
    on the consumer protocol already. ``session_timeout_ms`` is set in a move to classic. Raises ConfigError, with file
    and line, if the file is not the configuration of a client.
    """
    flavours, guess = _flavours(file)
    joined = next((entry for entry in file.entries if entry.last_line > entry.line), None)
    if joined is not None and flavours == ("librdkafka",):
        raise ConfigError(
            f"{file.name}:{joined.line}: the line ends with a backslash, which only Java joins with the next line",
            hint="Write each setting on one line.",
        )
    scopes, scope_notes = find_scopes(file)
    if target == "consumer":
        decisions = [to_consumer(scope, assignor) for scope in scopes]
    else:
        decisions = [to_classic(scope, flavours[0], assignor, session_timeout_ms) for scope in scopes]
    notes = [*_general_notes(decisions, target, guess), *scope_notes]
    for decided in decisions:
        if decided.foreign is not None:
            notes.append(decided.foreign)
        elif decided.changes and target == "consumer":
            notes.extend(consumer_notes(decided, flavours))
        elif decided.changes:
            notes.extend(classic_notes(decided, flavours, session_timeout_ms))
    assignors = {decided.assignor for decided in decisions}
    return ConfigPlan(
        kind="yaml" if file.kind == "yaml" else flavours[0],
        changes=tuple(change for decided in decisions for change in decided.changes),
        notes=tuple(dict.fromkeys(notes)),
        assignor=assignors.pop() if len(assignors) == 1 else None,
        strategies=tuple(dict.fromkeys(name for scope in scopes for name in strategies_of(scope))),
    )


def _flavours(file: ConfigFile) -> tuple[tuple[Flavour, ...], str | None]:
    """The clients that may read the file, the more likely first, and a note if that is a guess (else None)."""
    java = librdkafka = 0
    for entry in file.entries:
        _, key = split_key(entry.key)
        java += key in JAVA_ONLY or entry.key.startswith(_FRAMEWORKS)
        librdkafka += key in LIBRDKAFKA_ONLY
        if key == STRATEGY and entry.value.strip():
            # Java's client accepts classes, librdkafka short names.
            return (("java",) if "." in entry.value else ("librdkafka",)), None
    if java != librdkafka:
        return (("java",) if java > librdkafka else ("librdkafka",)), None
    guess: tuple[Flavour, ...] = ("librdkafka", "java") if file.kind == "yaml" else ("java", "librdkafka")
    name = "Java's client" if guess[0] == "java" else "librdkafka"
    return guess, f"no setting shows whether the file is for Java's client or librdkafka: {name} is assumed"


def _general_notes(decisions: Sequence[ScopeChanges], target: str, guess: str | None) -> Iterator[str]:
    if not any(decided.changes for decided in decisions):
        done = decisions and all(decided.foreign is None for decided in decisions)
        yield f"nothing to change: it is on the {target} protocol already" if done else "nothing is changed"
    if len(decisions) > 1:
        names = ", ".join(decided.scope.prefix.rstrip(".") or "(no prefix)" for decided in decisions)
        yield f"the file configures {len(decisions)} consumers, and the changes are for all of them: {names}"
    if guess is not None:
        yield guess
