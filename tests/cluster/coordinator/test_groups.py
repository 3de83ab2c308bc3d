"""Which row of an answer is believed of a group that has several: Kafka 4.0.0 sends one for each offsets partition."""

from __future__ import annotations

import pytest

from kgroup.cluster.broker_errors import COORDINATOR_LOAD_IN_PROGRESS, GROUP_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND
from kgroup.cluster.coordinator.groups import row_of_each_group

ABSENT, LOADING, FORBIDDEN = GROUP_ID_NOT_FOUND, COORDINATOR_LOAD_IN_PROGRESS, GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("codes", "believed"),
    [
        ([0], 0),
        ([ABSENT], ABSENT),
        ([0, ABSENT, ABSENT], 0),
        ([ABSENT, 0, ABSENT], 0),
        ([ABSENT, ABSENT, 0], 0),
        ([ABSENT, ABSENT], ABSENT),
        ([LOADING, ABSENT], LOADING),
        ([ABSENT, LOADING, ABSENT], LOADING),
        ([ABSENT, FORBIDDEN], FORBIDDEN),
        ([LOADING, 0], 0),
        ([0, LOADING], 0),
    ],
)
def test_the_row_to_believe(codes: list[int], believed: int) -> None:
    rows = [("a", code, f"row {at}") for at, code in enumerate(codes)]
    assert row_of_each_group(rows) == {"a": (believed, f"row {codes.index(believed)}")}


def test_the_answer_of_4_0_0() -> None:
    """Four groups in four partitions: each partition's coordinator answers for all of them."""
    groups = ["a", "b", "c", "d"]
    rows = [(group, 0 if group == kept else ABSENT, f"{group} of {kept}") for kept in groups for group in groups]
    assert row_of_each_group(rows) == {group: (0, f"{group} of {group}") for group in groups}
