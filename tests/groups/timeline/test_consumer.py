"""Consumer groups (KIP-848): epochs, their targets and the way there; statics; conversions between the protocols."""

from __future__ import annotations

import pytest

from kgroup.groups.timeline.steps import StepKind
from kgroup.model.group_log import (
    MemberAssignmentWritten,
    MemberWritten,
    RebalanceProtocol,
    TargetEpochWritten,
    TargetWritten,
)
from tests.helpers.cases.history import Log, inferred, member, of, why


def grown() -> Log:
    """A joins at 0 and takes all; B joins at 30 and gets half, which takes until 35. As a broker writes it."""
    log = (
        Log().at(0).member("a/1").epoch(1).has("a/1", 1).target(1, **{"a/1": of(0, 1, 2, 3)}).has("a/1", 1, 0, 1, 2, 3)
    )
    log.at(30).member("b/1").epoch(2).has("b/1", 2, stable=False)
    log.target(2, **{"a/1": of(0, 1), "b/1": of(2, 3)})
    log.at(32).has("a/1", 1, 0, 1, stable=False, pending=of(2, 3))
    log.at(34).has("a/1", 2, 0, 1)
    return log.at(35).has("b/1", 2, 2, 3)


def test_joins() -> None:
    first, second = grown().steps()

    assert why(first) == {"join": ("a",)}
    assert why(second) == {"join": ("b",)}
    assert [present.name for present in first.members] == ["a"]
    assert (first.moved, second.moved, second.moved_needlessly) == (None, 2, 2)
    assert (first.took_ms, second.took_ms) == (0, 5_000)
    assert (first.completed, second.completed) == (True, True)
    assert [(p.name, len(p.partitions or ()), p.other) for p in second.members] == [("a", 2, True), ("b", 2, None)]


def test_an_epoch_that_is_overtaken_before_all_members_got_there() -> None:
    log = grown().at(50).member("c/1").epoch(3).has("c/1", 3, stable=False)
    log.target(3, **{"b/1": of(2), "c/1": of(3)}).at(51).left("c/1").epoch(4).target(4, **{"b/1": of(2, 3)})

    third, fourth = log.steps(45_000)[2:]

    assert third.completed is False
    assert [present.name for present in third.members] == ["a", "b", "c"]
    assert why(fourth) == {"leave": ("c",)}
    assert fourth.completed is None  # the log ends before it is clear


def test_the_last_one_leaves() -> None:
    log = grown().at(60).left("a/1").epoch(3).at(61).left("b/1").epoch(4)

    assert [(step.kind, step.rebalances) for step in log.steps()[2:]] == [(StepKind.REBALANCE, 1), (StepKind.EMPTY, 0)]
    assert log.steps()[3].completed is None


@pytest.mark.parametrize(
    ("session_ms", "last_commit", "gone", "expected"),
    [
        (45_000, 60, 80, "leave"),
        (45_000, 60, 103, "session-expired"),
        # A commit may come up to a heartbeat interval after the last heartbeat: neither is sure.
        (45_000, 60, 92, "session-expired"),
        # A short session: a third of it is the most that its last heartbeat may be older than its last commit.
        (3_000, 60, 60.5, "leave"),
        (3_000, 60, 62.5, "session-expired"),
        (3_000, 60, 63.5, "session-expired"),
        # librdkafka exceeds its poll interval (5 min), is silent from then on, and its session ends.
        (45_000, 60, 405, "poll-interval-exceeded"),
        (None, 60, 80, "gone"),
        (45_000, 60, 200, "gone"),
        (45_000, 60, 361, "poll-interval-exceeded"),
    ],
)
def test_how_a_member_went(session_ms: int | None, last_commit: float, gone: float, expected: str) -> None:
    log = grown().commits((0, 1, 2, 3), 36, last_commit).commits((0, 1), last_commit + 1, gone - 1)
    log.at(gone).left("b/1").epoch(3)

    step = log.steps(session_ms)[-1]

    assert why(step) == {expected: ("b",)}
    assert bool(inferred(step)) == (expected in ("session-expired", "poll-interval-exceeded"))


def test_a_static_member_that_went_for_a_moment_and_is_back() -> None:
    log = Log().member("a/1").member("s/1", instance_id="pod-0").epoch(1)
    log.target(1, **{"a/1": of(0), "s/1": of(1)}).has("a/1", 1, 0).has("s/1", 1, 1)
    log.at(20).has("s/1", -2, 1)
    log.at(30).left("s/1").target_only("s/2", of(1)).member("s/2", instance_id="pod-0").has("s/2", 1, 1)
    log.at(50).member("b/1").epoch(2).target(2, **{"b/1": of()})

    first, back, last = log.steps()

    assert first.completed is True
    assert back.kind is StepKind.REWRITTEN
    assert why(back) == {"static-member-replaced": ("pod-0",)}
    assert back.returned == ("pod-0",)
    assert why(last) == {"join": ("b",)}
    assert last.moved == 0
    assert [present.name for present in last.members] == ["a", "b", "pod-0"]


def test_partitions_that_are_added_just_when_a_static_member_comes_back() -> None:
    log = Log().member("s/1", instance_id="pod-0").epoch(1, 7).target(1, **{"s/1": of(1)}).has("s/1", 1, 1)
    log.at(20).has("s/1", -2, 1).at(21).left("s/1").member("s/2", instance_id="pod-0").at(21.5).epoch(2, 8)

    assert why(log.steps()[-1]) == {"static-member-replaced": ("pod-0",), "partitions-changed": ()}


def test_a_static_member_that_is_away_is_marked() -> None:
    log = Log().member("s/1", instance_id="pod-0").epoch(1).target(1, **{"s/1": of(1)}).has("s/1", 1, 1)

    (step,) = log.at(20).has("s/1", -2, 1).steps()

    assert step.members[0].away is True


def test_a_static_member_whose_session_ends_while_it_is_away() -> None:
    log = Log().member("a/1").member("s/1", instance_id="pod-0").epoch(1)
    log.target(1, **{"a/1": of(0), "s/1": of(1)}).has("a/1", 1, 0).has("s/1", 1, 1)
    log.at(20).has("s/1", -2, 1).at(65).left("s/1").epoch(2)

    assert why(log.steps(45_000)[-1]) == {"session-expired": ("pod-0",)}
    assert why(log.steps(None)[-1]) == {"gone": ("pod-0",)}


def test_another_subscription_and_more_partitions() -> None:
    log = grown().at(50).member("b/1", topics=frozenset({"audit"})).epoch(3, topics_hash=8)
    log.at(60).epoch(4, topics_hash=9).at(70).epoch(5, topics_hash=9)

    assert [why(step) for step in log.steps()[2:]] == [
        {"subscription-changed": ("b",)},
        {"partitions-changed": ()},
        {"unknown": ()},
    ]


def test_an_empty_group_is_upgraded() -> None:
    log = Log().generation(7).at(20).gone(RebalanceProtocol.CLASSIC).member("a/1").epoch(2)

    step = log.steps()[-1]

    assert step.protocol is RebalanceProtocol.CONSUMER
    assert why(step) == {"join": ("a",), "upgraded": ()}


def test_a_live_group_is_upgraded_and_downgraded() -> None:
    log = Log().generation(7, member("a/1", 0, 1)).at(20).gone(RebalanceProtocol.CLASSIC)
    log.member("a/1", classic_session_ms=10_000).epoch(7).target(7, **{"a/1": of(0, 1)}).has("a/1", 7, 0, 1)
    log.member("k/1").epoch(8).has("k/1", 8).target(8, **{"k/1": of(1), "a/1": of(0)})
    log.at(40).left("k/1").left("a/1").gone(RebalanceProtocol.CONSUMER).generation(9, member("a/1", 0, 1))

    upgraded, joined, downgraded = log.steps()[1:]

    assert why(upgraded) == {"upgraded": ()}
    assert upgraded.moved == 0
    assert upgraded.members[0].session_ms == 10_000
    assert why(joined) == {"join": ("k",)}
    assert (joined.moved, joined.moved_needlessly) == (1, 1)
    assert why(downgraded) == {"downgraded": (), "gone": ("k",)}
    assert downgraded.protocol is RebalanceProtocol.CLASSIC
    assert (downgraded.moved, downgraded.moved_needlessly) == (1, 0)


def test_deleted_and_made_anew_is_no_conversion() -> None:
    log = grown().at(60).left("a/1").left("b/1").epoch(3).at(90).gone(RebalanceProtocol.CONSUMER).at(200)
    log.generation(1, member("a/2", 0, 1, 2, 3))

    assert [step.kind for step in log.steps()[2:]] == [StepKind.EMPTY, StepKind.DELETED, StepKind.REBALANCE]
    assert why(log.steps()[-1]) == {"join": ("a",)}
    assert log.steps()[-1].moved == 0


def test_who_holds_a_partition_while_it_changes_hands() -> None:
    log = grown().commit(2, 9)
    early = grown()
    del early.events[-2:]
    early.commit(2, 9)

    assert [made.owner for made in log.track().commits] == ["b"]
    assert [made.owner for made in early.track().commits] == ["a"]


def test_a_log_that_begins_in_the_middle_claims_nothing() -> None:
    log = Log().has("a/1", 4, 0).target(4, **{"a/1": of(0)}).left("z/1").epoch(5).target(5, **{"a/1": of(0, 1)})

    (step,) = log.steps()

    assert step.number == 5
    assert why(step) == {"gone": ("z/1",)}
    assert step.moved is None


def test_a_downgrade_in_the_order_in_which_brokers_write_it() -> None:
    """All of type 8, then 7, then 6, then 5, then 3, and the classic group behind them, in one batch."""
    log = grown().at(60)
    for number, kind in enumerate((MemberAssignmentWritten, TargetWritten, TargetEpochWritten, MemberWritten), 1):
        if kind is TargetEpochWritten:
            log.events.append(TargetEpochWritten(log.offset + number * 10, log.now_ms, None))
            continue
        for name in ("a/1", "b/1"):
            log.events.append(kind(log.offset + number * 10 + (name == "b/1"), log.now_ms, name, None))
    log.offset += 50
    log.gone(RebalanceProtocol.CONSUMER).generation(3, member("a/1", 0, 1, 2, 3))

    second, downgraded = log.steps()[1:]

    assert [(present.name, present.partitions) for present in second.members] == [("a", of(0, 1)), ("b", of(2, 3))]
    assert second.completed is True
    assert why(downgraded) == {"gone": ("b",), "downgraded": ()}
    assert downgraded.moved == 2


def test_a_static_member_is_replaced_in_the_order_in_which_brokers_write_it() -> None:
    log = Log().member("a/1").member("s/1", instance_id="pod-0").epoch(1)
    log.target(1, **{"a/1": of(0), "s/1": of(1)}).has("a/1", 1, 0).has("s/1", -2, 1)
    log.at(30).left("s/1").member("s/2", instance_id="pod-0").target_only("s/2", of(1)).has("s/2", 1, 1)

    first, back = log.steps()

    assert back.kind is StepKind.REWRITTEN
    assert back.returned == ("pod-0",)
    assert [present.name for present in first.members] == ["a", "pod-0"]
