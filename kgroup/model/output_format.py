"""The formats of ``--output``, and which verb has which."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """Output formats; docs/reference/output.md describes them."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    MARKDOWN = "markdown"
    NAME = "name"
    JSONL = "jsonl"
    KCG = "kcg"
    PROMETHEUS = "prometheus"

    @property
    def is_page(self) -> bool:
        return self in (Format.TABLE, Format.WIDE, Format.MARKDOWN)


OF_ONE_VERB = {Format.JSONL: "peek", Format.KCG: "export", Format.PROMETHEUS: "lag"}
"""The formats that a single verb has."""

_WITH_NAMES = frozenset({"catchup", "catchup list", "describe", "doctor", "lag", "list"})
"""The verbs whose results have names: of groups, or the ids of plans."""

_ONLY_TEXT = frozenset({"completion"})
"""Verbs whose output is a text for another program."""


def formats_of(verb: str) -> tuple[Format, ...]:
    """The formats that the verb has; none for one that has only its text."""
    if verb in _ONLY_TEXT:
        return ()
    return tuple(
        each
        for each in Format
        if OF_ONE_VERB.get(each, verb) == verb and (each is not Format.NAME or verb in _WITH_NAMES)
    )


def default_format(verb: str, *, to_pipe: bool) -> Format:
    """The format without ``-o``: KCG for export, JSON lines for peek into a pipe, otherwise the table."""
    if verb == OF_ONE_VERB[Format.KCG]:
        return Format.KCG
    return Format.JSONL if to_pipe and verb == OF_ONE_VERB[Format.JSONL] else Format.TABLE
