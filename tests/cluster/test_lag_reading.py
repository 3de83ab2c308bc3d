"""What is added to a group before the facts of its partitions are read."""

from __future__ import annotations

from kgroup.cluster.lag_reading import with_all_partitions
from kgroup.cluster.topics import Layouts, LogView, TopicLayout
from kgroup.model.groups import LogRange, Position
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotFound
from tests.helpers.cases.lag import Part, group


def test_the_partitions_without_a_commit_of_topics_with_one() -> None:
    """Those that a user of assign() may have missed: with their log, or why it is unknown."""
    simple = group([Part(1, 5), Part(0, 5, topic="gone")], protocol_type="")
    layouts: Layouts = {"orders": TopicLayout({0: 1, 1: 1, 2: 1, 3: 1}), "gone": NotFound("no such topic")}
    views: dict[TopicPartition, LogView | KgroupError] = {
        TopicPartition("orders", 0): LogView(20, 200, Position(200, 0), ()),
        TopicPartition("orders", 2): KgroupError("no leader", code="no-leader"),
    }

    found = with_all_partitions(simple, layouts, views).partitions

    assert [(p.topic, p.partition, p.log, p.error) for p in found] == [
        ("gone", 0, simple.partitions[1].log, None),
        ("orders", 0, LogRange(20, 200), None),
        ("orders", 1, simple.partitions[0].log, None),
        ("orders", 2, None, "no-leader"),
        ("orders", 3, None, None),
    ]
