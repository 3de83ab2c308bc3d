"""Taking a change back: what is back already, what nobody knows, what somebody has moved, and the rows that follow."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.catchup.model import PlanState
from kgroup.groups.change_plan import ChangeRow
from kgroup.groups.undo_plan import (
    UndoRow,
    groups_to_delete,
    moved_since,
    newest_release,
    refuse_released_since,
    undo_rows,
)
from kgroup.model.commit import Commit
from kgroup.model.groups import LogRange, RowError
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import ExitCode, NotFound
from tests.changes.test_journal import entry
from tests.helpers.catchup.plans import head_of, make_plan

BEFORE, AFTER, ELSEWHERE = Commit(5, 3, 'by hand: "é"'), Commit(12, 4, ""), Commit(9, 4, "")
LOGS = {TopicPartition("orders", 0): LogRange(0, 20), TopicPartition("orders", 1): LogRange(8, 20)}


def trace(
    now: Commit | None,
    *,
    before: Commit | None = BEFORE,
    after: Commit | None = AFTER,
    confirmed: bool = True,
    partition: int = 0,
) -> UndoRow:
    return UndoRow("svc", "orders", partition, before, after, now, confirmed)


@pytest.mark.parametrize(
    ("confirmed", "now", "expected"),
    [
        (True, AFTER, ()),  # stands as it was left: to be taken back
        (True, BEFORE, ("is_back",)),
        (True, ELSEWHERE, ("moved",)),
        (True, None, ("moved",)),
        (True, Commit(12, 4, "other metadata"), ("moved",)),
        (True, Commit(12, None, ""), ("moved",)),  # the epoch is part of a commit
        (True, Commit(5, 3, ""), ("moved",)),
        (False, AFTER, ()),  # nobody lived to write it down, and it was stored
        (False, BEFORE, ("is_back",)),  # ... and it was not
    ],
)
def test_what_a_trace_shows(confirmed: bool, now: Commit | None, expected: tuple[str, ...]) -> None:
    found = trace(now, confirmed=confirmed)
    assert tuple(word for word in ("is_back", "doubtful", "moved") if getattr(found, word)) == expected


@pytest.mark.parametrize("confirmed", [True, False])
@pytest.mark.parametrize("now", [None, AFTER])
def test_what_cannot_be_read_now(confirmed: bool, now: Commit | None) -> None:
    """It is an error of its own row; neither back, nor moved, nor is it to be written over."""
    found = replace(trace(now, confirmed=confirmed), unread=RowError("pending-transaction", "a transaction is open"))
    assert (found.is_back, found.doubtful, found.moved) == (False, False, False)
    assert list(moved_since([found], "ch-7k2f")) == []
    (row,) = undo_rows([found], LOGS, {"orders": None})
    assert row.error is not None
    assert row.error.code == "pending-transaction"


@pytest.mark.parametrize(
    ("before", "after", "now", "old", "new"),
    [
        (BEFORE, AFTER, AFTER, AFTER, BEFORE),
        (None, AFTER, AFTER, AFTER, None),  # there was no commit: its offset goes
        (BEFORE, None, None, None, BEFORE),  # it was deleted: it comes back
        (BEFORE, AFTER, ELSEWHERE, ELSEWHERE, BEFORE),  # moved since: what is there now is what will be written over
    ],
)
def test_a_row_puts_back_what_stood_before(
    before: Commit | None, after: Commit | None, now: Commit | None, old: Commit | None, new: Commit | None
) -> None:
    (row,) = undo_rows([trace(now, before=before, after=after)], LOGS, {"orders": None})
    assert (row.group, row.tp, row.old, row.new, row.error) == ("svc", ("orders", 0), old, new, None)


def test_a_topic_that_is_not_what_it_was() -> None:
    """Its rows are errors; those of other topics are not."""
    other = UndoRow("svc", "clicks", 0, BEFORE, AFTER, AFTER)
    rows = undo_rows([trace(AFTER), other], LOGS, {"orders": NotFound("orders does not exist"), "clicks": None})
    by_topic = {row.topic: row.error for row in rows}
    assert by_topic["clicks"] is None
    assert by_topic["orders"] is not None
    assert "orders does not exist" in by_topic["orders"].message


def test_an_offset_that_is_gone_from_the_log_is_noted() -> None:
    (inside,) = undo_rows([trace(AFTER)], LOGS, {"orders": None})
    (below,) = undo_rows([trace(AFTER, partition=1)], LOGS, {"orders": None})
    assert inside.note is None
    assert (below.note or "").startswith("below the log start ")


def test_moved_since_names_before_after_and_now() -> None:
    (refusal,) = moved_since([trace(AFTER), trace(ELSEWHERE, partition=1)], "ch-7k2f")
    assert (refusal.group, refusal.error.code) == ("svc", "moved-since")
    (line,) = (line for line in refusal.error.details if "orders:1" in line)
    assert [word in line for word in ("5", "12", "9")] == [True] * 3
    assert not any("orders:0" in line for line in refusal.error.details)


@pytest.mark.parametrize(
    ("traces", "end", "again"),
    [
        ([trace(Commit(20, 4, ""))], "catchup start svc --skipped-by ch-7k2f", "8 offsets"),  # went on after a skip
        ([trace(Commit(20, 4, "")), trace(ELSEWHERE, partition=1)], "--skipped-by ch-7k2f", "12 offsets"),
        ([trace(ELSEWHERE)], "--accept moved-since", "4 offsets"),  # back to where records are unread: none is skipped
        ([trace(Commit(14, 4, ""), before=AFTER, after=BEFORE)], "--accept moved-since", "2 offsets"),
        ([trace(None)], "--accept moved-since", "anyway."),
    ],
)
def test_moved_since_has_the_price_and_the_other_way(traces: list[UndoRow], end: str, again: str) -> None:
    (refusal,) = moved_since(traces, "ch-7k2f")
    assert end in str(refusal.error.hint)
    (price,) = (line for line in (*refusal.error.details, str(refusal.error.hint)) if "--accept" in line)
    assert again in price


@pytest.mark.parametrize(
    ("created", "now", "expected"),
    [
        ({"svc"}, {("orders", 0)}, {"svc"}),
        ({"svc"}, {("orders", 0), ("clicks", 0)}, set()),  # somebody committed there since
        (set(), {("orders", 0)}, set()),  # it was there before
    ],
)
def test_groups_that_go_as_a_whole(created: set[str], now: set[TopicPartition], expected: set[str]) -> None:
    """Only one that the change made, and that would be left without any commit."""
    rows = [ChangeRow("svc", "orders", 0, AFTER, None)]
    found = groups_to_delete(frozenset(created), rows, {("svc", *place): AFTER for place in now})
    assert found == expected


@pytest.mark.parametrize(
    ("state", "group", "since_ms", "found"),
    [
        (PlanState.RELEASED, "orders-svc", 999, True),
        (PlanState.RELEASING, "orders-svc", 999, True),
        (PlanState.CANCELLING, "orders-svc", 999, True),
        (PlanState.DONE, "orders-svc", 999, True),
        (PlanState.RELEASED, "orders-svc", 1_000, False),  # the change is the newer one
        (PlanState.RELEASED, "pay-svc", 999, False),
        (PlanState.PLANNED, "orders-svc", 999, False),
        (PlanState.CANCELLED, "orders-svc", 999, False),
    ],
)
def test_releases_of_a_group_since_a_change(state: PlanState, group: str, since_ms: int, found: bool) -> None:
    release = newest_release([head_of(make_plan(), state)], [group], since_ms)

    assert (release is not None) == found


def test_the_newest_of_two_releases() -> None:
    older, newer = make_plan(), replace(make_plan(), id="cu-9b4k", created_ms=2_000)

    release = newest_release([head_of(newer), head_of(older)], ["orders-svc"], 0)

    assert release is not None
    assert release.plan == head_of(newer)


@pytest.mark.parametrize(
    ("state", "details", "hint"),
    [
        (PlanState.RELEASED,
         ("cu-7f3a  1970-01-01 00:00Z  release of orders-svc by me@here",
          "ch-7k2f  2026-11-21 14:46Z  reset 2 groups, 3 partitions",
          "To plan the undo of the older change, name it: kgroup undo ch-7k2f"),
         "To move the group back, cancel the catch-up: kgroup catchup cancel cu-7f3a"),
        (PlanState.DONE,
         ("cu-7f3a  1970-01-01 00:00Z  release of orders-svc by me@here: the catch-up is finished and cannot be "
          "cancelled",
          "ch-7k2f  2026-11-21 14:46Z  reset 2 groups, 3 partitions"),
         "To plan the undo of the older change, name it: kgroup undo ch-7k2f"),
    ],
)  # fmt: skip
def test_the_refusal_names_the_release_and_its_command(state: PlanState, details: tuple[str, ...], hint: str) -> None:
    release = newest_release([head_of(make_plan(), state)], ["orders-svc"], 0)
    assert release is not None

    refusal = refuse_released_since(release, entry("ch-7k2f"), 1_900_000_000_000)

    assert refusal.code == "released-since"
    assert refusal.exit_code is ExitCode.REFUSED
    assert refusal.message == "the newest change of orders-svc is the release of the catch-up cu-7f3a"
    assert (refusal.details, refusal.hint) == (details, hint)
