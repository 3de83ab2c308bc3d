"""The explanations for ``kgroup doctor --explain``, read from ``kgroup/data`` and checked: every rule has one."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

from kgroup.groups.doctor.explanation import Explanation
from kgroup.groups.doctor.rules import BY_ID, ORDER
from kgroup.support.errors import KgroupError, NotFound

FILE = "doctor_rules.yaml"
_TEXTS = ("what", "why")
_LISTS = ("see", "mend")


@cache
def explanations() -> dict[str, Explanation]:
    """All explanations by rule id, in the table's order. Raises KgroupError if the file is invalid."""
    try:
        text = files("kgroup").joinpath("data", FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _broken(f"can't be read: {error}") from error
    found = parse_explanations(text, ORDER)
    return {rule: found[rule] for rule in ORDER}


def explain(rule: str) -> Explanation:
    """The explanation of one rule. Raises NotFound, with similar ids, for an unknown rule."""
    if rule not in BY_ID:
        near = get_close_matches(rule, ORDER, n=3, cutoff=0.5)
        hint = f"Near: {', '.join(near)}" if near else f"There are {', '.join(ORDER)}"
        raise NotFound(f'the doctor has no rule "{rule}"', hint=hint)
    return explanations()[rule]


def parse_explanations(text: str, rules: Collection[str]) -> dict[str, Explanation]:
    """The explanations; each rule must occur once. Raises KgroupError, with the row, for anything else."""
    import yaml  # imported here: only one verb reads this file

    try:
        data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise _broken(f"not YAML: {' '.join(str(error).split())}") from error
    rows = data.get("rules") if isinstance(data, dict) else None
    if not isinstance(rows, list):
        raise _broken("there is no list of rules in it")
    found: dict[str, Explanation] = {}
    for number, row in enumerate(rows, 1):
        explanation = _row(f"row {number}", row)
        if explanation.rule in found:
            raise _broken(f"{explanation.rule} is there twice")
        if explanation.rule not in rules:
            raise _broken(f"there is no rule {explanation.rule}")
        found[explanation.rule] = explanation
    if missing := [rule for rule in rules if rule not in found]:
        raise _broken(f"nothing is said of {', '.join(missing)}")
    return found


def _row(place: str, row: Any) -> Explanation:
    if not isinstance(row, dict):
        raise _broken(f"{place} is not a row of fields")
    place = f"{place} ({row.get('id')})"
    fields = ("id", *_TEXTS, *_LISTS)
    if unknown := sorted(str(name) for name in row.keys() - set(fields)):
        raise _broken(f"{place} has fields that mean nothing: {', '.join(unknown)}")
    for name in ("id", *_TEXTS):
        if not _is_text(row.get(name)):
            raise _broken(f"{place} needs {name}, as text")
    for name in _LISTS:
        items = row.get(name)
        if not isinstance(items, list) or not items or not all(map(_is_text, items)):
            raise _broken(f"{place} needs {name}, as a list of texts")
    return Explanation(row["id"], row["what"], row["why"], tuple(row["see"]), tuple(row["mend"]))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _broken(what: str) -> KgroupError:
    return KgroupError(
        f"kgroup/data/{FILE} is broken: {what}",
        hint="Install kgroup again; this file came with it",
        code="broken-data",
    )
