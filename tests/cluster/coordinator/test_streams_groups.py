"""What members of streams groups report of their tasks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kgroup.cluster.coordinator.streams_groups import streams_member
from kgroup.model.streams_group import StreamsTask

_UNKNOWN = (1 << 63) - 1


def row(offset: int, end: int) -> Any:
    """A member that reports this offset and end of task 1_0, as API 89 has it."""
    none = SimpleNamespace(active_tasks=(), standby_tasks=(), warmup_tasks=())

    def reported(number: int) -> Any:
        return SimpleNamespace(subtopology_id="1", partition=0, offset=number)

    return SimpleNamespace(
        process_id="p",
        topology_epoch=0,
        assignment=none,
        target_assignment=none,
        task_offsets=[reported(offset)],
        task_end_offsets=[reported(end)],
    )


@pytest.mark.parametrize(
    ("offset", "end", "lag"),
    [
        (3, 10, 7),
        (10, 10, 0),
        (11, 10, 0),  # seen: one more than the end
        (0, _UNKNOWN, None),  # seen: a member that does not know the end of an empty changelog
        (_UNKNOWN, 10, None),
    ],
)
def test_the_lag_of_a_copy_is_unknown_where_a_member_does_not_know_it(offset: int, end: int, lag: int | None) -> None:
    assert streams_member(row(offset, end)).lags.get(StreamsTask("1", 0)) == lag
