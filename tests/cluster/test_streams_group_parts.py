"""The tasks of streams groups as partitions, and what their changelogs hold; no broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from kgroup.cluster.assemble_group import GroupParts
from kgroup.cluster.coordinator.groups import GroupDescription
from kgroup.cluster.streams_group_parts import changelog_topics, with_changelogs, with_partitions
from kgroup.cluster.topics import TopicLayout
from kgroup.model.groups import LogRange
from kgroup.model.streams_group import Changelogs, StreamsGroup, StreamsMember, StreamsTask, Subtopology, TaskRole
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotAuthorized, NotFound
from tests.helpers.cases.described import member

JOIN = Subtopology("0", ("clicks", "orders"), (), ("wc-join-changelog", "wc-more-changelog"))
COUNT = Subtopology("1", (), ("wc-by-repartition",), ("wc-count-changelog",))
LOOKUP = Subtopology("10", ("orders",))


def roles(
    active: Sequence[StreamsTask] = (), standby: Sequence[StreamsTask] = ()
) -> Mapping[TaskRole, tuple[StreamsTask, ...]]:
    return {TaskRole.ACTIVE: tuple(active), TaskRole.STANDBY: tuple(standby), TaskRole.WARMUP: ()}


def streams(*subtopologies: Subtopology, epoch: int = 0, **members: StreamsMember) -> StreamsGroup:
    return StreamsGroup(epoch, subtopologies, members)


def has(
    active: Sequence[StreamsTask] = (), standby: Sequence[StreamsTask] = (), epoch: int = 0, **lags: int
) -> StreamsMember:
    known = {StreamsTask(*_of(name)): lag for name, lag in lags.items()}
    return StreamsMember("p", epoch, roles(active, standby), roles(active), known)


def _of(name: str) -> tuple[str, int]:
    _, subtopology, number = name.split("_")
    return subtopology, int(number)


def parts(group: StreamsGroup) -> GroupParts:
    members = tuple(member(name, epoch=4, assignment=()) for name in group.members)
    described = GroupDescription("streams", "Stable", "streams", "sticky", 4, 4, members, group)
    return GroupParts("wc", described, {}, None)


LAYOUTS: Mapping[str, TopicLayout | KgroupError] = {
    "orders": TopicLayout(dict.fromkeys(range(3), 1)),
    "clicks": TopicLayout(dict.fromkeys(range(2), 1)),
    "wc-by-repartition": NotAuthorized("no DESCRIBE on Topic"),
}


def test_a_task_has_its_partition_of_each_topic_that_has_one() -> None:
    group = streams(
        JOIN,
        COUNT,
        a=has([StreamsTask("0", 0), StreamsTask("1", 0)]),
        b=has([StreamsTask("0", 2)], [StreamsTask("0", 0)]),
    )
    known = with_partitions(parts(group), LAYOUTS)
    assert known.described.members is not None
    assert [[(each.topic, each.partitions) for each in one.assignment or ()] for one in known.described.members] == [
        [("clicks", (0,)), ("orders", (0,)), ("wc-by-repartition", (0,))],
        [("orders", (2,))],
    ]
    assert known.streams is not None
    # The partitions of its repartition topic may not be seen, nor whether it exists: the member's task is known.
    assert list(map(str, known.streams.tasks)) == ["0_0", "0_1", "0_2", "1_0"]
    assert list(map(str, known.streams.without_owner)) == ["0_1"]
    assert known.streams.missing is None


def test_topics_that_do_not_exist_are_named() -> None:
    known = with_partitions(parts(streams(JOIN, LOOKUP)), {"orders": LAYOUTS["orders"], "clicks": NotFound("gone")})
    assert known.streams is not None
    assert known.streams.missing == ("clicks",)
    all_there = with_partitions(parts(streams(LOOKUP)), LAYOUTS)
    assert all_there.streams is not None
    assert all_there.streams.missing == ()
    assert list(map(str, known.streams.tasks)) == ["0_0", "0_1", "0_2", "10_0", "10_1", "10_2"]


@pytest.mark.parametrize("group", [StreamsGroup(None, None, {}), streams(JOIN)])
def test_what_was_not_read_is_unknown(group: StreamsGroup) -> None:
    known = with_partitions(parts(group), {})
    assert known.streams is not None
    assert (known.streams.missing, known.streams.tasks) == (None, ())


def test_changelogs_are_summed_over_the_stores_of_a_task() -> None:
    group = streams(JOIN, COUNT, a=has([StreamsTask("0", 0), StreamsTask("0", 1), StreamsTask("1", 0)]))
    logs: dict[TopicPartition, LogRange | KgroupError] = {
        TopicPartition("wc-join-changelog", 0): LogRange(10, 30),
        TopicPartition("wc-more-changelog", 0): LogRange(0, 5),
        TopicPartition("wc-join-changelog", 1): LogRange(0, 7),
        TopicPartition("wc-more-changelog", 1): NotAuthorized("no DESCRIBE on Topic"),
        TopicPartition("wc-count-changelog", 0): LogRange(0, 0),
    }
    sizes = dict.fromkeys(logs, 1000)
    known = with_changelogs(group, logs, sizes)
    assert known.changelogs == {
        StreamsTask("0", 0): Changelogs(25, 2000),
        StreamsTask("0", 1): Changelogs(None, 2000),
        StreamsTask("1", 0): Changelogs(0, 1000),
    }
    assert known.restore_ms(StreamsTask("0", 0), 500) == 4000
    assert known.restore_ms(StreamsTask("9", 0), 500) is None
    assert changelog_topics([parts(group)]) == {"wc-join-changelog", "wc-more-changelog", "wc-count-changelog"}


def test_the_lag_of_a_task_is_that_of_the_nearest_copy_that_reported_one() -> None:
    task = StreamsTask("0", 0)
    group = streams(JOIN, a=has([task], _0_0=9), b=has(standby=[task], _0_0=7), c=has(standby=[task]), d=has())
    (copies,) = group.copies
    assert copies.by_role[TaskRole.STANDBY] == (("b", 7), ("c", None))
    assert copies.lag == 7
    assert streams(JOIN, a=has([task], _0_0=9)).copies[0].lag is None
    assert [one.has_tasks for one in group.members.values()] == [True, True, True, False]


def test_members_of_another_topology() -> None:
    assert streams(JOIN, epoch=2, a=has(epoch=2), b=has(epoch=1)).other_topologies == ("b",)
