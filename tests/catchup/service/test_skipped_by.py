"""What a journaled change skipped, as far as the journal and the group's offsets show it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from kgroup.catchup.service.skipped_by import Skipped, skipped_offsets
from kgroup.groups.change_result import UNKNOWN
from kgroup.groups.reset_targets import TopicChoice
from kgroup.model.commit import Commit
from kgroup.model.journal import JournalEntry, JournalRow
from kgroup.model.records import OffsetRange
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.cluster_ref import ClusterRef


def at(offset: int | None) -> Commit | None:
    return None if offset is None else Commit(offset, None, "")


def entry(*rows: tuple[int, int | None, int | None], **results: str | None) -> JournalEntry:
    """A reset of ``g``: (partition, before, after); ``p3="error-code"`` is what came of partition 3, None: done."""
    return JournalEntry(
        "ch-2222",
        datetime(2026, 11, 21, tzinfo=UTC),
        "maria@jump-1",
        "reset",
        "g",
        (),
        None,
        ClusterRef("c", "h:1", None),
        {"g": "classic"},
        {"t": None},
        tuple(JournalRow("g", "t", number, at(before), at(after)) for number, before, after in rows),
        results={("g", "t", int(key[1:])): code for key, code in results.items()},
        ended=datetime(2026, 11, 21, tzinfo=UTC),
    )


def t(partition: int, start: int, end: int) -> OffsetRange:
    return OffsetRange("t", partition, start, end)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (entry((0, 70, 120), p0=None), Skipped((t(0, 70, 120),))),
        (entry((0, 120, 70), (1, 5, 5), (2, 5, None), p0=None, p1=None, p2=None), Skipped()),
        (entry((0, 70, 120), p0="not-empty"), Skipped()),
        (entry((0, 70, 120), p0=UNKNOWN), Skipped(doubtful=(t(0, 70, 120),))),
        (entry((0, 70, 120)), Skipped()),  # it was told to stop before it got there
        (replace(entry((0, 70, 120)), ended=None), Skipped(doubtful=(t(0, 70, 120),))),
        (entry((0, None, 120), p0=None), Skipped(unbounded=(TopicPartition("t", 0),))),
        (entry((1, 1, 2), (0, 70, 120), p0=None, p1=None), Skipped((t(0, 70, 120), t(1, 1, 2)))),
        (entry((9, 1, 2), p9=None), Skipped(back=(t(9, 1, 2),))),
    ],
)
def test_what_is_known_to_be_skipped(change: JournalEntry, found: Skipped) -> None:
    assert skipped_offsets(change, "g", (), {("g", "t", 9)}) == found
    # What an undo may have taken back, nobody knows: it is never left to the group as if it was.
    unsure = skipped_offsets(change, "g", (), (), {row.key for row in change.rows})
    assert (unsure.ranges, unsure.back) == ((), ())
    assert {*unsure.doubtful} >= {*found.ranges}
    assert skipped_offsets(change, "other", (), ()) == Skipped()
    assert skipped_offsets(change, "g", (TopicChoice("u", None),), ()) == Skipped()
