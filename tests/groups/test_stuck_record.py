"""Which record a group does not get past: known for one habit of commits alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from kgroup.groups.next_commands import skip_record
from kgroup.groups.stuck_record import StuckRecord, stuck_record
from kgroup.model.groups import LoggedCommit
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.cases.lag import MINUTE, NOW, SECOND, at

ORDERS = TopicPartition("orders", 0)
ONE_BY_ONE = tuple(at(5 * MINUTE - n * 10, 997 + n) for n in range(4))
AGAIN = tuple(at(n * SECOND, 1000) for n in reversed(range(20)))
UNREAD_MS = NOW - 6 * MINUTE
RESET = replace(AGAIN[-1], by_tool=True)

KNOWN, BEFORE, LATER, EITHER = (False, False), (True, False), (False, True), (True, True)


@pytest.mark.parametrize(
    ("commits", "unread_ms", "replaced", "expected"),
    [
        # It commits each record, and the last one again and again.
        ((*ONE_BY_ONE, *AGAIN), UNREAD_MS, False, KNOWN),
        ((*ONE_BY_ONE, *AGAIN[-2:]), UNREAD_MS, False, KNOWN),
        ((*ONE_BY_ONE, AGAIN[-1]), UNREAD_MS, False, BEFORE),
        # librdkafka with auto commit: commits every 5 s what it delivered, and nothing again.
        ((at(5 * MINUTE, 400), at(5 * MINUTE - 5 * SECOND, 1000)), UNREAD_MS, False, EITHER),
        ((at(5 * MINUTE, 1000),), UNREAD_MS, False, EITHER),
        # Each record is committed, or stored, before the application has it: the log shows the same.
        (ONE_BY_ONE, UNREAD_MS, False, BEFORE),
        # Java with auto commit and slow records, of which the application has paused one: the position, every 5 s.
        (tuple(at(n * 5 * SECOND, min(1000, 1010 - n)) for n in reversed(range(20))), UNREAD_MS, False, EITHER),
        # A batch consumer that commits the start of its batch again.
        ((at(6 * MINUTE, 500), *AGAIN), UNREAD_MS, False, EITHER),
        (AGAIN, UNREAD_MS, False, EITHER),
        # It had batches of one record, as no more was there; then a burst came. Or nothing is known of that.
        ((*ONE_BY_ONE, *AGAIN), ONE_BY_ONE[0].timestamp_ms + 1, False, EITHER),
        ((*ONE_BY_ONE, *AGAIN), None, False, EITHER),
        # A batch among single records, offsets that flip, a reset, no commits.
        ((at(6 * MINUTE, 990), *ONE_BY_ONE[1:], *AGAIN), UNREAD_MS, False, EITHER),
        ((*ONE_BY_ONE[:3], at(MINUTE, 1000), at(50 * SECOND, 999), *AGAIN), UNREAD_MS, False, EITHER),
        ((*ONE_BY_ONE, *AGAIN[:-1], RESET), UNREAD_MS, False, BEFORE),
        ((*ONE_BY_ONE[:3], RESET), UNREAD_MS, False, EITHER),
        ((), UNREAD_MS, False, EITHER),
        # A crash loop: each member starts at the record, and loses the commits that it has not sent.
        ((*ONE_BY_ONE, *AGAIN), UNREAD_MS, True, LATER),
        (ONE_BY_ONE, UNREAD_MS, True, LATER),
        (AGAIN, UNREAD_MS, True, LATER),
    ],
)  # fmt: skip
def test_which_record(
    commits: Sequence[LoggedCommit], unread_ms: int | None, replaced: bool, expected: tuple[bool, bool]
) -> None:
    found = stuck_record(ORDERS, 1000, commits, unread_ms, replaced=replaced)

    assert (found.before, found.later) == expected
    assert found.is_known == (expected == KNOWN) == (found.doubt is None)
    assert len(list(skip_record("g", found))) == (expected == KNOWN)


def test_the_first_record_has_none_before_it() -> None:
    found = stuck_record(ORDERS, 0, [at(n * SECOND, 0) for n in reversed(range(9))], UNREAD_MS, replaced=False)
    assert found.doubt == "not known: offset 0 of orders:0 or a later one"


def test_in_words() -> None:
    client = "if the client commits at delivery (librdkafka with auto commit): a restart passes it"
    assert StuckRecord(*ORDERS, 7, True, False).doubt == f"not known: offset 7 of orders:0, or the one before {client}"
    assert StuckRecord(*ORDERS, 7, True, True).doubt == (
        f"not known: offset 7 of orders:0 or a later one, or the one before {client}"
    )


@pytest.mark.parametrize(
    ("before", "later", "places"),
    [
        (False, False, ""),
        (True, False, " (the record: 6 or 7)"),
        (False, True, " (the record: 7 or later)"),
        (True, True, " (the record: 6, 7 or later)"),
    ],
)
def test_possible_offsets(before: bool, later: bool, places: str) -> None:
    assert StuckRecord(*ORDERS, 7, before, later).possible_offsets == places
