"""Conditions, the words for what is seen, session bounds, the hold: tables of cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kgroup.groups.member_sessions import (
    Liveness,
    ObservedMembers,
    SessionBound,
    evict_text,
    lines_of_members,
    session_text,
)
from kgroup.groups.wait_conditions import Observation, holds_without_group, parse_conditions, total_lag, unread
from kgroup.groups.wait_progress import EventLine, GroupVersion, Hold, line_of, next_pause_s, waiting_summary
from kgroup.model.groups import Commit, Coordinator, Group, LogRange, Member, Partition
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import UsageError

NOW_MS = 1_800_000_000_000


def member(
    name: str = "m", *, epoch: int | None = None, instance: str | None = None, host: str = "10.0.7.6", key: str = ""
) -> Member:
    return Member(key or f"{name}-id", instance, name, host, None, epoch, None, None, None, None, None)


def partition(
    number: int, committed: int | None, start: int | None = 0, end: int = 100, error: str | None = None
) -> Partition:
    commit = None if committed is None else Commit(committed, None, "")
    return Partition("orders", number, commit, None if start is None else LogRange(start, end), None, error)


def group(
    state: str = "Empty",
    *members: Member,
    kind: str = "classic",
    epoch: int | None = None,
    assigned: int | None = None,
    partitions: Sequence[Partition] = (),
    coordinator: int = 1,
    hidden: bool = False,
) -> Group:
    broker = Coordinator(coordinator, "b", 9092, None)
    seen = None if hidden else members
    return Group("svc", kind, state, "consumer", None, broker, None, None, epoch, assigned, seen, tuple(partitions))


def sight(found: Group | None, unread_ms: dict[TopicPartition, int | None] | None = None) -> Observation:
    return Observation("svc", found, NOW_MS, unread_ms or {})


TWO = (member("a"), member("b"))
UP_TO_DATE = (member("a", epoch=5), member("b", epoch=5))
BEHIND = (member("a", epoch=5), member("b", epoch=4))
GONE = (member("a", epoch=5), member("b", epoch=-2, instance="b-0"))


@pytest.mark.parametrize(
    ("condition", "found", "holds", "seen"),
    [
        ("empty", group("Empty"), True, "Empty"),
        ("empty", None, True, "does not exist"),
        ("empty", group("Stable", *TWO), False, "Stable, 2 members"),
        ("empty", group("Reconciling", *GONE, kind="consumer", epoch=5, assigned=5), False, "Reconciling, 2 members"),
        ("empty", group("Stable", hidden=True), False, "Stable"),
        ("empty", group("Empty", hidden=True), True, "Empty"),
        ("stable", group("Stable", *TWO), True, "Stable, 2 members"),
        ("stable", group("PreparingRebalance", *TWO), False, "PreparingRebalance, 2 members"),
        ("stable", group("Empty"), False, "Empty"),
        ("stable", None, False, "does not exist"),
        ("stable", group("Stable", *UP_TO_DATE, kind="consumer", epoch=5, assigned=5), True, "Stable, 2 members"),
        (
            "stable",
            group("Stable", *UP_TO_DATE, kind="consumer", epoch=6, assigned=5),
            False,
            "group epoch 6, assignment epoch 5",
        ),
        (
            "stable",
            group("Stable", *BEHIND, kind="consumer", epoch=5, assigned=5),
            False,
            "b is at epoch 4, the group at 5",
        ),
        (
            "stable",
            group("Stable", *GONE, kind="consumer", epoch=5, assigned=5),
            False,
            "b-0 has left for a moment, the group at 5",
        ),
        ("stable", group("Stable", kind="consumer", epoch=5, assigned=5, hidden=True), True, "Stable"),
        ("members=2", group("Stable", *TWO), True, "Stable, 2 members"),
        ("members=1", group("Stable", *TWO), False, "Stable, 2 members"),
        ("members=0", group("Empty"), True, "Empty"),
        ("members=0", None, True, "does not exist"),
        ("members=0", group("Empty", hidden=True), True, "Empty"),
        ("members=2", group("Stable", hidden=True), False, "members unknown"),
        ("type=consumer", group(kind="consumer"), True, "type consumer"),
        ("type=consumer", group(), False, "type classic"),
        ("type=consumer", None, False, "does not exist"),
        ("lag=50", group(partitions=[partition(0, 60), partition(1, 90)]), True, "lag 50"),
        ("lag=49", group(partitions=[partition(0, 60), partition(1, 90)]), False, "lag 50"),
        ("lag=0", group(partitions=[partition(0, 100)]), True, "lag 0"),
        # A partition without a commit counts with its whole log, and what is gone does not count.
        ("lag=109", group(partitions=[partition(0, 90), partition(1, None, 0, 100)]), False, "lag 110"),
        ("lag=30", group(partitions=[partition(0, 5, 70)]), True, "lag 30"),
        ("lag=9", group(), False, "no partition is committed or assigned"),
        ("lag=9", None, False, "does not exist"),
        (
            "lag=9",
            group(partitions=[partition(0, 100), partition(1, 5, None, error="has no leader that answers")]),
            False,
            "lag unknown, orders:1 has no leader that answers",
        ),
        ("lag=9", group(partitions=[partition(3, 101)]), False, "lag unknown, orders:3 committed beyond the log end"),
    ],
)
def test_condition(condition: str, found: Group | None, holds: bool, seen: str) -> None:
    (parsed,) = parse_conditions([condition])
    judgement = parsed.judge(sight(found))
    assert (judgement.holds, judgement.observed) == (holds, seen)
    assert judgement.condition.text == condition


@pytest.mark.parametrize(
    ("unread_ms", "holds", "seen", "known"),
    [
        ({}, True, "nothing unread", True),
        ({TopicPartition("orders", 0): NOW_MS - 29_999}, True, "oldest unread record 30s, orders:0", True),
        ({TopicPartition("orders", 0): NOW_MS - 30_000}, False, "oldest unread record 30s, orders:0", True),
        (
            {TopicPartition("orders", 0): NOW_MS - 1000, TopicPartition("orders", 1): NOW_MS - 90_000},
            False,
            "oldest unread record 1m30s, orders:1",
            True,
        ),
        ({TopicPartition("orders", 0): NOW_MS + 5000}, True, "oldest unread record 0s, orders:0", True),
        ({TopicPartition("orders", 0): None}, False, "age of the oldest unread record of orders:0 unknown", False),
    ],
)
def test_lag_time(unread_ms: dict[TopicPartition, int | None], holds: bool, seen: str, known: bool) -> None:
    (parsed,) = parse_conditions(["lag-time=30s"])
    judgement = parsed.judge(sight(group(partitions=[partition(0, 5), partition(1, 5)]), unread_ms))
    assert (judgement.holds, judgement.observed, judgement.known) == (holds, seen, known)


def test_unread_ranges_begin_at_the_commit_or_the_log_start() -> None:
    rows = [partition(0, 60), partition(1, 5, 70), partition(2, None, 10), partition(3, 100), partition(4, 1, None)]
    assert unread(group(partitions=rows)) == {
        ("orders", 0): (60, 100),
        ("orders", 1): (70, 100),
        ("orders", 2): (10, 100),
    }
    assert total_lag(group(partitions=rows[:4])) == 40 + 30 + 90
    assert total_lag(group(partitions=rows)) is None


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "--for is missing"),
        (["emty"], "--for emty: unknown"),
        (["empty=1"], "--for empty=1: unknown"),
        (["lag"], "a plain number is needed, as in lag=20000"),
        (["lag=-1"], "a plain number is needed"),
        (["lag=20k"], "a plain number is needed"),
        (["members=six"], "as in members=6"),
        (["lag-time=30"], "--for lag-time 30: 30 what?"),
        (["lag-time"], "no age that a record can be below"),
        (["lag-time=0s"], "no age that a record can be below"),
        (["type=streams"], "unknown type"),
        (["empty", "stable"], "empty and stable are never so at the same time"),
        (["members=0", "stable"], "never so at the same time"),
        (["empty", "members=2"], "never so at the same time"),
        (["members=1", "members=2"], "never so at the same time"),
        (["type=classic", "type=consumer"], "never so at the same time"),
    ],
)
def test_no_condition(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_conditions(texts)
    assert message in error.value.message


def test_a_near_miss_is_named() -> None:
    with pytest.raises(UsageError) as error:
        parse_conditions(["emty"])
    assert error.value.hint == "did you mean empty?"


def test_conditions_each_once() -> None:
    parsed = parse_conditions(["stable", "members=6", "stable", "lag=5", "lag-time=90s"])
    assert [condition.text for condition in parsed] == ["stable", "members=6", "lag=5", "lag-time=1m30s"]


@pytest.mark.parametrize(
    ("texts", "expected"), [(["empty"], True), (["members=0"], True), (["stable"], False), (["members=1"], False)]
)
def test_what_holds_without_a_group(texts: list[str], expected: bool) -> None:
    assert holds_without_group(parse_conditions(texts)) is expected


def line(found: Group | None, texts: Sequence[str], sessions: dict[str, SessionBound] | None = None) -> EventLine:
    conditions = parse_conditions(texts)
    seen = sight(found)
    return line_of(seen, [condition.judge(seen) for condition in conditions], sessions or {})


STATIC = member("pay", instance="pay-4", key="x")


@pytest.mark.parametrize(
    ("found", "texts", "sessions", "text"),
    [
        (group("Stable", *(member(str(n)) for n in range(6))), ["empty"], {}, "svc Stable, 6 members"),
        (
            group("Stable", member("pay-4", key="x")),
            ["empty"],
            {"x": SessionBound(Liveness.COUNTING, 30.2)},
            "svc 1 member: pay-4 10.0.7.6, session ends within 31s if it is gone",
        ),
        (
            group("Stable", STATIC),
            ["empty"],
            {"x": SessionBound(Liveness.COUNTING, 252)},
            "svc 1 member: pay-4 10.0.7.6, static, session ends within 4m12s if it is gone; "
            "kgroup evict svc --instance pay-4 removes it now",
        ),
        (
            group("Stable", STATIC),
            ["empty"],
            {"x": SessionBound(Liveness.ALIVE, 45)},
            "svc 1 member: pay-4 10.0.7.6, static, still heartbeats, or did less than 45s ago",
        ),
        (
            group("PreparingRebalance", member("p", key="x")),
            ["empty"],
            {"x": SessionBound(Liveness.REBALANCING, 45)},
            "svc 1 member: p 10.0.7.6, session ends within 45s of the rebalance if it is gone",
        ),
        (
            group("Reconciling", replace(STATIC, epoch=-2), kind="consumer"),
            ["empty"],
            {"x": SessionBound(Liveness.COUNTING, 5)},
            "svc 1 member: pay-4 10.0.7.6, static, has left for a moment, session ends within 5s; "
            "kgroup evict svc --instance pay-4 removes it now",
        ),
        (group("Stable", member("p")), ["empty"], {}, "svc 1 member: p 10.0.7.6, session timeout unknown"),
        (
            group("Stable", member("p", key="1"), member("p", key="2"), member("p", host="10.0.7.7")),
            ["members=2"],
            {},
            "svc 3 members: 1 10.0.7.6, session timeout unknown; 2 10.0.7.6, session timeout unknown; "
            "p 10.0.7.7, session timeout unknown",
        ),
        (group("Stable", *TWO), ["members=6", "stable"], {}, "svc Stable, 2 members"),
        (group("Empty"), ["empty"], {}, "svc is Empty"),
        (None, ["empty"], {}, "svc does not exist"),
        (None, ["stable"], {}, "svc does not exist"),
        (group(partitions=[partition(0, 60)]), ["lag=7"], {}, "svc lag 40, waiting for lag=7"),
        (
            group("Stable", *TWO, partitions=[partition(0, 60)]),
            ["members=6", "lag=7", "type=consumer"],
            {},
            "svc Stable, 2 members; lag 40, waiting for lag=7; type classic",
        ),
        (
            group("Stable", *TWO, partitions=[partition(0, 60)]),
            ["stable", "members=2", "lag=40", "type=classic"],
            {},
            "svc is Stable, 2 members; lag 40; is of type classic",
        ),
    ],
)
def test_line(found: Group | None, texts: list[str], sessions: dict[str, SessionBound], text: str) -> None:
    assert line(found, texts, sessions).text == text


def test_counts_alone_are_no_event() -> None:
    """The key stays while only seconds and records count on, and changes with what matters."""
    one = group("Stable", member("p", key="x"))
    counting = [line(one, ["empty"], {"x": SessionBound(Liveness.COUNTING, left)}) for left in (31, 12)]
    assert counting[0].key == counting[1].key
    assert counting[0].text != counting[1].text
    assert counting[0].key != line(one, ["empty"], {"x": SessionBound(Liveness.ALIVE, 45)}).key
    lags = [line(group(partitions=[partition(0, offset)]), ["lag=0"]).key for offset in (60, 70)]
    assert lags[0] == lags[1]
    assert line(group("Stable", *TWO), ["members=6"]).key != line(group("Stable", TWO[0]), ["members=6"]).key


def test_many_groups_are_one_line() -> None:
    assert waiting_summary(["a", "b", "c", "d", "e", "f", "g"], 12).text == (
        "7 of 12 groups are not there yet: a, b, c and 4 more"
    )
    assert waiting_summary(["a"], 12).text == "1 of 12 groups is not there yet: a"
    assert waiting_summary(["a", "b"], 3).key != waiting_summary(["a", "c"], 3).key


def test_names_are_quoted_in_commands() -> None:
    odd = replace(group("Stable", replace(STATIC, instance_id="a b")), name="pay svc")
    assert evict_text(odd, {}) == "kgroup evict 'pay svc' --instance 'a b' removes it now"


def test_members_of_a_refusal_stand_in_columns() -> None:
    found = group("Stable", member("orders-svc-0", key="x"), replace(STATIC, host="10.0.3.14", member_id="y"))
    assert lines_of_members(
        found, {"x": SessionBound(Liveness.ALIVE, 45), "y": SessionBound(Liveness.COUNTING, 38)}
    ) == (
        "orders-svc-0  10.0.7.6   still heartbeats, or did less than 45s ago",
        "pay-4         10.0.3.14  static, session ends within 38s if it is gone",
    )


def test_a_session_that_ends_in_a_moment() -> None:
    assert session_text(member(), SessionBound(Liveness.COUNTING, 0.01)) == "session ends within 1s if it is gone"


def test_bound_counts_from_first_sight() -> None:
    """A member that was dead at t goes by t + its timeout; one that is listed later lives."""
    early, late = member("early"), member("late")
    watched = ObservedMembers().step(group("Stable", early), 100)
    watched = watched.step(group("Stable", early, late), 130)
    assert watched.session(early, 45_000, 131) == SessionBound(Liveness.COUNTING, 14)
    assert watched.session(late, 45_000, 131) == SessionBound(Liveness.COUNTING, 44)
    assert watched.session(early, 45_000, 146) == SessionBound(Liveness.ALIVE, 45)
    assert watched.session(early, None, 146).life is Liveness.UNKNOWN
    # One that left and came back under the same id counts anew.
    again = watched.step(group("Stable", late), 150).step(group("Stable", early, late), 160)
    assert again.session(early, 45_000, 160) == SessionBound(Liveness.COUNTING, 45)
    assert watched.step(None, 160) == ObservedMembers()


def test_bound_counts_anew_after_what_renews_sessions() -> None:
    one = member()
    watched = ObservedMembers().step(group("Stable", one), 0)
    moved = watched.step(group("Stable", one, coordinator=2), 40)
    assert moved.session(one, 45_000, 50) == SessionBound(Liveness.COUNTING, 35)
    # No session ends in a classic rebalance; the first look after it may be later than its end, never before.
    rebalancing = watched.step(group("PreparingRebalance", one), 40)
    assert rebalancing.session(one, 45_000, 44) == SessionBound(Liveness.REBALANCING, 45)
    over = rebalancing.step(group("Stable", one), 42)
    assert over.session(one, 45_000, 43) == SessionBound(Liveness.COUNTING, 44)
    # The consumer protocol has no such thing.
    state = group("Reconciling", one, kind="consumer")
    assert ObservedMembers().step(state, 0).step(state, 40).session(one, 45_000, 44) == SessionBound(
        Liveness.COUNTING, 1
    )


def test_bound_of_a_static_member_counts_from_its_leaving() -> None:
    here, left = replace(STATIC, epoch=5), replace(STATIC, epoch=-2)
    watched = ObservedMembers().step(group("Stable", here, kind="consumer"), 0)
    for now in (40.0, 50.0):
        watched = watched.step(group("Reconciling", left, kind="consumer"), now)
    assert watched.session(left, 45_000, 50) == SessionBound(Liveness.COUNTING, 35)


E5, E6, UNKNOWN = GroupVersion("consumer", 5), GroupVersion("consumer", 6), GroupVersion("consumer", None)


@pytest.mark.parametrize(
    ("steps", "reached_at"),
    [
        ([(0, True, E5), (5, True, E5), (10, True, E5)], 10),
        ([(0, True, E5), (5, False, E5), (6, True, E5), (12, True, E5), (16, True, E5)], 16),
        # Empty at both looks, but somebody was there in between.
        ([(0, True, E5), (5, True, E6), (10, True, E6), (15, True, E6)], 15),
        ([(0, True, E5), (5, True, UNKNOWN), (10, True, E5)], 10),
        ([(0, True, E5), (5, True, UNKNOWN), (9, True, E6), (12, True, E6)], None),
        ([(0, True, E5), (5, True, GroupVersion("classic", 5)), (12, True, GroupVersion("classic", 5))], None),
        ([(0, True, GroupVersion()), (10, True, GroupVersion())], 10),
        ([(0, False, E5)], None),
    ],
)
def test_hold(steps: list[tuple[float, bool, GroupVersion]], reached_at: float | None) -> None:
    hold, reached = Hold(10), None
    for now_s, holds, trace in steps:
        hold = hold.step(now_s, holds, [trace])
        if hold.reached(now_s) and reached is None:
            reached = now_s
    assert reached == reached_at


def test_no_hold_is_reached_at_once() -> None:
    assert Hold(0).step(3, True, []).reached(3)
    assert not Hold(0).step(3, False, []).reached(3)
    assert Hold(10).step(3, True, []).left_s(7) == 6
    assert Hold(10).left_s(7) == 10
    assert Hold(10).step(0, True, [E5]).step(5, True, [E6]).broken


def test_pauses_grow_and_are_never_short() -> None:
    pauses = [0.5]
    for _ in range(8):
        pauses.append(next_pause_s(pauses[-1], changed=False, holding=False, left_s=60))
    assert pauses[1] == 0.75
    assert pauses == sorted(pauses)
    assert pauses[-1] == 2.0
    assert next_pause_s(2.0, changed=True, holding=False, left_s=60) == 0.5
    assert next_pause_s(2.0, changed=False, holding=True, left_s=60) == 1.0
    assert next_pause_s(2.0, changed=False, holding=True, left_s=0.3) == 0.3
    assert next_pause_s(2.0, changed=False, holding=False, left_s=0.01) == 0.2
