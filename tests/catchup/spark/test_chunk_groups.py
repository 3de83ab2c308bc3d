"""What the ledger knows of chunks before Spark writes them."""

from __future__ import annotations

import pytest

from kgroup.catchup.spark.chunk_groups import may_repeat
from kgroup.groups.catchup.model import Chunk, ChunkProgress
from tests.helpers.catchup.plans import made

CHUNK = Chunk("orders", 0, 100, 120, 0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, (100, 20)),
        (made(0, 100), (100, 20)),  # an attempt that has written nothing
        (made(0, 100, may_repeat=20), (100, 20)),  # the second attempt, and the third
        (made(0, 100, may_repeat=60), (100, 60)),  # of a kgroup that counted attempts
        (made(0, 110), (110, 10)),
    ],
)
def test_records_are_possible_duplicates_once_however_often_they_are_written(
    before: ChunkProgress | None, after: tuple[int, int]
) -> None:
    (row,) = may_repeat([CHUNK], {} if before is None else {0: before}, 3, 5)

    assert (row.chunk, row.epoch, row.at_ms) == (0, 3, 5)
    assert (row.delivered_to, row.may_repeat) == after
