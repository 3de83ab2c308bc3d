"""Conditions, and the words for what is observed: tables of cases."""

from __future__ import annotations

import pytest
from msgspec import structs

from kgroup.groups.wait_conditions import holds_without_group, parse_conditions, total_lag, unread
from kgroup.model.groups import Group
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import UsageError
from tests.helpers.cases.observed_groups import BEHIND, GONE, NOW_MS, TWO, UP_TO_DATE, group, member, partition, sight


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
            "b-0 has left temporarily, the group at 5",
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
        ("type=streams", group(kind="streams"), True, "type streams"),
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
        ("lag=9", group(partitions=[partition(3, 101)]), False, "lag unknown, orders:3 is committed above the log end"),
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


def test_a_group_is_not_late_with_a_topic_that_it_has_left() -> None:
    reader = structs.replace(member(), subscription=("clicks",), assignment=())
    found = group("Stable", reader, partitions=[partition(0, 60)])

    assert unread(found) == {}
    assert unread(structs.replace(found, state="PreparingRebalance")) == {("orders", 0): (60, 100)}
    assert total_lag(found) == 40


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "--for is required"),
        (["emty"], "--for emty: unknown"),
        (["empty=1"], "--for empty=1: unknown"),
        (["lag"], "a whole number is required, as in lag=20000"),
        (["lag=-1"], "a whole number is required"),
        (["lag=20k"], "a whole number is required"),
        (["members=six"], "as in members=6"),
        (["lag-time=30"], "--for lag-time 30: the unit is missing"),
        (["lag-time"], "must be greater than 0"),
        (["lag-time=0s"], "must be greater than 0"),
        (["type=query"], "unknown type"),
        (["empty", "stable"], "empty and stable cannot hold at the same time"),
        (["members=0", "stable"], "cannot hold at the same time"),
        (["empty", "members=2"], "cannot hold at the same time"),
        (["members=1", "members=2"], "cannot hold at the same time"),
        (["type=classic", "type=consumer"], "cannot hold at the same time"),
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
