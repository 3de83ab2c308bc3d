"""What a look of ``--watch`` adds to the last one's log: the same as if all of it had been read at once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kgroup.cluster.offsets_topic.group_log import GroupLog
from kgroup.groups.lag.from_log import whole_since
from kgroup.model.group_log import CommitWritten, Event, GenerationWritten, MemberWritten, ScannedRange, TransactionEnd
from kgroup.queries.lag_cache import merge_logs

LONG_AGO_MS = -1


def commit(
    at: int, offset: int | None = 1, partition: int = 0, ending: TransactionEnd = TransactionEnd.PLAIN
) -> CommitWritten:
    """A commit at this offset of the log, and this moment."""
    producer = None if ending is TransactionEnd.PLAIN else 7
    return CommitWritten(at, at, "orders", partition, offset, "", None, producer, ending)


def generation(at: int) -> GenerationWritten:
    """A generation of that number."""
    return GenerationWritten(at, at, at, "consumer", None, None, None, ())


def log(events: Sequence[Event], start: int, end: int, **other: object) -> GroupLog:
    """A log that was read from start to end; nothing is missing but where it is said."""
    reach = {"oldest_ms": start, "whole_from": start, "to_log_start": False} | other
    return GroupLog(tuple(events), ScannedRange(start, end, **reach))  # type: ignore[arg-type]


def joined(before: GroupLog, now: GroupLog, floor: int | None = None, since_ms: int = LONG_AGO_MS) -> GroupLog:
    """The two, where there is no gap."""
    found = merge_logs(before, now, before.reach.end if floor is None else floor, since_ms)
    assert found is not None
    return found


def test_what_is_new_is_added() -> None:
    found = joined(log([generation(1), commit(3)], 0, 5), log([commit(6), commit(8)], 5, 9))

    assert [event.log_offset for event in found.events] == [1, 3, 6, 8]
    assert (found.reach.start, found.reach.end, found.reach.stopped) == (0, 9, None)
    assert whole_since(found.events, found.reach) == 0


def test_nothing_new_is_no_loss() -> None:
    before = log([generation(1), commit(3)], 0, 5)

    found = joined(before, log([], 5, 5, oldest_ms=None))

    assert found.events == before.events
    assert whole_since(found.events, found.reach) == 0


def test_what_was_read_twice_counts_once_and_as_it_is_now() -> None:
    """From an open transaction on it is read again: by now it may have ended."""
    before = log([commit(2), commit(3, ending=TransactionEnd.OPEN), commit(4)], 0, 5)
    now = log([commit(1), commit(3, ending=TransactionEnd.COMMITTED), commit(4), commit(7)], 1, 8)

    found = joined(before, now, floor=3)

    assert [(event.log_offset, event.ending) for event in found.events if isinstance(event, CommitWritten)] == [
        (2, TransactionEnd.PLAIN),
        (3, TransactionEnd.COMMITTED),
        (4, TransactionEnd.PLAIN),
        (7, TransactionEnd.PLAIN),
    ]
    assert found.reach.open_since_ms is None


@pytest.mark.parametrize("now", [log([], 7, 9), log([], 0, 3)], ids=["not back to the floor", "the log was cut off"])
def test_a_gap_is_not_joined(now: GroupLog) -> None:
    assert merge_logs(log([commit(3)], 0, 5), now, 5, LONG_AGO_MS) is None


def test_what_is_old_is_forgotten_but_for_the_newest_of_each() -> None:
    before = log(
        [
            generation(1),
            commit(2),
            generation(3),
            commit(4),
            commit(5, partition=1),
            commit(6, ending=TransactionEnd.ABORTED),
            MemberWritten(7, 7, "a", None),
            MemberWritten(8, 8, "b", None),
            commit(9, ending=TransactionEnd.OPEN),
        ],
        0,
        10,
    )

    found = joined(before, log([commit(20), commit(21)], 10, 22), since_ms=15)

    # The newest commit of partition 0 is new; those that do not count take nothing's place.
    assert [event.log_offset for event in found.events] == [3, 5, 7, 8, 20, 21]
    assert whole_since(found.events, found.reach) == 15, "from here on it is whole"


def test_a_commit_however_old_stays() -> None:
    found = joined(log([commit(2), commit(4)], 0, 5), log([], 5, 5, oldest_ms=None), since_ms=1000)

    assert [event.log_offset for event in found.events] == [4]


def test_what_was_out_of_time_is_enough_some_day() -> None:
    before = log([commit(50)], 40, 60, stopped="the 1 s limit was reached")
    now = log([commit(61)], 60, 62)

    assert joined(before, now, since_ms=10).reach.stopped == "the 1 s limit was reached"
    assert joined(before, now, since_ms=40).reach.stopped is None


def test_where_compaction_was_is_kept_in_mind() -> None:
    before = log([commit(3), commit(30), commit(40)], 0, 50, whole_from=20)

    found = joined(before, log([commit(55)], 50, 60))

    assert whole_since(before.events, before.reach) == 30
    assert whole_since(found.events, found.reach) == 30
    unknown = joined(log([commit(3)], 0, 50, whole_from=None), log([commit(55)], 50, 60))
    assert whole_since(unknown.events, unknown.reach) is None


def test_a_watch_for_days_needs_no_more_memory_than_a_look() -> None:
    found = log([generation(0)], 0, 1)
    for at in range(1, 5000):
        found = joined(found, log([commit(at, offset=at)], at, at + 1), since_ms=at - 100)

    assert len(found.events) == 102
    assert whole_since(found.events, found.reach) == 4899


def test_nor_does_one_of_a_group_that_commits_all_the_time() -> None:
    found = joined(
        log([generation(0)], 0, 1), log([commit(at, partition=at % 50) for at in range(1, 30_000)], 1, 30_000)
    )

    assert len(found.events) == 10_000 + 1, "and the newest generation"
    assert whole_since(found.events, found.reach) == 20_000
