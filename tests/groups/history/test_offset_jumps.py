"""Offsets over time: jumps back and forward, who made them, and beside which rebalance."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from kgroup.groups.history.offset_jumps import (
    Alternation,
    CommitAuthor,
    CommitMove,
    CommitReport,
    JumpedPartition,
    OffsetJump,
    undo_jump,
)
from kgroup.groups.history.own_changes import OwnChanges
from kgroup.groups.repeated_falls import Writers
from kgroup.model.commit import Commit
from kgroup.model.group_log import GenerationMember, TransactionEnd
from kgroup.model.journal import JournalEntry, JournalRow
from tests.changes.test_journal import entry
from tests.helpers.cases.history import T0, Log, member

A, B = member("a/1", 0, 1), member("b/1", 2, 3)


def commits_of(log: Log, **span: Any) -> CommitReport:
    found = log.history(commits=True, **span).commits
    assert found is not None
    return found


def test_they_are_left_out_unless_asked_for() -> None:
    assert Log().commit(0, 5).history().commits is None


def test_ordinary_progress() -> None:
    log = Log().generation(5, A, B).commits((0, 2), 0, 100, every=10, pace=1000)

    found = commits_of(log, until=120)

    assert found.jumps == ()


def test_back_by_the_new_owner_beside_the_rebalance() -> None:
    log = Log().generation(5, A, B).commits((2,), 0, 50, every=10, pace=1000)
    log.at(52).generation(6, member("a/1", 0, 1, 2, 3)).at(55).commit(2, 4_588).at(60).commit(2, 6_000)

    (jump,) = commits_of(log).jumps

    assert (jump.move, jump.by, jump.who, jump.moved) == (CommitMove.BACK, CommitAuthor.MEMBER, "a", -412)
    assert (jump.step, jump.rebalance_distance_ms) == (6, 3_000)
    assert jump.partitions == (JumpedPartition("orders", 2, 5_000, 4_588),)


HOLDER = member("kgroup-migrate-1")


@pytest.mark.parametrize(
    ("members", "producer_id", "by", "who"),
    [
        ((A,), None, CommitAuthor.MEMBER, "a"),
        ((A, HOLDER), None, CommitAuthor.MEMBER, "a"),
        ((A, B), None, CommitAuthor.A_MEMBER, "a"),
        ((A,), 7, CommitAuthor.A_MEMBER, "a"),
        ((B,), 7, CommitAuthor.TRANSACTION, "7"),
        ((B,), None, CommitAuthor.UNKNOWN, None),
    ],
)
def test_the_owner_is_the_author_for_certain_only_as_the_one_member(
    members: tuple[GenerationMember, ...], producer_id: int | None, by: CommitAuthor, who: str | None
) -> None:
    ending = TransactionEnd.PLAIN if producer_id is None else TransactionEnd.COMMITTED
    log = Log().generation(5, *members).at(5).commit(0, 5_000).at(9)
    log.commit(0, 10, producer_id=producer_id, ending=ending)

    assert [(jump.by, jump.who, jump.moved) for jump in commits_of(log).jumps] == [(by, who, -4_990)]


def test_offsets_that_go_back_and_forth_are_one_row_of_a_partition() -> None:
    log = Log().generation(5, A, B)
    for seconds in range(0, 100, 10):
        log.at(seconds).commit(0, 10).commit(1, 10)
        log.at(seconds + 5).commit(0, 5_000 + seconds).commit(1, 5_000 + seconds)

    first, second = commits_of(log).jumps

    assert (first.move, first.by, first.who, first.moved) == (CommitMove.ALTERNATING, CommitAuthor.A_MEMBER, "a", -5070)
    assert first.alternation == Alternation(Writers.TWO, 9, T0 + 10_000, 10, 10, 5_000, 5_080)
    assert (first.partitions[0].partition, second.partitions[0].partition) == (0, 1)
    assert undo_jump("g", first) is None
    # Of a span, the newest one of it stands for all.
    of_span, _ = commits_of(log, since=30, until=50).jumps
    assert of_span.alternation == Alternation(Writers.TWO, 5, T0 + 10_000, 10, 10, 5_000, 5_040)
    assert commits_of(log, since=96).jumps == ()


def test_what_the_next_commit_takes_back_is_no_jump() -> None:
    """An undo would go to 169, past records that nobody processed."""
    log = Log().generation(5, A)
    for seconds, offset in enumerate((75, 86, 86, 86, 169, 86, 86)):
        log.at(5 * seconds).commit(0, offset)
    assert commits_of(log).jumps == ()
    assert [jump.moved for jump in commits_of(log.at(60).commit(0, 80)).jumps] == [-6]


def test_resets_of_one_who_tries_again_are_separate() -> None:
    """A reset ends it, and two falls are two jumps. Those of a member are not undone: it reads again."""
    log = Log().generation(5, A).at(1)
    for offset in (1000, 1001, 1000, 1001, 1000, 1001):
        log.commit(0, offset)
    log.generation(6).at(9).commit(0, 1001, metadata="kgroup cu-7f3a 1 release").at(10).generation(7, A)
    log.commit(0, 1000).commit(0, 1001)

    moves = [(jump.move, undo_jump("g", jump) is None) for jump in commits_of(log).jumps]

    assert moves == [(CommitMove.BACK, True)] * 3


def test_an_administrative_reset_is_one_row() -> None:
    log = Log().generation(5, A, B).commits((0, 1, 2, 3), 0, 50, every=10, pace=1000)
    log.at(60).generation(6).at(92)
    for number in range(4):
        log.commit(number, 1_000_000)
    log.at(140).generation(7, member("a/2", 0, 1, 2, 3)).at(150).commit(0, 1_000_100)

    (jump,) = commits_of(log).jumps

    assert (jump.move, jump.by, jump.who) == (CommitMove.RESET, CommitAuthor.NO_MEMBER, None)
    assert (len(jump.partitions), jump.moved) == (4, 4 * 995_000)
    assert jump.empty_since_ms == T0 + 60_000
    assert jump.rebalance_distance_ms == -48_000


def test_resets_of_one_second_are_requests_of_their_own_where_a_partition_or_a_rebalance_tells_them_apart() -> None:
    log = Log().generation(5, A, B).commits((0, 1), 0, 50, every=10, pace=1000)
    log.at(60).generation(6).at(92).commit(0, 9_000).commit(1, 9_000).commit(0, 8_000)
    log.generation(7, A).generation(8).commit(1, 7_000)

    found = [
        (jump.by, [(each.partition, each.new_offset) for each in jump.partitions]) for jump in commits_of(log).jumps
    ]

    assert found == [
        (CommitAuthor.NO_MEMBER, [(0, 9_000), (1, 9_000)]),
        (CommitAuthor.NO_MEMBER, [(0, 8_000)]),
        (CommitAuthor.NO_MEMBER, [(1, 7_000)]),
    ]


def test_somebody_who_is_no_member_commits_again_and_again() -> None:
    log = Log().generation(5, A).at(5).generation(6).commits((0,), 10, 60, every=10)
    log.at(70).commit(0, 3)

    found = commits_of(log)

    assert [(jump.move, jump.by) for jump in found.jumps] == [(CommitMove.BACK, CommitAuthor.NO_MEMBER)]


def test_kgroups_own_commits_are_named() -> None:
    log = Log().generation(5).at(5).commit(0, 3).at(9).commit(0, 900, metadata="kgroup cu-7f3a 1 release")

    assert [(j.by, j.who, j.moved) for j in commits_of(log).jumps] == [
        (CommitAuthor.NO_MEMBER, None, None),
        (CommitAuthor.KGROUP, "cu-7f3a", 897),
    ]


def test_transactions_count_by_their_outcome() -> None:
    log = Log().generation(5).at(1).commit(0, 100, producer_id=7, ending=TransactionEnd.COMMITTED)
    log.at(2).commit(0, 5, producer_id=7, ending=TransactionEnd.ABORTED).at(3).commit(
        0, 4, producer_id=8, ending=TransactionEnd.OPEN
    )
    log.at(4).commit(0, 50, producer_id=7, ending=TransactionEnd.COMMITTED)

    found = commits_of(log)

    assert [(jump.by, jump.who, jump.moved) for jump in found.jumps] == [(CommitAuthor.TRANSACTION, "7", -50)]
    assert (found.aborted, found.open) == (1, 1)


def test_a_leap_forward() -> None:
    log = Log().generation(5, A).commits((0,), 0, 100, every=10)
    log.at(110).commit(0, 5_000_000).at(120).commit(0, 5_000_100)

    (jump,) = commits_of(log).jumps

    assert (jump.move, jump.by, jump.moved) == (CommitMove.FORWARD, CommitAuthor.MEMBER, 4_999_000)


@pytest.mark.parametrize("offsets", [(0, 5_000), (0, 10, 20, 30, 900), (0, 100, 4_000, 90_000, 400_000, 410_000)])
def test_no_leap_where_it_is_small_or_not_alone_or_nothing_is_known(offsets: tuple[int, ...]) -> None:
    log = Log().generation(5, A)
    for second, offset in enumerate(offsets):
        log.at(10 * second).commit(0, offset)

    assert commits_of(log).jumps == ()


def test_deleted_offsets() -> None:
    log = Log().generation(5).at(5).commit(0, 3).at(9).commit(0, None).at(10).commit(0, None).at(20).commit(0, 1)

    assert [(jump.move, jump.moved) for jump in commits_of(log).jumps] == [
        (CommitMove.RESET, None),
        (CommitMove.DELETED, None),
        (CommitMove.RESET, None),
    ]


def test_offsets_of_a_topic_that_was_made_again_are_not_restored() -> None:
    """The broker deletes them with the topic; or a member that stood commits the old position of the new one."""
    log = Log().generation(5, A).at(5).commit(0, 30, topic_id="old").at(9).commit(0, None)
    assert [undo_jump("g", jump) is None for jump in commits_of(log).jumps] == [True], "its owner goes on"
    without_owner = Log().generation(5, A).at(5).commit(7, 30).at(9).commit(7, None)
    assert undo_jump("g", commits_of(without_owner).jumps[-1]) is not None
    log.at(12).commit(0, 1, topic_id="new").at(14).commit(0, 9, topic_id="new").at(15).commit(0, 4, topic_id="new")

    jumps = commits_of(log).jumps

    assert [(jump.move, undo_jump("g", jump) is None) for jump in jumps] == [
        (CommitMove.DELETED, True),
        (CommitMove.BACK, True),
    ]


def test_nobody_is_named_before_the_first_record_of_the_group() -> None:
    log = Log().at(1).commit(0, 100).at(2).commit(0, 50)

    assert [(jump.by, jump.step) for jump in commits_of(log).jumps] == [(CommitAuthor.UNKNOWN, None)]


@pytest.mark.parametrize("span", [{"state": "Empty"}, {"reach": {"start": 0, "to_log_start": True}}])
def test_a_forward_reset_of_a_group_that_never_had_members_is_a_jump(span: dict[str, Any]) -> None:
    log = Log().at(1).commit(0, 0).at(60).commit(0, 189_000)

    assert [(jump.move, jump.by, jump.moved, jump.at_ms) for jump in commits_of(log, **span).jumps] == [
        (CommitMove.RESET, CommitAuthor.NO_MEMBER, None, T0 + 1000),
        (CommitMove.RESET, CommitAuthor.NO_MEMBER, 189_000, T0 + 60_000),
    ]


def test_a_consumer_with_assign_in_a_group_without_members_makes_no_jumps() -> None:
    log = Log().commits((0,), 0, 60, every=10)

    assert commits_of(log, state="Empty").jumps == ()


def test_commits_before_the_span_are_only_what_it_is_compared_with() -> None:
    log = Log().generation(5, A).at(1).commit(0, 700).at(100).commit(0, 500)

    found = commits_of(log, since=50)

    assert [jump.moved for jump in found.jumps] == [-200]


def test_only_chosen_partitions() -> None:
    log = Log().generation(5, A, B).commits((0, 2), 0, 100, every=10, pace=1000).at(110).commit(0, 3).commit(2, 4)

    found = log.history(commits=True, includes=lambda topic, partition: partition == 2).commits

    assert found is not None
    assert [(each.topic, each.partition) for jump in found.jumps for each in jump.partitions] == [("orders", 2)]


AT_MS = 1_795_228_032_250  # 2026-11-21T02:27:12.250Z


@pytest.mark.parametrize(
    ("span", "is_first"), [({"state": "Empty"}, False), ({"reach": {"start": 0, "to_log_start": True}}, True)]
)
def test_before_its_first_record_there_was_no_group_to_go_back_to(span: dict[str, Any], is_first: bool) -> None:
    """Unless the log was not read from its start."""
    log = Log().at(1).commit(0, 500).commit(1, 500).at(60).commit(0, 100)

    first, second = commits_of(log, **span).jumps

    assert (first.is_first_record, undo_jump("g", first) is None) == (is_first, is_first)
    assert (second.is_first_record, undo_jump("g", second) is None) == (False, False)


@pytest.mark.parametrize(
    ("by", "who", "moved", "command"),
    [
        (CommitAuthor.NO_MEMBER, None, 30_000, "kgroup undo g --as-of 2026-11-21T02:27:12.249Z"),
        (CommitAuthor.MEMBER, "a", -412, "kgroup undo g --as-of 2026-11-21T02:27:12.249Z"),
        (CommitAuthor.UNKNOWN, None, None, "kgroup undo g --as-of 2026-11-21T02:27:12.249Z"),
        (CommitAuthor.KGROUP, "cu-7f3a", 30_000, "kgroup catchup cancel cu-7f3a"),
        (CommitAuthor.KGROUP, "cu-7f3a", -30_000, None),
        (CommitAuthor.KGROUP, "ch-7k2f", 30_000, None),
    ],
)
def test_the_command_that_undoes_a_jump(
    by: CommitAuthor, who: str | None, moved: int | None, command: str | None
) -> None:
    jump = OffsetJump(AT_MS, 7, CommitMove.RESET, by, who, moved, 5, None, None, ())

    assert undo_jump("g", jump) == command
    if who == "cu-7f3a" and command is not None:  # a finished catch-up cannot be cancelled
        assert undo_jump("g", jump, {"cu-7f3a"}) == "kgroup undo g --as-of 2026-11-21T02:27:12.249Z"


def test_the_release_of_a_catch_up_that_was_cancelled_has_no_undo() -> None:
    """Neither while it is listed in the ledger, nor when it is not known there any more."""
    log = Log().generation(5).at(5).commit(0, 3).at(9).commit(0, 900, metadata="kgroup cu-7f3a 1 release")
    assert str(undo_jump("g", commits_of(log).jumps[-1])) == "kgroup catchup cancel cu-7f3a"
    log.at(12).commit(0, 3, metadata="kgroup cu-7f3a 1 back")
    log.at(20).commit(0, 950, metadata="kgroup cu-9b4k 1 release")

    moves = [(jump.who, jump.moved, undo_jump("g", jump)) for jump in commits_of(log).jumps]

    assert moves == [
        ("cu-7f3a", 897, None),
        ("cu-7f3a", -897, None),
        ("cu-9b4k", 947, "kgroup catchup cancel cu-9b4k"),
    ]
    assert undo_jump("g", commits_of(log).jumps[0], {"cu-7f3a"}) is None


def test_the_same_offset_committed_again_is_no_jump() -> None:
    """As a migration does before it converts the group."""
    log = Log().generation(5, A, B).commits((0,), 0, 50, every=10, pace=1000).at(60).generation(6).at(92)
    log.commit(0, 5_000)

    assert commits_of(log).jumps == ()
    (jump,) = commits_of(log.at(95).commit(0, 4_000)).jumps
    assert (jump.move, jump.moved) == (CommitMove.RESET, -1_000)


def made_at(seconds: float, change_id: str, after: Commit | None) -> JournalEntry:
    """A change of partition 0 of ``orders`` in the log's group."""
    at = datetime.fromtimestamp(T0 / 1000 + seconds, UTC)
    return replace(entry(change_id), at=at, groups={"g": "classic"}, rows=(JournalRow("g", "orders", 0, None, after),))


def test_changes_in_the_journal_are_named_and_are_no_rhythm() -> None:
    """Three changes while the group is Empty are no consumer with assign()."""
    log = Log().generation(5, A, B).commits((0,), 0, 50, every=10, pace=1000).at(60).generation(6)
    log.at(92).commit(0, 12).at(95).commit(0, 5_000).at(99).commit(0, 12).at(101).commit(0, None)
    changes = [made_at(92, "ch-7k2f", Commit(12, None, "")), made_at(99, "ch-9b4k", Commit(12, None, "")),
               made_at(101, "ch-a2b3", None)]  # fmt: skip

    found = commits_of(log, own=OwnChanges(changes)).jumps

    assert [(jump.move, jump.by, jump.who) for jump in found] == [
        (CommitMove.RESET, CommitAuthor.KGROUP, "ch-7k2f"),
        (CommitMove.RESET, CommitAuthor.NO_MEMBER, None),
        (CommitMove.RESET, CommitAuthor.KGROUP, "ch-9b4k"),
        (CommitMove.DELETED, CommitAuthor.KGROUP, "ch-a2b3"),
    ]
