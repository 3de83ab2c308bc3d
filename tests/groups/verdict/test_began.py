"""Which lag began with a change of the group's members."""

from __future__ import annotations

from typing import Any

import pytest

from kgroup.groups.history.roster import RosterChange
from kgroup.groups.lag.measure import measure_lag
from kgroup.groups.verdict.began import change_moments, lag_began_with
from kgroup.groups.verdict.group import group_verdict
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.cases.lag import MINUTE, NOW, Part, at, evidence, group

SLOW: dict[str, Any] = {"incoming": 100.0, "outgoing": 60.0}
CHANGED = RosterChange(NOW - 20 * MINUTE, NOW - 19 * MINUTE, 3, 1)
LONG_AGO = RosterChange(NOW - 40 * MINUTE, NOW - 19 * MINUTE, 3, 1)
TP = TopicPartition("orders", 0)
PART = Part(
    0,
    40_000,
    committed=80_000,
    **SLOW,
    commits=tuple(at(ago * MINUTE, 80_000 - ago * 2_000) for ago in range(30, -1, -1)),
)
"""It committed 40,000 as the members changed, and 62,000 ten minutes later; 120,000 is the end."""


@pytest.mark.parametrize(
    ("ends", "roster", "began"),
    [
        pytest.param((40_500, 82_000), CHANGED, True, id="it was small, and then was not"),
        pytest.param((50_000, 82_000), CHANGED, False, id="it was there before"),
        pytest.param((40_000, 62_050), CHANGED, False, id="it came long after"),
        pytest.param((40_500, 82_000), None, False, id="no change"),
        pytest.param(None, CHANGED, False, id="the log ends of that time are unknown"),
        pytest.param((0, 82_000), LONG_AGO, False, id="before all commits"),
        pytest.param((40_500, 62_000 + 10**6), CHANGED, False, id="most of it has gone since"),
    ],
)  # fmt: skip
def test_a_lag_that_began_with_a_change(ends: tuple[int, int] | None, roster: RosterChange | None, began: bool) -> None:
    about = group([PART])
    known = evidence([PART], roster=roster, change_ends={} if ends is None else {TP: ends})

    assert lag_began_with(measure_lag(about, known), known) == (roster if began else None)
    said = group_verdict(about, known).next or ""
    assert ("the lag began as 3 members became 1 at " in said) is began


def test_the_moments_that_are_read() -> None:
    assert change_moments(evidence([PART])) is None
    assert change_moments(evidence([PART], roster=CHANGED)) == (NOW - 20 * MINUTE, NOW - 9 * MINUTE)
    just_now = RosterChange(NOW - MINUTE, NOW - MINUTE, 3, 1)
    assert change_moments(evidence([PART], roster=just_now)) == (NOW - MINUTE, NOW)
