"""How much of the log is in memory at once; what a scan reads is tested where it is used."""

from __future__ import annotations

import pytest

from kgroup.cluster.offsets_topic.scan import full_window_of


@pytest.mark.parametrize(
    ("partitions", "records"), [(0, 16_384), (1, 16_384), (4, 16_384), (8, 8_192), (50, 1_310), (1_000, 512)]
)
def test_the_more_partitions_are_read_in_parallel_the_smaller_are_their_windows(partitions: int, records: int) -> None:
    assert full_window_of(partitions) == records
