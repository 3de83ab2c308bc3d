"""A group out of what coordinators, metadata and leaders said of it; no broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kgroup.cluster.assemble_group import GroupParts, assemble, failures
from kgroup.cluster.coordinator.groups import GroupDescription
from kgroup.cluster.coordinator.offset_fetch import CommittedOffsets
from kgroup.cluster.topics import TopicLayout
from kgroup.model.commit import Commit
from kgroup.model.groups import Coordinator, Group, LogRange, Member, RowError, TopicPartitions
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotAuthorized, NotFound, Unreachable
from tests.helpers.cases.described import member as described_member

Layouts = Mapping[str, TopicLayout | KgroupError]
Ranges = Mapping[TopicPartition, LogRange | KgroupError]

FORBIDDEN = NotAuthorized("no DESCRIBE on Topic")
DELETED = NotFound("topic does not exist")
DOWN = Unreachable("broker 3 (b3:9092) did not answer")


def member(member_id: str, *assigned: tuple[str, int], **other: Any) -> Member:
    topics = sorted({topic for topic, _ in assigned})
    given = {
        "client_id": "app",
        "host": "/10.0.0.1",
        "subscription": tuple(topics),
        "assignment": tuple(
            TopicPartitions(topic, tuple(number for name, number in assigned if name == topic)) for topic in topics
        ),
    }
    return described_member(member_id, **(given | other))


def described(*members: Member, **other: Any) -> GroupDescription:
    given = {
        "type": "classic",
        "state": "Stable" if members else "Empty",
        "protocol_type": "consumer",
        "assignor": "range" if members else None,
        "group_epoch": None,
        "assignment_epoch": None,
    }
    return GroupDescription(members=members, **(given | other))


def layout(partitions: int) -> TopicLayout:
    return TopicLayout(dict.fromkeys(range(partitions), 1))


def commits(topic: str, *numbers: int) -> CommittedOffsets:
    return {TopicPartition(topic, number): Commit(70, 1, "note") for number in numbers}


def ranges_of(topic: str, partitions: int) -> dict[TopicPartition, LogRange | KgroupError]:
    return {TopicPartition(topic, number): LogRange(0, 120) for number in range(partitions)}


def build(
    about: GroupDescription,
    committed: CommittedOffsets | KgroupError,
    layouts: Layouts,
    ranges: Ranges,
    name: str = "svc",
) -> tuple[Group, list[RowError]]:
    parts = GroupParts(name, about, committed, Coordinator(1, "b1", 9092, None))
    group = assemble(parts, parts.partitions(layouts), ranges, 7, "m-1")
    return group, list(failures(group, parts, layouts, ranges))


def places(group: Group) -> list[TopicPartition]:
    return [TopicPartition(partition.topic, partition.partition) for partition in group.partitions]


def test_partitions_are_the_union_of_committed_assigned_and_the_topics_others() -> None:
    group, errors = build(
        described(member("m-1", ("orders", 1))), commits("orders", 0), {"orders": layout(4)}, ranges_of("orders", 4)
    )

    assert places(group) == [("orders", number) for number in range(4)]
    assert [partition.commit is not None for partition in group.partitions] == [True, False, False, False]
    assert [partition.owner is not None for partition in group.partitions] == [False, True, False, False]
    assert [partition.lag for partition in group.partitions] == [50, None, None, None]
    assert errors == []


def test_a_topic_that_is_subscribed_but_not_assigned_is_shown_whole() -> None:
    idle = member("m-1", subscription=("clicks",))

    group, _ = build(described(idle), {}, {"clicks": layout(2)}, ranges_of("clicks", 2))

    assert places(group) == [("clicks", 0), ("clicks", 1)]
    assert group.totals.unassigned_partition_count == 2
    assert group.totals.idle_member_count == 1


def test_a_topic_that_is_committed_but_read_no_more_stays() -> None:
    group, errors = build(
        described(member("m-1", ("orders", 0))),
        commits("old", 0) | commits("orders", 0),
        {"orders": layout(1), "old": layout(1)},
        ranges_of("orders", 1) | ranges_of("old", 1),
    )

    assert places(group) == [("old", 0), ("orders", 0)]
    assert errors == []


def test_rows_are_ascending_by_topic_and_number() -> None:
    group, _ = build(
        described(), commits("b", 10, 2) | commits("a", 11, 9), {"a": layout(12), "b": layout(11)}, ranges_of("b", 11)
    )

    assert places(group) == sorted(places(group))
    assert places(group)[:3] == [("a", 0), ("a", 1), ("a", 2)]


def test_an_empty_group_keeps_all_partitions_of_its_topics() -> None:
    group, _ = build(described(), commits("orders", 0, 1), {"orders": layout(3)}, ranges_of("orders", 3))

    assert places(group) == [("orders", 0), ("orders", 1), ("orders", 2)]


def test_a_simple_group_has_the_partitions_that_it_commits_to_and_no_others() -> None:
    group, errors = build(
        described(protocol_type=""), commits("orders", 2), {"orders": layout(4)}, ranges_of("orders", 4)
    )

    assert places(group) == [("orders", 2)]
    assert group.is_simple
    assert errors == []


def test_an_assignment_beyond_the_metadata_is_shown_all_the_same() -> None:
    group, _ = build(described(member("m-1", ("orders", 5))), {}, {"orders": layout(2)}, ranges_of("orders", 2))

    assert places(group) == [("orders", 0), ("orders", 1), ("orders", 5)]
    assert group.partitions[-1].owner is not None


def test_owners_are_named_by_what_they_hold_now() -> None:
    first = member("m-1", ("orders", 0), target_assignment=(TopicPartitions("orders", (0, 1)),))
    second = member("m-2", ("orders", 1), target_assignment=())

    group, _ = build(described(first, second), {}, {"orders": layout(2)}, ranges_of("orders", 2))

    assert [partition.owner and partition.owner.member_id for partition in group.partitions] == ["m-1", "m-2"]


def test_a_static_member_that_left_for_a_moment_still_owns() -> None:
    left = member("m-1", ("orders", 0), instance_id="i-1", epoch=-2, protocol="consumer")

    group, _ = build(described(left, type="consumer"), {}, {"orders": layout(1)}, ranges_of("orders", 1))

    assert group.partitions[0].owner == left


def test_members_whose_assignment_is_not_told_own_nothing() -> None:
    group, errors = build(
        described(member("m-1", assignment=None, subscription=None), state="PreparingRebalance"),
        commits("orders", 0),
        {"orders": layout(1)},
        ranges_of("orders", 1),
    )

    assert group.partitions[0].owner is None
    assert errors == []


@pytest.mark.parametrize("reverse", [False, True])
def test_the_order_of_members_does_not_depend_on_the_coordinators(reverse: bool) -> None:
    members = [
        member("m-3", client_id="b"),
        member("m-2", client_id="a", instance_id="i-2"),
        member("m-1", client_id="a", instance_id="i-1"),
    ]

    group, _ = build(described(*(reversed(members) if reverse else members)), {}, {}, {})

    assert [found.member_id for found in group.members or ()] == ["m-1", "m-2", "m-3"]


def test_a_deleted_topic_costs_its_own_rows_only() -> None:
    group, errors = build(
        described(),
        commits("orders", 0) | commits("gone", 0, 1),
        {"orders": layout(1), "gone": DELETED},
        ranges_of("orders", 1) | {TopicPartition("gone", 0): DELETED, TopicPartition("gone", 1): DELETED},
    )

    rows = {(row.topic, row.partition): row for row in group.partitions}
    assert rows[("orders", 0)].lag == 50
    assert rows[("orders", 0)].error is None
    for number in (0, 1):
        assert rows[("gone", number)].commit == Commit(70, 1, "note")
        assert rows[("gone", number)].lag is None
        assert rows[("gone", number)].error == "not-found"
    assert [(error.code, error.group, error.topic) for error in errors] == [("not-found", "svc", "gone")]


def test_a_topic_that_is_subscribed_to_but_not_there_yet_is_no_failure() -> None:
    group, errors = build(described(member("m-1", subscription=("soon",))), {}, {"soon": DELETED}, {})

    assert group.partitions == ()
    assert errors == []


def test_a_forbidden_topic_is_said_even_where_it_has_no_row() -> None:
    _, errors = build(described(member("m-1", subscription=("audit",))), {}, {"audit": FORBIDDEN}, {})

    assert [(error.code, error.topic) for error in errors] == [("not-authorized", "audit")]


def test_offsets_that_cannot_be_read_cost_the_offsets_only() -> None:
    group, errors = build(
        described(member("m-1", ("orders", 0))), FORBIDDEN, {"orders": layout(2)}, ranges_of("orders", 2)
    )

    assert places(group) == [("orders", 0), ("orders", 1)]
    assert all(row.commit is None and row.lag is None for row in group.partitions)
    assert all(row.log == LogRange(0, 120) for row in group.partitions)
    assert [(error.code, error.group, error.topic) for error in errors] == [("not-authorized", "svc", None)]


def test_one_offset_that_cannot_be_read_costs_its_own_row() -> None:
    committed: CommittedOffsets = {TopicPartition("orders", 0): DOWN, TopicPartition("orders", 1): Commit(70, None, "")}

    group, errors = build(described(), committed, {"orders": layout(2)}, ranges_of("orders", 2))

    assert [(row.error, row.lag) for row in group.partitions] == [("unreachable", None), (None, 50)]
    assert [(error.code, error.topic, error.partition) for error in errors] == [("unreachable", "orders", 0)]


def test_a_leader_that_is_gone_costs_its_own_rows() -> None:
    ranges = {**ranges_of("orders", 3), TopicPartition("orders", 1): DOWN}

    group, errors = build(described(), commits("orders", 0, 1, 2), {"orders": layout(3)}, ranges)

    assert [row.lag for row in group.partitions] == [50, None, 50]
    assert [row.error for row in group.partitions] == [None, "unreachable", None]
    assert group.totals.lag == 100
    assert [(error.topic, error.partition) for error in errors] == [("orders", 1)]


def test_a_partition_whose_offset_and_log_both_failed_is_said_once() -> None:
    committed: CommittedOffsets = {TopicPartition("orders", 0): FORBIDDEN}

    group, errors = build(described(), committed, {"orders": layout(1)}, {TopicPartition("orders", 0): DOWN})

    assert group.partitions[0].error is not None
    assert len(errors) == 1


def test_without_layouts_a_group_has_what_it_commits_to_and_holds() -> None:
    group, _ = build(described(member("m-1", ("orders", 1))), commits("orders", 0), {}, {})

    assert places(group) == [("orders", 0), ("orders", 1)]


@pytest.mark.parametrize("name", ["заказы", "注文-svc", "a\x00b", "a b\tc", "", "x" * 249, "\U0001f980"])
def test_any_name_comes_through_as_it_is(name: str) -> None:
    group, errors = build(described(), {TopicPartition("orders", 0): DOWN}, {}, {}, name=name)

    assert group.name == name
    assert [error.group for error in errors] == [name]


def test_generation_leader_epochs_and_coordinator_come_through() -> None:
    group, _ = build(described(type="consumer", group_epoch=5, assignment_epoch=4), {}, {}, {})

    assert (group.generation, group.leader, group.group_epoch, group.assignment_epoch) == (7, "m-1", 5, 4)
    assert group.coordinator == Coordinator(1, "b1", 9092, None)
