"""Which commits of the log are changes of the journal: by group, partition, offset and time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from kgroup.groups.history.own_changes import OwnChanges
from kgroup.model.group_log import CommitWritten, TransactionEnd
from tests.changes.test_journal import entry

CHANGE = replace(entry("ch-7k2f"), ended=entry("ch-7k2f").at + timedelta(seconds=10))
"""It sets orders:0 and orders:1 of svc to 12, and deletes the commit of other."""

MINUTE_MS = 60_000


def commit(partition: int, offset: int | None, away_ms: int = 0) -> CommitWritten:
    return CommitWritten(7, CHANGE.at_ms + away_ms, "orders", partition, offset, "", None, None, TransactionEnd.PLAIN)


@pytest.mark.parametrize(
    ("group", "written", "found"),
    [
        ("svc", commit(0, 12), True),
        ("svc", commit(1, 12), True),
        ("other", commit(0, None), True),
        ("other", commit(0, 12), False),
        ("svc", commit(0, 13), False),
        ("svc", commit(0, None), False),
        ("svc", commit(2, 12), False),
        ("svc", commit(0, 12, -MINUTE_MS), True),  # the clocks may differ
        ("svc", commit(0, 12, -MINUTE_MS - 1), False),
        ("svc", commit(0, 12, MINUTE_MS + 10_000), True),
        ("svc", commit(0, 12, MINUTE_MS + 10_001), False),
    ],
)
def test_a_commit_of_a_change(group: str, written: CommitWritten, found: bool) -> None:
    assert OwnChanges([CHANGE]).of(group, written) == ("ch-7k2f" if found else None)


def test_of_two_changes_the_nearer_one() -> None:
    changes = OwnChanges([entry("ch-7k2f"), entry("ch-9b4k", minutes=1)])

    assert changes.of("svc", commit(0, 12, MINUTE_MS - 1)) == "ch-9b4k"
