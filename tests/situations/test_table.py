"""Rows expect what kgroup can say: statuses and rules that exist, words that are regular expressions."""

import re

import pytest

from kgroup.groups.doctor.rules import RULES
from kgroup.groups.lag.status import LagStatus
from tests.situations.row import Moment, Row, Says
from tests.situations.table import ROWS

STATUSES = {status.code for status in LagStatus}
RULE_IDS = {rule.id for rule in RULES}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.id))
def test_a_row_expects_what_can_be_said(row: Row) -> None:
    for then in (row.then(moment) for moment in Moment):
        for says in (then.right, then.allowed, then.wrong):
            assert set(says.lag.split()) <= STATUSES
            assert set(says.rules.split()) <= RULE_IDS
            for words in (says.describe, says.doctor, says.peek, says.history):
                re.compile(words)
        assert not set(then.right.lag.split()) & set(then.wrong.lag.split())
        assert not set(then.right.rules.split()) & set(then.wrong.rules.split())


def test_a_healthy_row_calls_nothing_right() -> None:
    assert [row.id for row in ROWS if row.healthy and row.right != Says()] == []


def test_a_third_is_healthy() -> None:
    assert 3 * sum(row.healthy for row in ROWS) >= len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.id))
def test_offsets_of_actions_are_of_a_place_that_the_row_names(row: Row) -> None:
    for action in row.begin:
        if action.do in ("reset", "delete-records", "pending"):
            assert action.what.partition("=")[0] in {at.place for at in row.at}
