"""What --explain says: every rule has one complete text."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kgroup.groups.doctor.rules import ORDER, RULES
from kgroup.queries.data_files import read_tables
from kgroup.queries.doctor_explanations import explain, explanations
from kgroup.support.errors import NotFound


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_is_explained(rule: object) -> None:
    rule_id = rule.id  # type: ignore[attr-defined]
    found = explain(rule_id)

    assert found.rule == rule_id
    assert len(found.description) > 40
    assert len(found.impact) > 40
    assert found.how_to_see
    assert found.how_to_fix
    assert found.source
    assert found.meaning


def test_each_rule_has_one_row_of_texts() -> None:
    tables: dict[str, Any] = read_tables(dict, "doctor_rules.yaml")

    assert set(tables) == {"rules"}
    assert sorted(row["id"] for row in tables["rules"]) == sorted(ORDER)
    assert tuple(explanations()) == ORDER
    for row in tables["rules"]:
        assert set(row) == {"id", "description", "impact", "how_to_see", "how_to_fix"}, row["id"]
        assert all(isinstance(row[name], str) and row[name].strip() for name in ("description", "impact")), row["id"]
        for name in ("how_to_see", "how_to_fix"):
            assert row[name], row["id"]
            assert all(isinstance(text, str) and text.strip() for text in row[name]), row["id"]


def test_rules_that_the_texts_name_exist() -> None:
    for found in explanations().values():
        for text in (found.description, found.impact, *found.how_to_see, *found.how_to_fix):
            for named in re.findall(r"\brules? ([a-z]+-[a-z-]+)", text):
                assert named in ORDER, found.rule


def test_an_unknown_rule_has_near_misses() -> None:
    with pytest.raises(NotFound) as raised:
        explain("rebalance-strom")

    assert "rebalance-storm" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("topic-gon", "Near: topic-gone"),
        ("poison", "Near: stalled-commits"),  # by what its text says, and not by its letters
        ("not_static", "Near: not-static"),
        ("zzzzz", "There are "),
    ],
)
def test_an_unknown_rule_is_looked_up_by_its_meaning(word: str, near: str) -> None:
    with pytest.raises(NotFound) as raised:
        explain(word)

    assert (raised.value.hint or "").startswith(near)
