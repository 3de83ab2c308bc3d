"""The explanations for ``kgroup doctor --explain``, read from ``kgroup/data``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from kgroup.groups.doctor.finding import Rule
from kgroup.groups.doctor.rules import BY_ID, ORDER, RuleExplanation, ThresholdDocument
from kgroup.queries.data_files import read_tables
from kgroup.support.errors import NotFound

_TYPO = 0.75
_NAMED = 3


@cache
def explanations() -> dict[str, RuleExplanation]:
    """All explanations by rule id, in the order of the rules. Raises KgroupError if the file is damaged."""
    return read_tables(_explanations, "doctor_rules.yaml")


def _explanations(tables: Mapping[str, Any]) -> dict[str, RuleExplanation]:
    rows = {row["id"]: row for row in tables["rules"]}
    return {name: _explanation(BY_ID[name], rows[name]) for name in ORDER}


def _explanation(rule: Rule, row: Mapping[str, Any]) -> RuleExplanation:
    return RuleExplanation(
        rule=rule.id,
        scope=rule.scope,
        meaning=rule.meaning,
        description=row["description"],
        impact=row["impact"],
        how_to_see=tuple(row["how_to_see"]),
        how_to_fix=tuple(row["how_to_fix"]),
        thresholds=tuple(ThresholdDocument(t.name, t.value, t.unit or None, t.reason) for t in rule.thresholds),
        source=rule.source,
    )


def explain(rule: str) -> RuleExplanation:
    """The explanation of one rule. Raises NotFound, with similar ids, for an unknown rule."""
    if rule not in BY_ID:
        near = _similar(rule)
        hint = f"Near: {', '.join(near)}" if near else f"There are {', '.join(ORDER)}"
        raise NotFound(f'the doctor has no rule "{rule}"', hint=hint)
    return explanations()[rule]


def _similar(word: str) -> list[str]:
    """At most three rules: a misspelt id, else rules whose explanation has the word, else ids with similar letters."""
    if near := get_close_matches(word, ORDER, n=3, cutoff=_TYPO):
        return near
    sought = re.compile(rf"\b{re.escape(word.replace('-', ' '))}", re.IGNORECASE)
    about = [
        rule
        for rule, it in explanations().items()
        if any(sought.search(text) for text in (it.description, it.impact, *it.how_to_see, *it.how_to_fix))
    ]
    return about[:_NAMED] or get_close_matches(word, ORDER, n=_NAMED, cutoff=0.5)
