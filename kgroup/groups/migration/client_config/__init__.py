"""Rewrites the configuration of a consumer for the other rebalance protocol; pure: text in, text out.

Java's properties files, librdkafka's and YAML, also with the prefixes of frameworks
(``spring.kafka.consumer.properties.``, ``mp.messaging.incoming.orders.``). Lines that need no change stay as they are,
and the outcome is read again: it differs in the settings that are meant, or an error says why not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kgroup.groups.migration.client_config.decide import ConfigChange, strategies_of, to_classic, to_consumer
from kgroup.groups.migration.client_config.diff import split_lines, unified
from kgroup.groups.migration.client_config.edit import Span, edited
from kgroup.groups.migration.client_config.entries import ConfigFile, Kind
from kgroup.groups.migration.client_config.names import MATTER
from kgroup.groups.migration.client_config.notes import classic_notes, consumer_notes
from kgroup.groups.migration.client_config.properties import read_properties
from kgroup.groups.migration.client_config.recognise import flavours_of, looks_like_yaml, may_be_properties
from kgroup.groups.migration.client_config.scopes import ConsumerScopes, find_scopes
from kgroup.groups.migration.client_config.yaml_text import read_yaml
from kgroup.support.errors import ConfigError

__all__ = ["Rewritten", "rewrite"]

_LONGEST = 512 * 1024
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A client's configuration before and after.

    ``before`` is the file as it was recognised and read, ``after`` the whole text, the same but for the ``spans``.
    ``changes`` say what went, what came and why, a line each; ``notes`` what else changes in behaviour, and what stands
    in code. ``assignor`` is the server-side one, None where the file's has no equal there: the notes say so then.
    ``strategies`` are the client's own as the file names them, in their order. Secrets stand in ``before`` and
    ``after`` alone.
    """

    before: ConfigFile = field(repr=False)
    after: str = field(repr=False)
    spans: tuple[Span, ...] = field(repr=False)
    changes: tuple[str, ...]
    notes: tuple[str, ...]
    assignor: str | None
    strategies: tuple[str, ...]

    @property
    def kind(self) -> Kind:
        """What it was recognised as: java, librdkafka or yaml."""
        return self.before.kind

    def diff(self, name: str) -> str:
        """The unified diff without context, each line ended with a line feed; empty where nothing changes.

        What is on a changed line besides the setting itself, such as a comment, is hidden.
        """
        return "".join(f"{line}\n" for line in unified(self.before, self.spans, name))


def rewrite(
    text: str,
    target: Literal["consumer", "classic"],
    *,
    name: str = "",
    assignor: str | None = None,
    session_timeout_ms: int | None = None,
) -> Rewritten:
    """A consumer's configuration for the ``target`` protocol.

    ``name`` is the file's, for messages, and its ending tells YAML. ``assignor`` is the server-side assignor that suits
    the group: it counts where the file says nothing of its own, and is not on the protocol already.
    ``session_timeout_ms`` is what the client gets on the way back. Raises ConfigError, with file and line, for what
    can't be read, is no client's configuration, or can't be changed by lines.
    """
    name = name or "the configuration"
    _refuse_what_is_no_text(text, name)
    reading = _recognised(text, name)
    flavours, guessed = flavours_of(reading)
    if reading.kind != "yaml" and flavours == ("librdkafka",):
        reading = _unambiguous(reading, name)
    found = find_scopes(reading, name)
    if target == "consumer":
        decisions = [to_consumer(scope, assignor) for scope in found.scopes]
    else:
        decisions = [to_classic(scope, flavours[0], assignor, session_timeout_ms) for scope in found.scopes]
    after, spans = edited(reading, decisions, lambda changed: _read(changed, name, reading.kind), name)
    if reading.kind == "librdkafka":
        _unambiguous(_read(after, name, "java"), name)
    notes = [*_general_notes(found, decisions, target, guessed=guessed), *found.notes]
    for decision in decisions:
        notes.extend(decision.notes)
        if decision.changes and target == "consumer":
            notes.extend(consumer_notes(decision, flavours))
        elif decision.changes:
            notes.extend(classic_notes(decision, flavours, session_timeout_ms))
    return Rewritten(
        before=reading,
        after=after,
        spans=spans,
        changes=_said(change for decision in decisions for change in decision.changes),
        notes=_said(notes),
        assignor=_common(decision.assignor for decision in decisions),
        strategies=tuple(dict.fromkeys(name for scope in found.scopes for name in strategies_of(scope))),
    )


def _recognised(text: str, name: str) -> ConfigFile:
    if not looks_like_yaml(text, name):
        return _read(text, name, "java")
    try:
        return _read(text, name, "yaml")
    except ConfigError:
        if may_be_properties(text, name):
            return _read(text, name, "java")
        raise


def _read(text: str, name: str, kind: Kind) -> ConfigFile:
    return read_yaml(text, name) if kind == "yaml" else read_properties(text, name, kind)


def _refuse_what_is_no_text(text: str, name: str) -> None:
    if len(text) > _LONGEST:
        raise ConfigError(f"{name}: {len(text)} characters are too many for a client's configuration")
    wrong = _CONTROL.search(text)
    if wrong is not None:
        line = len(split_lines(text[: wrong.start() + 1]))
        raise ConfigError(f"{name}:{line}: not text: the character {wrong.group()!r} is in it")


def _unambiguous(java: ConfigFile, name: str) -> ConfigFile:
    """The file as librdkafka's. Raises ConfigError where a backslash at a line's end makes it two different files."""
    plain = read_properties(java.text, name, "librdkafka")

    def ours(reading: ConfigFile) -> set[tuple[str, int, int]]:
        found = find_scopes(reading, name)
        return {
            (s.key, s.entry.start, s.entry.end) for scope in found.scopes for s in scope.settings if s.key in MATTER
        }

    joined = next((entry.line for entry in java.entries if "\\" in java.text[entry.start : entry.end]), None)
    if joined is not None and ours(java) != ours(plain):
        raise ConfigError(
            f"{name}:{joined}: a backslash ends a line: to Java the next one is part of it, to librdkafka it is not",
            hint="Write each setting on one line.",
        )
    return plain


def _general_notes(
    found: ConsumerScopes, decisions: Sequence[ConfigChange], target: str, *, guessed: str | None
) -> Iterable[str]:
    if not any(decision.changes for decision in decisions):
        if not any(decision.notes for decision in decisions) and decisions:
            yield f"nothing to change: it is on the {target} protocol already"
        else:
            yield "nothing is changed"
    if len(found.scopes) > 1:
        names = ", ".join(scope.name.rstrip(".") or "(no prefix)" for scope in found.scopes)
        yield f"{len(found.scopes)} consumers stand in it, and all of them are changed: {names}"
    if guessed is not None:
        yield guessed


def _common(assignors: Iterable[str | None]) -> str | None:
    """The assignor of all consumers of a file, None where one has none, or where they differ."""
    different = set(assignors)
    return different.pop() if len(different) == 1 else None


def _said(lines: Iterable[str]) -> tuple[str, ...]:
    """Each once, without line ends and terminal codes: escapes in a file may stand for any character."""
    plain = (" ".join(line.split()) for line in lines)
    return tuple(dict.fromkeys("".join(char if char.isprintable() else "?" for char in line) for line in plain))
