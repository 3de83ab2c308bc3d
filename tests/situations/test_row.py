"""The table itself."""

import re

import pytest

from tests.situations.row import Row
from tests.situations.table import ROWS

OFFSET = re.compile(r"[PBCE]([+-]\d+)?")


def test_ids_are_unique() -> None:
    ids = [row.id for row in ROWS]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.id))
def test_a_row_is_of_one_piece(row: Row) -> None:
    """Its programs read its topics, its places are of its topics, its offsets are symbols."""
    assert {topic for program in row.programs for topic in program.topics} <= set(row.topics)
    names = [program.name for program in row.programs]
    assert len(names) == len(set(names))
    for at in row.at:
        topic, _, partition = at.place.rpartition(":")
        assert int(partition) < row.topics[topic]
        for offset in (*at.offset.split(), *at.committed.split()):
            assert OFFSET.fullmatch(offset), offset
    assert row.id.startswith("h-") == row.healthy


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.id))
def test_a_sick_row_says_where_and_what_is_right(row: Row) -> None:
    if row.healthy:
        assert not row.at
        assert not row.begin or row.cause
    else:
        assert row.unseen or any((row.right.lag, row.right.rules, row.right.describe, row.right.history))
