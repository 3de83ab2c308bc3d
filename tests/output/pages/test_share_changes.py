"""What a plan shows of share groups: what comes again, what is skipped, where they start next."""

from __future__ import annotations

import pytest

from kgroup.groups.change_plan import ChangePlan, ChangeRow
from kgroup.model.blocks import LabelledLine
from kgroup.model.share_group import ShareSettings
from kgroup.output.pages.share_changes import share_blocks
from tests.helpers.share_plans import row, share_group


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([row(5, 0, 3)], "lag 3 now, 20 then: 17 that count as done are delivered again"),
        ([row(0, 20, 3)], "lag 3 now, 0 then: 3 that are not done are skipped"),
        (
            [row(0, 10, 3)],
            "lag 3 now, 10 then: at most 10 that count as done are delivered again, "
            "at most 3 that are not done are skipped",
        ),
        (
            [row(5, 0, 3), row(None, 0, None)],
            "lag unknown now, 40 then: every record from the start offset on is delivered, done or not",
        ),
    ],
)
def test_the_price_of_start_offsets(rows: list[ChangeRow], line: str) -> None:
    assert lines(ChangePlan((share_group({0: 0}),), rows))[0] == f"jobs: {line}"


@pytest.mark.parametrize(
    ("next_start", "words"),
    [
        ("latest", "at the log end (share.auto.offset.reset=latest): 4 records not done are passed over"),
        ("earliest", "at the log start (share.auto.offset.reset=earliest): what is done is delivered again"),
        ("by_duration:PT1H", "at share.auto.offset.reset=by_duration:PT1H: what is done since then is delivered again"),
        (None, "by share.auto.offset.reset, which could not be read"),
    ],
)
def test_what_follows_the_deletion_of_start_offsets(next_start: str | None, words: str) -> None:
    settings = None if next_start is None else ShareSettings(next_start)
    plan = ChangePlan((share_group({0: 0}, settings),), [row(0, None, 4)])
    assert lines(plan)[0] == f"jobs: its next start is {words}"


def test_what_is_said_of_a_group_that_is_deleted() -> None:
    plan = ChangePlan((share_group({0: 0}),), [row(0, None, 4)], deleted=frozenset({"jobs"}))
    assert lines(plan)[0] == "jobs: is deleted with a lag of 4; undo creates it again where it has start offsets"


def test_other_groups_have_no_such_lines() -> None:
    plan = ChangePlan((), [row(0, 5, 1)])
    assert lines(plan) == []


def lines(plan: ChangePlan) -> list[str]:
    return [block.text for block in share_blocks(plan) if isinstance(block, LabelledLine)]
