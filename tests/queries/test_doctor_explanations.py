"""What --explain says: there is a text for every rule, and a wrong file does not go unseen."""

from __future__ import annotations

import json
import re

import pytest

from kgroup.groups.doctor.rules import ORDER, RULES
from kgroup.queries.doctor_explanations import explain, explanations, parse_explanations
from kgroup.support.errors import KgroupError, NotFound

ROW = "{id: a, what: x, why: y, see: [s], mend: [m]}"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_is_explained(rule: object) -> None:
    rule_id = rule.id  # type: ignore[attr-defined]
    found = explain(rule_id)

    assert found.rule == rule_id
    assert len(found.what) > 40
    assert len(found.why) > 40
    assert found.see
    assert found.mend
    document = json.loads(json.dumps(found.document()))
    assert document["source"]
    assert document["meaning"]


def test_they_come_in_the_order_of_the_table() -> None:
    assert tuple(explanations()) == ORDER


def test_rules_that_the_texts_name_exist() -> None:
    for found in explanations().values():
        for text in (found.what, found.why, *found.see, *found.mend):
            for named in re.findall(r"\brules? ([a-z]+-[a-z-]+)", text):
                assert named in ORDER, found.rule


def test_an_unknown_rule_has_near_misses() -> None:
    with pytest.raises(NotFound) as raised:
        explain("rebalance-strom")

    assert "rebalance-storm" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules: [", "not YAML"),
        ("other: []", "no list"),
        ("[]", "no list"),
        ("rules: [1]", "not a row"),
        (f"rules: [{ROW}]", "nothing is said of b"),
        (f"rules: [{ROW}, {ROW}]", "a is there twice"),
        ("rules: [{id: c, what: x, why: y, see: [s], mend: [m]}]", "no rule c"),
        ("rules: [{id: a, what: x, why: y, see: [s], mend: []}]", "needs mend"),
        ("rules: [{id: a, what: 1, why: y, see: [s], mend: [m]}]", "needs what"),
        ("rules: [{id: a, what: x, why: y, see: [s], mend: [m], tip: z}]", "mean nothing: tip"),
    ],
)
def test_a_broken_file(text: str, said: str) -> None:
    with pytest.raises(KgroupError, match=said):
        parse_explanations(text, ("a", "b"))
