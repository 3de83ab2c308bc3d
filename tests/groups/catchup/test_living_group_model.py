"""What members, rebalances, kills and operators can do to a release in a living group, explored to the last state."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.catchup.living_group_model import RULES, LivingGroup

TWO = {"members": 2, "partitions": 1}
"""Two members of which one is killed or expelled, while an operator resumes or cancels."""
RESTARTED = {"members": 1, "joins": 1, "partitions": 2, "rebalances": 2, "resets": 1, "operators": 0}
"""A member, the one after it, and an operator who moves one of two partitions back."""
REPLAYED = {"members": 1, "joins": 1, "partitions": 1, "rebalances": 2, "resets": 1, "operators": 2}
NEEDED: dict[str, dict[str, Any]] = {
    "ledger-first": TWO,
    "fenced-commit": TWO,
    "membership": TWO,
    "in-doubt": TWO,
    "void-check": RESTARTED,
    "overlap-check": REPLAYED,
}
"""For each rule the sizes at which records are lost, or come twice, without it."""


@pytest.mark.parametrize(
    "sizes",
    [
        TWO,
        RESTARTED,
        pytest.param(TWO | {"rebalances": 2}, marks=pytest.mark.soak),
        pytest.param({"members": 2, "partitions": 2}, marks=pytest.mark.soak),
    ],
    ids=str,
)
def test_no_record_is_lost_and_none_comes_twice(sizes: dict[str, Any]) -> None:
    explored = LivingGroup(**sizes).explore()

    assert explored.violation is None, explored.trace
    assert explored.states > 1000


@pytest.mark.parametrize("rule", [pytest.param(rule, marks=pytest.mark.soak) if rule == "overlap-check" else rule
                                  for rule in sorted(RULES)])  # fmt: skip
def test_each_rule_is_needed(rule: str) -> None:
    explored = LivingGroup(**NEEDED[rule], without=frozenset({rule})).explore()

    assert explored.violation
    assert len(explored.trace) > 3
