"""Rollouts, members that never synced; totals; what the log reaches."""

from __future__ import annotations

import pytest

from kgroup.groups.timeline.steps import Cause, CauseCount, SignatureKind
from kgroup.model.group_log import GenerationMember
from kgroup.model.migration_facts import OWN_MEMBER_PREFIX
from tests.helpers.cases.history import Log, member, of

COUNT = 4


def pod(number: int, life: int = 1) -> GenerationMember:
    """The pod has one partition; each life has another member id."""
    return member(f"pod-{number}/{life}", number)


def rolling(log: Log, start: float, pause: float = 20, numbers: tuple[int, ...] = tuple(range(COUNT))) -> Log:
    """One pod after the other goes, and is back ten seconds later."""
    lives = dict.fromkeys(range(COUNT), 1)
    generation, at = 10, start
    for number in numbers:
        log.at(at).generation(generation, *(pod(n, life) for n, life in lives.items() if n != number))
        lives[number] += 1
        log.at(at + 10).generation(generation + 1, *(pod(n, life) for n, life in lives.items()))
        generation, at = generation + 2, at + pause
    return log


def start() -> Log:
    return Log().at(-60).generation(9, *(pod(n) for n in range(COUNT)))


@pytest.mark.parametrize(
    ("numbers", "pause"),
    [
        ((0, 1, 2), 20),  # one is still the old one
        ((0, 1, 1, 2, 3), 20),  # one was replaced twice
        ((0, 1, 2, 3), 400),  # each on its own
    ],
)
def test_no_rollout(numbers: tuple[int, ...], pause: float) -> None:
    assert rolling(start(), 0, pause, numbers).history().signatures == ()


@pytest.mark.parametrize(
    ("times", "pause", "kinds"),
    [
        (1, 20, ["rollout"]),
        (2, 20, ["rollout"] * 2),  # one that was taken back
        (3, 20, ["restarts"]),
        (5, 320, ["restarts"]),  # as Kubernetes does at last
        (3, 700, ["rollout"] * 3),
    ],
)
def test_all_again_and_again_are_restarts(times: int, pause: float, kinds: list[str]) -> None:
    log = start()
    for life in range(2, times + 2):
        log.at(life * pause).generation(8 + life, *(pod(n, life) for n in range(COUNT)))

    found = log.history().signatures

    assert [one.kind.value for one in found] == kinds
    assert sum(one.rebalances for one in found) == times
    if times == 5:
        assert found[0].text == (
            "all members replaced 5 times, in 5 rebalances: by a crash loop or planned stops, "
            "the log does not show which"
        )


@pytest.mark.parametrize("who", ["kgroup", "protocol", "nobody"])
def test_stops_for_a_migration_or_a_catch_up_are_planned(who: str) -> None:
    log = start()
    for life in range(2, 5):
        log.at(life * 60 - 10).generation(10 * life)
        if who == "kgroup":
            log.at(life * 60 - 5).generation(10 * life + 1, member(f"{OWN_MEMBER_PREFIX}{life}"))
            log.at(life * 60 - 4).generation(10 * life + 2)
        if who == "protocol" and life == 3:
            for number in range(COUNT):
                log.member(f"pod-{number}/{life}")
            log.epoch(31).target(31, **{f"pod-{n}/{life}": of(n) for n in range(COUNT)}).at(life * 60 + 10)
            for number in range(COUNT):
                log.left(f"pod-{number}/{life}")
            log.epoch(32)
            continue
        log.at(life * 60).generation(10 * life + 3, *(pod(n, life) for n in range(COUNT)))

    found = [one.kind.value for one in log.history().signatures]

    assert "crash-loop" not in found
    assert ("restarts" in found) is (who == "nobody")


@pytest.mark.parametrize(("silent", "after"), [(50, " after 50s without a commit"), (4, "")])
def test_all_at_once_may_be_a_broker_that_did_not_answer(silent: int, after: str) -> None:
    log = start().commits(range(COUNT), 0, 30)
    log.at(30 + silent).generation(11, *(pod(n, 2) for n in range(COUNT)))

    (found,) = log.history().signatures

    assert found.kind is SignatureKind.ROLLOUT
    assert found.text == (
        f"all 4 members replaced at once{after}: restarted together, or their broker did not answer; "
        "the log does not show which"
    )


@pytest.mark.parametrize("times", [2, 3, 6])
def test_rollouts_one_member_after_the_other_are_no_crash_loop(times: int) -> None:
    log, lives, generation = start(), dict.fromkeys(range(COUNT), 1), 10
    for round_ in range(times):
        for number in range(COUNT):
            log.at(round_ * 120 + number * 20).generation(
                generation, *(pod(n, life) for n, life in lives.items() if n != number)
            )
            lives[number] += 1
            log.at(round_ * 120 + number * 20 + 10).generation(generation + 1, *(pod(*each) for each in lives.items()))
            generation += 2

    assert [one.kind.value for one in log.history().signatures] == ["rollout"] * times


def test_members_that_are_away_together_three_times_are_restarts() -> None:
    log = start()
    for life in range(2, 5):
        at = life * 60
        log.at(at).generation(20 * life, pod(0, life - 1), pod(1, life - 1))
        log.at(at + 5).generation(20 * life + 1, *(pod(n, life if n > 1 else life - 1) for n in range(COUNT)))
        log.at(at + 10).generation(20 * life + 2, pod(2, life), pod(3, life))
        log.at(at + 15).generation(20 * life + 3, *(pod(n, life) for n in range(COUNT)))

    assert [one.kind for one in log.history().signatures] == [SignatureKind.RESTARTS]


def test_a_crash_after_three_rollouts_is_no_loop_of_all_of_them() -> None:
    log = start()
    for life in range(2, 5):
        for number in range(COUNT):
            log.at(life * 100 + number * 10).generation(
                life * 20 + number, *(pod(n, life if n <= number else life - 1) for n in range(COUNT))
            )
    log.at(520).generation(101, *(pod(n, 5) for n in range(COUNT)))

    assert [one.kind.value for one in log.history().signatures] == ["rollout"] * 4


def test_who_comes_under_another_name_replaces_nobody_whose_name_comes_back() -> None:
    log = Log().at(-60).generation(9, pod(0), pod(1)).at(0).generation(10, pod(0), pod(1), pod(2))
    log.at(20).generation(11, pod(1), pod(2)).at(25).generation(12, pod(0, 2), pod(1), pod(2))
    log.at(40).generation(13, pod(0, 2), pod(2))

    assert log.history().signatures == ()


def test_a_rollout_is_found_before_what_follows_it() -> None:
    log = rolling(start(), 0)
    log.at(100).generation(18, *(pod(n, 2) for n in (0, 1, 2))).at(110)
    log.generation(19, *(pod(n, 2) for n in (0, 1, 2)), pod(3, 3))

    (found,) = log.history().signatures

    assert found.to_ms < log.now_ms
    assert found.rebalances == 8


def test_a_rollout_of_static_members_is_one_too() -> None:
    def static(number: int, life: int) -> GenerationMember:
        return member(f"s{number}/{life}", number, instance_id=f"pod-{number}")

    log = Log().at(-60).generation(9, static(0, 1), static(1, 1))
    log.at(5).generation(9, static(0, 2), static(1, 1)).at(20).generation(9, static(0, 2), static(1, 2))

    history = log.history()

    assert [one.kind for one in history.signatures] == [SignatureKind.ROLLOUT]
    assert (history.totals.rebalances, history.totals.returned) == (0, 2)


@pytest.mark.parametrize(
    ("elapsed", "commits", "found"),
    [
        (8.3, False, False),
        (8.7, False, True),
        (10.4, False, True),
        (12, False, True),
        (10.4, True, False),
        (20, False, False),
    ],
)
def test_a_member_that_never_synced(elapsed: float, commits: bool, found: bool) -> None:
    old, new = member("a/1", 0, 1), member("b/1", 2, 3)
    log = Log().at(-60).generation(9, member("a/1", 0, 1, 2, 3)).commits((0, 1, 2, 3), -50, -5)
    log.at(0).generation(10, old, new).commits((0, 1), 1, elapsed - 1)
    if commits:
        log.commit(2, 5)
    log.at(elapsed).generation(11, member("a/1", 0, 1, 2, 3))

    assert [one.members for one in log.history().signatures] == ([("b",)] if found else [])


@pytest.mark.parametrize(("quiet", "found"), [(10, True), (11, True), (3, False), (15, False)])
def test_a_group_that_stood_still_for_a_session_timeout(quiet: float, found: bool) -> None:
    log = Log().at(-60).generation(9, member("a/1", 0, 1)).commits((0, 1), 1, 50)
    log.at(50 + quiet).generation(11, member("a/1", 0), member("b/1", 1))

    signatures = log.history().signatures

    assert [one.kind for one in signatures] == ([SignatureKind.NEVER_SYNCED] if found else [])
    assert all(one.members == () for one in signatures)


def test_a_short_session_is_met_more_exactly() -> None:
    short = {"session_timeout_ms": 2_000}
    log = Log().at(-60).generation(9, member("a/1", 0, 1, **short)).commits((0, 1), 1, 50, every=0.4)
    log.at(50.6).generation(10, member("a/1", 0, **short), member("b/1", 1, **short))

    assert log.history().signatures == ()


def test_totals() -> None:
    log = rolling(start(), 0)
    log.at(200).generation(30, *(pod(n, 2) for n in range(COUNT)), member("x/1"))

    totals = log.history(until=1800, now=210).totals

    assert totals.rebalances == 9 + 12  # 18 to 29 never completed
    assert totals.never_completed == 12
    assert totals.per_hour == 42
    assert CauseCount(Cause.JOIN, 5) in totals.by_cause
    assert [(one.name, one.joined, one.went, one.rebalances) for one in totals.by_member][:2] == [
        ("pod-0", 1, 1, 2),
        ("pod-1", 1, 1, 2),
    ]
    # A pod that is back has its partition again, but is a new member: its old one is gone.
    assert (totals.moved, totals.moved_needlessly) == (4, 0)


@pytest.mark.parametrize(("now", "over"), [(110, False), (129, False), (131, True)])
def test_whether_it_is_over(now: float, over: bool) -> None:
    assert rolling(start(), 0).history(now=now).over is over


def test_steps_outside_of_the_span_are_left_out() -> None:
    history = rolling(start(), 0).history(since=15, until=45)

    assert [step.number for step in history.steps] == [12, 13, 14]
    assert history.before is not None
    assert history.before.number == 11


@pytest.mark.parametrize(
    ("reach", "covered", "whole"),
    [
        ({}, True, True),
        ({"whole_from": 101}, True, True),
        ({"whole_from": 102}, True, False),
        ({"whole_from": None}, True, False),
        ({"oldest_ms": None}, False, False),
        ({"oldest_ms": 2**62}, False, False),
    ],
)
def test_how_far_back_the_log_reaches(reach: dict[str, int | None], covered: bool, whole: bool) -> None:
    history = rolling(start(), 0).history(reach=reach)

    assert (history.covered, history.whole) == (covered, whole)


def test_moves_are_unknown_of_rebalances_whose_assignments_are() -> None:
    log = start().at(5).generation(10, *(pod(n) for n in range(3)), member("pod-3/1", partitions=None))

    totals = log.history().totals

    assert (totals.moved, totals.moved_unknown) == (0, 1)
