"""Rewrites the configuration of a consumer for the other rebalance protocol; pure: text in, text out.

It reads Java's properties files, librdkafka's, and YAML, also with the prefixes of frameworks
(``spring.kafka.consumer.properties.``, ``mp.messaging.incoming.orders.``). Other lines stay unchanged. The result is
read again: if it differs in more or less than the intended settings, a ConfigError is raised.
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

    ``before`` is the file as it was read, ``after`` the whole new text; they differ only in the ``spans``.
    ``changes`` are lines about removed and added settings and the reasons; ``notes`` are lines about other changes of
    behaviour and about the application's code. ``assignor`` is the server-side one, None if the consumers of the file
    differ, or if the file's has no counterpart (a note then names it). ``strategies`` are the client's assignors in
    the file, in order. Only ``before`` and ``after`` contain secrets.
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
        """The recognised kind of file: java, librdkafka or yaml."""
        return self.before.kind

    def diff(self, name: str) -> str:
        """The unified diff without context lines; each line ends with a line feed. Empty if nothing changes.

        The rest of a changed line, such as a comment, is hidden.
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
    """Rewrite a consumer's configuration for the ``target`` protocol.

    ``name`` is the file's name, for messages; its ending decides whether it is YAML. ``assignor`` is the server-side
    assignor that suits the group. It is used if the file names no assignor and is not on the consumer protocol
    already. ``session_timeout_ms`` is written for a move to classic. Raises ConfigError, with file and line, if the
    file cannot be read, is not a client's configuration, or cannot be changed line by line.
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
    """The file read as librdkafka's; raises ConfigError if a backslash at a line's end gives Java other settings."""
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
    """The common assignor of all consumers of a file; None if one has none or they differ."""
    different = set(assignors)
    return different.pop() if len(different) == 1 else None


def _said(lines: Iterable[str]) -> tuple[str, ...]:
    """Each line once, without line ends and terminal codes: escapes in the file can produce any character."""
    plain = (" ".join(line.split()) for line in lines)
    return tuple(dict.fromkeys("".join(char if char.isprintable() else "?" for char in line) for line in plain))
