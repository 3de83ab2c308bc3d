"""Classic groups: why a generation began, what it moved, which ones never completed."""

from __future__ import annotations

from typing import Any

import pytest

from kgroup.groups.timeline.steps import StepKind
from kgroup.model.group_log import GenerationMember, RebalanceProtocol, TransactionEnd
from tests.helpers.cases.history import Log, inferred, member, of, why

A, B, C = member("a/1", 0, 1), member("b/1", 2, 3), member("c/1", 4)


def test_a_group_from_its_first_generation_on() -> None:
    log = Log().at(0).generation(1, member("a/1", 0, 1, 2, 3))
    log.at(60).generation(2, A, B).at(90).generation(3, member("b/1", 0, 1, 2, 3)).at(100).generation(4)

    first, second, third, fourth = log.steps()

    assert why(first) == {"join": ("a",)}
    assert why(second) == {"join": ("b",)}
    assert (second.moved, second.moved_needlessly) == (2, 2)
    assert third.members[0].other is True
    assert (third.moved, third.moved_needlessly) == (2, 0)
    assert fourth.kind is StepKind.EMPTY
    assert [step.lasted_ms for step in (first, second, third, fourth)] == [60_000, 30_000, 10_000, None]
    assert [step.rebalances for step in (first, second, third, fourth)] == [1, 1, 1, 0]


def test_of_the_oldest_generation_nothing_is_known_but_who_was_there() -> None:
    (step,) = Log().generation(40, A, B).steps()

    assert why(step) == {"unknown": ()}
    assert (step.moved, step.moved_needlessly, step.never_completed) == (None, None, None)
    assert [present.other for present in step.members] == [None, None]


@pytest.mark.parametrize(
    ("session_ms", "poll_ms", "last_commit", "gone", "expected"),
    [
        # Heard of within its session: it left, whatever else.
        (10_000, 300_000, 30, 32, "leave"),
        (45_000, 300_000, 30, 70, "leave"),
        # Silent for its session, and a little more: others have to join again first.
        (10_000, 300_000, 30, 41, "session-expired"),
        (10_000, 300_000, 30, 44, "session-expired"),
        # A moment too early: its commit was written after its session was renewed.
        (10_000, 300_000, 30, 39.93, "session-expired"),
        # For its poll interval, which is longer than its session ...
        (10_000, 60_000, 30, 91, "poll-interval-exceeded"),
        # ... or shorter: then the session can't have ended.
        (45_000, 30_000, 30, 61, "poll-interval-exceeded"),
        # Between the two, and behind both: it may have been idle and have left.
        (10_000, 300_000, 30, 75, "gone"),
        (10_000, 60_000, 30, 150, "gone"),
        # Both at once.
        (30_000, 31_000, 30, 61.5, "gone"),
    ],
)
def test_how_a_member_went(session_ms: int, poll_ms: int, last_commit: float, gone: float, expected: str) -> None:
    timeouts: dict[str, Any] = {"session_timeout_ms": session_ms, "rebalance_timeout_ms": poll_ms}
    log = Log().at(0).generation(5, A, member("b/1", 2, 3, **timeouts))
    log.commits((0, 1, 2, 3), 1, last_commit).commits((0, 1), last_commit + 1, gone - 0.5)
    log.at(gone).generation(6, member("a/1", 0, 1, 2, 3))

    step = log.steps()[-1]

    assert why(step) == {expected: ("b",)}
    assert bool(inferred(step)) == (expected in ("session-expired", "poll-interval-exceeded"))


def test_silence_proves_nothing_where_nobody_commits_regularly() -> None:
    log = Log().at(0).generation(5, A, B).at(11).generation(6, A)

    assert why(log.steps()[-1]) == {"gone": ("b",)}


@pytest.mark.parametrize("spoil", ["compaction", "broken record", "no partitions"])
def test_silence_proves_nothing_where_records_may_be_missing(spoil: str) -> None:
    absent = member("b/1") if spoil == "no partitions" else B
    log = Log().at(0).generation(5, A, absent).commits((0, 1), 1, 11)
    if spoil == "broken record":
        log.unreadable()
    log.at(12).generation(6, A)
    reach = {"whole_from": None} if spoil == "compaction" else {}

    assert why(log.steps(**reach)[-1]) == {"gone": ("b",)}


def test_that_a_member_was_heard_of_counts_though_records_are_missing() -> None:
    log = Log().at(0).generation(5, A, B).commits((0, 1, 2, 3), 1, 30).at(32).generation(6, A)

    assert why(log.steps(whole_from=None)[-1]) == {"leave": ("b",)}


def test_a_transactional_commit_is_no_heartbeat() -> None:
    log = Log().at(0).generation(5, A, B).commits((0, 1), 1, 30)
    log.at(31).commit(2, 5, ending=TransactionEnd.COMMITTED, producer_id=9).at(33).generation(6, A)

    assert why(log.steps()[-1]) == {"gone": ("b",)}


def test_the_leader_that_goes_is_named_as_such() -> None:
    log = Log().at(0).generation(5, A, B).commits((0, 1, 2, 3), 1, 5).at(6).generation(6, member("b/1", 0, 1, 2, 3))

    assert why(log.steps()[-1]) == {"leave": ("a",), "leader-gone": ("a",)}


def test_generations_that_are_missing_never_completed() -> None:
    log = Log().generation(5, A, B).at(60).generation(9, A, B, C)

    assert log.steps()[-1].never_completed == 3
    assert log.steps()[-1].rebalances == 4


def test_generations_that_compaction_may_have_taken_are_unknown() -> None:
    log = Log().generation(5, A, B)
    log.offset += 5
    log.at(60).generation(9, A, B, C)

    assert log.steps(whole_from=log.offset)[-1].never_completed is None


def static(number: int, *partitions: int) -> GenerationMember:
    return member(f"pod/{number}", *partitions, instance_id="pod-0")


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    log = Log().at(0).generation(5, A, static(1, 2, 3)).at(20).generation(5, A, static(2, 2, 3))

    step = log.steps()[-1]

    assert step.kind is StepKind.REWRITTEN
    assert why(step) == {"static-member-replaced": ("pod-0",)}
    assert step.returned == ("pod-0",)
    assert (step.moved, step.rebalances) == (0, 0)


def test_a_static_member_comes_back_to_something_else() -> None:
    log = Log().at(0).generation(5, A, static(1, 2, 3)).at(20).generation(6, A, static(2, 2), member("b/1", 3))

    step = log.steps()[-1]

    assert why(step) == {"join": ("b",), "static-member-replaced": ("pod-0",)}
    assert step.returned == ()
    assert (step.moved, step.moved_needlessly) == (1, 1)


def test_a_record_that_says_the_same_again_is_no_step() -> None:
    assert len(Log().generation(5, A, B).at(20).generation(5, A, B).steps()) == 1


def test_another_subscription() -> None:
    other = member("b/1", 2, 3, topics=frozenset({"orders", "audit"}))
    log = Log().generation(5, A, B).at(20).generation(6, A, other)

    assert why(log.steps()[-1]) == {"subscription-changed": ("b",)}


def test_more_partitions_of_a_topic() -> None:
    log = Log().generation(5, A, B).at(20).generation(6, member("a/1", 0, 1, 4), member("b/1", 2, 3, 5))

    step = log.steps()[-1]

    assert why(step) == {"partitions-changed": ()}
    assert step.moved == 0  # nobody had them before


def test_a_cooperative_rebalance_has_two_halves() -> None:
    log = Log().generation(5, member("a/1", 0, 1, 2, 3), assignor="cooperative-sticky")
    log.at(20).generation(6, A, member("b/1"), assignor="cooperative-sticky")
    log.at(21).generation(7, A, B, assignor="cooperative-sticky")

    _, first, second = log.steps()

    assert why(first) == {"join": ("b",)}
    assert first.moved == 0
    assert why(second) == {"cooperative-follow-up": ()}
    assert (second.moved, second.moved_needlessly) == (2, 2)


def test_a_rebalance_without_a_reason_in_the_log() -> None:
    assert why(Log().generation(5, A, B).at(20).generation(6, A, B).steps()[-1]) == {"unknown": ()}


def test_a_group_that_is_made_anew_a_moment_after_it_was_deleted() -> None:
    log = Log().generation(1, A).at(5).generation(2).at(9).gone(RebalanceProtocol.CLASSIC).at(9.5).generation(0)
    log.at(9.6).generation(1, B)

    assert [step.kind for step in log.steps()] == [
        StepKind.REBALANCE,
        StepKind.EMPTY,
        StepKind.DELETED,
        StepKind.REBALANCE,
    ]
    assert why(log.steps()[-1]) == {"join": ("b",)}


def test_the_record_with_which_a_group_is_made_is_no_step() -> None:
    (step,) = Log().generation(0).at(3).generation(1, A, B).steps()

    assert why(step) == {"join": ("a", "b")}
    assert (step.moved, step.never_completed) == (0, 0)


def test_the_last_member_leaves_nobody_to_be_led() -> None:
    emptied = Log().generation(5, A).at(1).generation(6).steps()[-1]

    assert emptied.kind is StepKind.EMPTY
    assert "leader-gone" not in why(emptied)


def test_nothing_moves_where_the_log_shows_that_nobody_was_there_before() -> None:
    log = Log().generation(1, A, B)

    assert log.steps(to_log_start=True)[0].moved == 0
    assert log.steps(to_log_start=True, whole_from=50)[0].moved is None


def test_a_group_of_the_same_name_made_anew() -> None:
    log = Log().generation(50, A, B).at(20).generation(1, member("x/9", 0, 1, 2, 3))

    step = log.steps()[-1]

    assert "recreated" in why(step)
    assert step.moved == 0


def test_a_deleted_group_is_a_step() -> None:
    log = Log().generation(50).at(20).gone(RebalanceProtocol.CLASSIC).at(90).generation(1, A)

    assert [step.kind for step in log.steps()] == [StepKind.EMPTY, StepKind.DELETED, StepKind.REBALANCE]
    assert why(log.steps()[-1]) == {"join": ("a",)}


def test_static_members_keep_what_they_had_when_all_were_gone() -> None:
    log = Log().generation(5, A, static(1, 2, 3)).at(9).generation(6).at(20)
    log.generation(7, member("z/1", 0, 1), static(2, 2, 3))

    step = log.steps()[-1]

    assert step.moved == 0


def test_members_of_other_kinds_of_groups_have_no_known_partitions() -> None:
    worker = member("w/1", partitions=None, topics=None)
    log = Log().generation(5, worker).at(20).generation(6, worker, member("w/2", partitions=None, topics=None))

    step = log.steps()[-1]

    assert (step.moved, step.members[0].partitions) == (None, None)


def test_how_long_nothing_had_been_committed() -> None:
    log = Log().at(0).generation(5, A, B).commits((0, 1, 2, 3), 1, 50).at(58).generation(6, A, B, C, joined=0.5)

    step = log.steps()[-1]

    assert step.quiet_ms == 8_000
    assert step.took_ms == 500
    assert log.steps(whole_from=None)[-1].quiet_ms is None


@pytest.mark.parametrize(
    ("committed_at", "at", "polls_ms", "reach", "quiet_ms", "idle_ms"),
    [
        (50, 58, 300_000, {}, 8_000, 8_000),
        (50, 900, 300_000, {}, 850_000, 850_000),
        # No commit since the generation before: a crash loop. Beyond the longest poll there was nothing to commit.
        (None, 58, 300_000, {}, None, 58_000),
        (None, 300, 300_000, {}, None, 300_000),
        (None, 300.001, 300_000, {}, None, None),
        # Clients of old protocols name no rebalance timeout; the session timeout is theirs.
        (None, 45, None, {}, None, 45_000),
        (None, 45.001, None, {}, None, None),
        # Commits may be missing.
        (None, 58, 300_000, {"whole_from": None}, None, None),
    ],
)
def test_how_long_the_group_did_not_work(
    committed_at: float | None,
    at: float,
    polls_ms: int | None,
    reach: dict[str, Any],
    quiet_ms: int | None,
    idle_ms: int | None,
) -> None:
    first = member("a/1", 0, 1, rebalance_timeout_ms=polls_ms, session_timeout_ms=45_000)
    log = Log().at(0).generation(5, first)
    if committed_at is not None:
        log.at(committed_at).commit(0, 10)
    log.at(at).generation(6, A, joined=0.5)

    step = log.steps(**reach)[-1]

    assert (step.quiet_ms, step.idle_ms, step.standstill_ms) == (quiet_ms, idle_ms, idle_ms)


def test_a_group_without_members_did_not_stop_working() -> None:
    emptied, back = Log().at(0).generation(5, A).at(9).generation(6).at(30).generation(7, B).steps()[-2:]

    assert (emptied.standstill_ms, back.standstill_ms) == (None, None)


@pytest.mark.parametrize(
    ("members", "names"),
    [
        # A client id that nobody shares outlives a restart.
        ((member("app-0/1"), member("app-1/1")), {"app-0", "app-1"}),
        # Shared by two at once: the host, and where that is the same too the member id.
        ((member("app/1", host="10.0.0.1"), member("app/2", host="10.0.0.2")), {"app@10.0.0.1", "app@10.0.0.2"}),
        ((member("app-12345678-1", client_id="app"), member("app-87654321-1", client_id="app")),
         {"app-12345678", "app-87654321"}),
        ((member("x/1", instance_id="pod-1"), member("x/2", instance_id="pod-2")), {"pod-1", "pod-2"}),
        # Shortened, they would be the same.
        ((member("app-12345678-1", client_id="app"), member("app-12345678-2", client_id="app")),
         {"app-12345678-1", "app-12345678-2"}),
    ],
)  # fmt: skip
def test_what_members_are_called(members: tuple[GenerationMember, ...], names: set[str]) -> None:
    (step,) = Log().generation(3, *members).steps()

    assert {present.name for present in step.members} == names


def test_who_held_a_partition_when_it_was_committed() -> None:
    log = Log().commit(0, 1).generation(5, A, B).commit(0, 2).commit(2, 3).at(9).generation(6).commit(0, 4)

    assert [made.owner for made in log.track().commits] == [None, "a", "b", None]


def test_partitions_of_two_topics_are_not_mixed_up() -> None:
    log = Log().generation(5, member("a/1", partitions=of(0) | of(0, topic="audit")), member("b/1"))
    log.at(5).generation(6, member("a/1", 0), member("b/1", partitions=of(0, topic="audit")))

    assert log.steps()[-1].moved == 1
