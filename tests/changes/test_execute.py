"""What the read-back of a row shows after the broker has answered that it is done."""

from __future__ import annotations

import pytest

from kgroup.changes.execute import ended_row
from kgroup.cluster.coordinator.offset_fetch import CommittedOffsets
from kgroup.groups.change_plan import ChangeRow
from kgroup.model.commit import Commit
from kgroup.model.groups import RowError
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.share_plans import row, start

NOT_DONE = RowError("interrupted", "not done")


def ended(planned: ChangeRow, stored: Commit | None) -> ChangeRow:
    offsets: CommittedOffsets = {} if stored is None else {TopicPartition("orders", 0): stored}
    return ended_row(planned, {(planned.group, *planned.tp): None}, {planned.group: offsets}, NOT_DONE)


@pytest.mark.parametrize(
    ("old", "new", "stored", "code", "done"),
    [
        (0, 5, 5, None, True),
        (0, 5, 0, "not-verified", False),
        (None, 5, None, "not-verified", False),
        (5, None, 5, "not-verified", False),
        (0, 5, 7, None, True),
        (5, 5, 5, None, True),
    ],
)
def test_a_start_offset_is_set_only_if_it_is_read_back(
    old: int | None, new: int | None, stored: int | None, code: str | None, done: bool
) -> None:
    """One that is neither the old nor the new one was moved by a member since."""
    result = ended(row(old, new, 3), start(stored))
    assert (result.error.code if result.error else None, result.done) == (code, done)
    assert result.verified is (stored == new)
