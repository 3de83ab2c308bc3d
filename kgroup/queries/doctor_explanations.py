"""The explanations for ``kgroup doctor --explain``, read from ``kgroup/data``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from kgroup.groups.doctor.rules import BY_ID, ORDER, Explanation
from kgroup.queries.data_files import read_tables
from kgroup.support.errors import NotFound

_TYPO = 0.75
_NAMED = 3


@cache
def explanations() -> dict[str, Explanation]:
    """All explanations by rule id, in the order of the rules. Raises KgroupError if the file is damaged."""
    return read_tables(_explanations, "doctor_rules.yaml")


def _explanations(tables: Mapping[str, Any]) -> dict[str, Explanation]:
    rows = {row["id"]: row for row in tables["rules"]}
    return {
        rule: Explanation(rule, row["description"], row["impact"], tuple(row["how_to_see"]), tuple(row["how_to_fix"]))
        for rule in ORDER
        for row in [rows[rule]]
    }


def explain(rule: str) -> Explanation:
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
