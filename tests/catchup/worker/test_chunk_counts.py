"""What is counted where it is read, without a broker."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kgroup.catchup.worker.chunk_counts import ChunkCount, RecordTally
from kgroup.groups.catchup.model import Chunk, ChunkProgress
from kgroup.groups.catchup.verification import ChunkResult


@dataclass
class Read:
    found: list[int]
    position: int

    def __len__(self) -> int:
        return len(self.found)

    def offsets(self) -> list[int]:
        return self.found


@pytest.mark.parametrize("each", [True, False])
def test_a_tally_knows_how_many_records_lie_below_an_offset(each: bool) -> None:
    """Whether what was read is delivered at once, or waits."""
    tally = RecordTally(7)
    tally.add(Read([10, 12, 13], 15), 10)
    assert [tally.at(position) for position in (10, 11, 12, 13)] == [7, 8, 8, 9]
    tally.add(Read([20], 21), 15 if each else 13)
    tally.add(Read([21, 30], 40), 21 if each else 13)
    expected = {15: 10, 20: 10, 21: 11, 22: 12, 31: 13, 40: 13}
    assert {position: tally.at(position) for position in expected if position >= 21 or not each} == {
        position: number for position, number in expected.items() if position >= 21 or not each
    }


def test_what_was_read_counts_in_place_of_what_the_sink_says() -> None:
    before = ChunkProgress(0, 40, 38, 6, 0, 320, 0, 1)
    count = ChunkCount.of(Chunk("orders", 0, 0, 100, 0), before).with_records(100, 29, 29, 290)

    counted = count.read(35, 5)

    assert counted.run == ChunkResult(0, 40, 100, visible=35, delivered=29, filtered=5, dead=0)
    assert counted.progress(2, 9) == ChunkProgress(0, 100, 38 + 35, 6 + 5, 0, 320 + 290, 9, 2)
    assert counted.read(35, 5) == counted
