"""Share and streams groups: the same steps as of consumer groups, and what is their own; the real order of records."""

from __future__ import annotations

import pytest

from kgroup.groups.timeline.steps import StepKind
from kgroup.model.group_log import RebalanceProtocol
from tests.helpers.cases.history import Log, of, tasks, why

ALL = tasks("0_0", "0_1", "1_0", "1_1")


def shared() -> Log:
    """A share group as a broker writes it: the partitions are assigned once their start offsets were written."""
    log = Log().at(0).member("a/1").share_epoch(2).target(2, **{"a/1": of()}).has("a/1", 2)
    log.states(of(0, 1), of()).at(2).states(of(), of(0, 1))
    log.at(5).share_epoch(3).target(3, **{"a/1": of(0, 1)}).has("a/1", 3, 0, 1)
    log.at(6).member("b/1").share_epoch(4).has("b/1", 3)
    return log.at(10).target(4, **{"a/1": of(0, 1), "b/1": of(1)}).has("a/1", 4, 0, 1).at(11).has("b/1", 4, 1)


def running(standbys: int = 1) -> Log:
    """A streams group: a runs all, then b comes, and each keeps the state of the other's tasks with a store."""
    log = Log().at(0).member("a/1").topology(0, orders="0", counts="1").streams_epoch(2).runs("a/1", 1, tasks())
    log.at(1).streams_epoch(3, 8).at(3).task_target(3, **{"a/1": (ALL, tasks())}).at(5).runs("a/1", 3, ALL)
    log.at(10).member("b/1").streams_epoch(4, 8, standbys)
    a, b = (tasks("0_0", "1_0"), tasks("1_1")), (tasks("0_1", "1_1"), tasks("1_0"))
    log.task_target(4, **{"b/1": b, "a/1": a}).runs("b/1", 4, tasks(), b[1])
    return log.at(12).runs("a/1", 4, *a).at(13).runs("b/1", 4, *b)


def test_a_share_group() -> None:
    first, second, third = shared().steps()

    assert [why(step) for step in (first, second, third)] == [
        {"join": ("a",)},
        {"offsets-initialized": ()},
        {"join": ("b",)},
    ]
    assert {step.protocol for step in (first, second, third)} == {RebalanceProtocol.SHARE}
    assert (third.took_ms, third.completed) == (5_000, True)
    # Both have partition 1: none has moved, whatever was assigned.
    assert (third.moved, third.moved_needlessly, third.promoted) == (None, None, None)
    assert [(p.name, p.partitions, p.spares) for p in third.members] == [("a", of(0, 1), None), ("b", of(1), None)]


def test_the_end_of_a_share_group() -> None:
    log = shared().at(30).left("b/1").share_epoch(5).left("a/1").share_epoch(6, None)
    log.at(60).states(of(), of(), "orders").no_states().gone(RebalanceProtocol.SHARE)

    kinds = [(step.kind, step.number, step.protocol.value) for step in log.steps()[3:]]

    assert kinds == [
        (StepKind.REBALANCE, 5, "share"),
        (StepKind.EMPTY, 6, "share"),
        (StepKind.DELETED, 6, "share"),
    ]


def test_an_epoch_after_an_initialization_has_its_own_cause_if_there_is_one() -> None:
    log = shared().at(20).states(of(2), of(0, 1)).states(of(), of(0, 1, 2)).at(21).left("b/1").share_epoch(5)

    assert why(log.steps(45_000)[-1]) == {"leave": ("b",)}


def test_a_streams_group() -> None:
    first, second, third = running().steps()

    assert [why(step) for step in (first, second, third)] == [
        {"join": ("a",)},
        {"partitions-changed": ()},  # its own topics were created
        {"join": ("b",), "settings-changed": ()},
    ]
    assert (third.moved, third.moved_needlessly, third.promoted, third.took_ms) == (2, 2, 0, 3_000)
    b = third.members[1]
    assert b.spares is not None
    assert (b.partitions, b.spares.standby) == (tasks("0_1", "1_1"), tasks("1_0"))


def test_a_standby_is_promoted() -> None:
    log = running().at(20).left("a/1").streams_epoch(5, 8, 1).at(22).task_target(5, **{"b/1": (ALL, tasks())})

    last = log.runs("b/1", 5, ALL).steps(45_000)[-1]

    assert why(last) == {"leave": ("a",)}
    # Of the two tasks that moved, one has a store, of which b kept a copy.
    assert (last.moved, last.promoted) == (2, 1)


@pytest.mark.parametrize(("epoch", "reads", "expected"), [
    (0, {"orders": "0", "counts": "1"}, {"unknown": ()}),
    (1, {"orders": "0", "counts": "1", "clicks": "2"}, {"topology-changed": ()}),
])  # fmt: skip
def test_another_topology(epoch: int, reads: dict[str, str], expected: dict[str, tuple[str, ...]]) -> None:
    log = running().at(20).topology(epoch, **reads).streams_epoch(5, 8, 1)

    assert why(log.steps()[-1]) == expected


@pytest.mark.parametrize("standbys", [0, None])
def test_settings_that_are_the_same_or_not_stored_are_no_cause(standbys: int | None) -> None:
    log = running(0).at(20).streams_epoch(5, 8, standbys)

    assert why(log.steps()[-1]) == {"unknown": ()}


def test_who_ran_the_task_of_a_commit() -> None:
    log = running().at(20).commit(0, 5).commit(1, 6).commit(1, 6, topic="counts").commit(0, 1, topic="elsewhere")

    assert [one.owner for one in log.track().commits] == ["a", "b", "b", None]


def test_a_commit_shows_that_a_streams_member_left() -> None:
    """Its tasks are of subtopologies, its commits of topics."""
    log = running().commits((0, 1), 15, 200).at(201).left("b/1").streams_epoch(5, 8, 1)

    assert why(log.steps(45_000)[-1]) == {"leave": ("b",)}


def test_a_classic_group_becomes_a_streams_group() -> None:
    log = Log().generation(1).at(10).gone(RebalanceProtocol.CLASSIC).member("a/1").topology(0, orders="0")

    *_, last = log.streams_epoch(2).steps()

    assert why(last) == {"join": ("a",), "upgraded": ()}
    assert last.protocol is RebalanceProtocol.STREAMS


def test_a_share_group_that_is_deleted_does_not_become_the_next_group_of_its_name() -> None:
    log = shared().left("a/1").left("b/1").share_epoch(5).gone(RebalanceProtocol.SHARE).generation(1)

    assert [step.kind for step in log.steps()[-2:]] == [StepKind.DELETED, StepKind.EMPTY]
    assert "downgraded" not in why(log.steps()[-1])
