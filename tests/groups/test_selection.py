"""Which groups a command is about: names, patterns, filters, near misses, --expect."""

from __future__ import annotations

import pytest

from kgroup.groups.selection import (
    Selection,
    check_expected,
    check_selection,
    names_of,
    names_only,
    near_misses,
    select_groups,
    unknown_groups,
    uses_topic,
)
from kgroup.model.commit import Commit
from kgroup.model.groups import Group, ListedGroup, LogRange, Member, Partition, TopicPartitions
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import ExitCode, NotFound, Refused, UsageError


def listed(name: str, state: str = "Stable", kind: str = "classic") -> ListedGroup:
    return ListedGroup(name, kind, state, "consumer", None)


GROUPS = (
    listed("connect-s3", "Stable"),
    listed("orders-billing", "Empty"),
    listed("orders-enrich", "CompletingRebalance"),
    listed("orders-svc"),
    listed("orders-svc-v2", "Empty", "consumer"),
    listed("queue", "Stable", "share"),
    listed("streams-app", "NotReady", "streams"),
)


def chosen(selection: Selection) -> list[str]:
    check_selection(selection)
    return [group.name for group in select_groups(selection, GROUPS, "prod").groups]


def test_names_are_taken_once_in_the_order_typed_and_group_is_the_same() -> None:
    selection = Selection(names=["b", "a", "b"], group=["c", "a"])

    assert names_of(selection) == ("b", "a", "c")
    assert names_of(Selection()) == ()


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(names=["a"]), True),
        (Selection(group=["a"]), True),
        (Selection(), False),
        (Selection(all_groups=True), False),
        (Selection(regex="a"), False),
        (Selection(names=["a"], in_state=["Empty"]), False),
        (Selection(names=["a"], type=["classic"]), False),
        (Selection(names=["a"], regex="b"), False),
    ],
)
def test_names_alone_need_no_listing(selection: Selection, expected: bool) -> None:
    assert names_only(selection) is expected


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), [group.name for group in GROUPS]),
        (Selection(all_groups=True), [group.name for group in GROUPS]),
        (Selection(names=["orders-svc"]), ["orders-svc"]),
        (Selection(group=["orders-svc"]), ["orders-svc"]),
        (Selection(names=["orders-svc", "connect-s3"]), ["connect-s3", "orders-svc"]),
        (Selection(regex="orders-.*"), ["orders-billing", "orders-enrich", "orders-svc", "orders-svc-v2"]),
        (Selection(regex="orders-svc"), ["orders-svc"]),
        (Selection(in_state=["Empty"]), ["orders-billing", "orders-svc-v2"]),
        (Selection(in_state=["empty", "NotReady"]), ["orders-billing", "orders-svc-v2", "streams-app"]),
        (Selection(in_state=["completingrebalance"]), ["orders-enrich"]),
        (Selection(type=["consumer"]), ["orders-svc-v2"]),
        (Selection(type=["Share", "streams"]), ["queue", "streams-app"]),
        (Selection(type=["consumer"], in_state=["Empty"]), ["orders-svc-v2"]),
        (Selection(regex="orders-.*", type=["classic"], in_state=["Empty"]), ["orders-billing"]),
        # Filters that leave nothing are no error.
        (Selection(in_state=["Dead"]), []),
        (Selection(names=["orders-svc"], in_state=["Empty"]), []),
        (Selection(regex="orders-svc", type=["consumer"]), []),
        (Selection(type=["consumer"], in_state=["Stable"]), []),
    ],
)
def test_choosing(selection: Selection, expected: list[str]) -> None:
    assert chosen(selection) == expected


@pytest.mark.parametrize(
    ("selection", "says", "more"),
    [
        (Selection(names=["order-svc"]), 'no group "order-svc"', "orders-svc (classic, Stable)"),
        (Selection(names=["nope"], in_state=["Empty"]), "nope", ""),  # whatever the filters
        (Selection(regex="payments-.*"), "payments-.*", ""),
        (Selection(regex="orders"), "orders", ".*(orders).* matches 4"),  # parts of names alone
        (Selection(regex="order-svc.*"), "order-svc.*", "orders-svc"),
    ],
)
def test_what_is_not_found(selection: Selection, says: str, more: str) -> None:
    with pytest.raises(NotFound) as raised:
        chosen(selection)

    error = raised.value
    assert (error.exit_code, error.code) == (ExitCode.NOT_FOUND, "not-found")
    assert says in error.message
    assert more in "\n".join((*error.details, error.hint or ""))


def test_one_missing_name_among_others_is_an_error_and_does_not_hide_them() -> None:
    found = select_groups(Selection(names=["orders-svc", "nope"]), GROUPS, "prod")

    assert [group.name for group in found.groups] == ["orders-svc"]
    assert found.missing is not None
    assert "nope" in found.missing.message


@pytest.mark.parametrize(
    ("selection", "says", "hint"),
    [
        (Selection(names=["a"], all_groups=True), "--all-groups", ""),
        (Selection(group=["a"], all_groups=True), "--all-groups", ""),
        (Selection(names=[""]), "empty", ""),
        (Selection(group=[""]), "empty", ""),
        (Selection(regex=""), "--regex is empty", ""),
        (Selection(regex="("), "--regex", ""),
        (Selection(regex="*"), "--regex", ""),
        (Selection(in_state=["Stabel"]), "--in-state Stabel", "Stable"),
        (Selection(type=["clasic"]), "--type clasic", "classic"),
        (Selection(type=["consumer", "new"]), "--type new", ""),
        (Selection(topic=["orders:"]), "--topic", ""),
        (Selection(topic=["orders:x"]), "--topic", ""),
        (Selection(topic=[":1"]), "--topic", ""),
        (Selection(topic=["orders:1,"]), "--topic", ""),
    ],
)
def test_what_has_no_meaning_is_a_usage_error(selection: Selection, says: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        check_selection(selection)

    assert raised.value.exit_code == ExitCode.USAGE
    assert says in raised.value.message
    assert hint in (raised.value.hint or "")


@pytest.mark.parametrize("expect", [None, 3])
def test_the_expected_number_passes(expect: int | None) -> None:
    check_expected(Selection(expect=expect), 3)


@pytest.mark.parametrize(("expect", "found"), [(1, 0), (1, 2), (0, 1), (120, 119)])
def test_another_number_is_refused(expect: int, found: int) -> None:
    with pytest.raises(Refused) as raised:
        check_expected(Selection(expect=expect), found)

    assert raised.value.exit_code == ExitCode.REFUSED
    assert str(expect) in raised.value.message
    assert str(found) in raised.value.message


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("order-svc", "orders-svc"),
        ("orders-svc-v3", "orders-svc-v2"),
        ("ORDERS-SVC", "orders-svc"),
        ("enrich", "orders-enrich"),
        ("connect-s3-archive", "connect-s3"),
    ],
)
def test_near_misses(name: str, first: str) -> None:
    near = [group.name for group in near_misses(name, GROUPS)]

    assert near[0] == first
    assert len(near) <= 3


def test_groups_that_differ_in_case_alone_are_all_near() -> None:
    groups = (listed("Orders"), listed("ORDERS"))

    assert {group.name for group in near_misses("orders", groups)} == {"Orders", "ORDERS"}


def test_nothing_near_says_no_word_of_near() -> None:
    error = unknown_groups(["zzz"], GROUPS, "prod")

    assert error.details == ()
    assert 'no group "zzz"' in error.message


def member(subscription: tuple[str, ...] | None, *assigned: str) -> Member:
    assignment = tuple(TopicPartitions(topic, (0,)) for topic in assigned)
    return Member("m-1", None, "m", "/10.0.0.1", None, None, "classic", subscription, None, assignment, None)


def group(*, members: tuple[Member, ...] = (), committed: str | None = None, assigned: str | None = None) -> Group:
    partitions = []
    if committed:
        partitions.append(Partition(TopicPartition(committed, 0), Commit(1, None, ""), LogRange(0, 2), None, None))
    if assigned:
        partitions.append(Partition(TopicPartition(assigned, 0), None, LogRange(0, 2), members[0], None))
    return Group("g", "classic", "Stable", "consumer", None, None, None, None, None, None, members, tuple(partitions))


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        (group(committed="orders"), True),
        (group(committed="orders-2"), False),
        (group(members=(member((), "orders"),), assigned="orders"), True),
        (group(members=(member(("orders",)),)), True),
        (group(members=(member(None),)), False),
        (group(), False),
    ],
)
def test_a_group_concerns_a_topic_by_commit_assignment_or_subscription(about: Group, expected: bool) -> None:
    assert uses_topic(about, Selection(topic=["clicks", "orders"]).topics) is expected


@pytest.mark.parametrize(
    ("about", "topic", "expected"),
    [
        (group(committed="orders"), "orders:0", True),
        (group(committed="orders"), "orders:1,0", True),
        (group(committed="orders"), "orders:1", False),
        (group(members=(member((), "orders"),)), "orders:0", True),
        (group(members=(member((), "orders"),)), "orders:1", False),
        (group(members=(member(("orders",)),)), "orders:0", False),
    ],
)
def test_a_group_uses_a_partition_by_commit_or_assignment(about: Group, topic: str, expected: bool) -> None:
    assert uses_topic(about, Selection(topic=[topic]).topics) is expected


def test_the_partitions_of_a_filter() -> None:
    topics = Selection(topic=["orders:0", "orders:2", "clicks"]).topics

    assert topics.names == ("orders", "clicks")
    assert [topics.has("orders", number) for number in range(3)] == [True, False, True]
    assert topics.has("clicks", 7)
    assert not topics.has("audit", 0)
    assert Selection().topics.has("audit", 0)
