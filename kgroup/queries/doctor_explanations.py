"""The explanations for ``kgroup doctor --explain``, read from ``kgroup/data``."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from kgroup.groups.doctor.rules import BY_ID, ORDER, Explanation
from kgroup.queries.data_files import read_tables
from kgroup.support.errors import NotFound


@cache
def explanations() -> dict[str, Explanation]:
    """All explanations by rule id, in the order of the rules. Raises KgroupError if the file is damaged."""
    return read_tables(_explanations, "doctor_rules.yaml")


def _explanations(tables: Mapping[str, Any]) -> dict[str, Explanation]:
    rows = {row["id"]: row for row in tables["rules"]}
    return {
        rule: Explanation(rule, row["what"], row["why"], tuple(row["see"]), tuple(row["mend"]))
        for rule in ORDER
        for row in [rows[rule]]
    }


def explain(rule: str) -> Explanation:
    """The explanation of one rule. Raises NotFound, with similar ids, for an unknown rule."""
    if rule not in BY_ID:
        near = get_close_matches(rule, ORDER, n=3, cutoff=0.5)
        hint = f"Near: {', '.join(near)}" if near else f"There are {', '.join(ORDER)}"
        raise NotFound(f'the doctor has no rule "{rule}"', hint=hint)
    return explanations()[rule]
