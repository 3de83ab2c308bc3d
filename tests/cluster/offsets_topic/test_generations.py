"""The generation of classic groups, looked for again and again over one connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kgroup.cluster.offsets_topic.scan import PartitionScan
from kgroup.cluster.snapshot import Cluster, SnapshotRequest
from kgroup.model.groups import Group, LogRange
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members

Name = Callable[[str], str]

_WANT = SnapshotRequest(offsets=False, logs=False, generation_budget_s=5.0)


def test_the_next_look_reads_what_came_since(
    cluster: Cluster, world: KafkaWorld, members: Members, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads less, and sees every new generation, an Empty one and the end of the group."""
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    read_from: list[LogRange] = []

    run = PartitionScan.run

    async def noted(scan: PartitionScan, *rest: Any, floor: int, **others: Any) -> None:
        assert isinstance(scan.log, LogRange)
        read_from.append(LogRange(floor, scan.log.end))
        await run(scan, *rest, floor=floor, **others)

    monkeypatch.setattr(PartitionScan, "run", noted)

    def look() -> Group:
        (found,) = cluster.describe([group], _WANT).groups
        return found

    first = members.classic(group, topic)
    members.stable(first, partitions=2)
    alone = look()
    again = look()
    assert alone.generation is not None
    assert alone.leader is not None
    assert (again.generation, again.leader) == (alone.generation, alone.leader)
    assert read_from[1].start == read_from[0].end, "from where the last look ended"

    second = members.classic(group, topic)
    members.stable(first, second, partitions=2)
    both = look()
    assert both.generation is not None
    assert both.generation > alone.generation

    first.close()
    second.close()
    empty = look()
    assert empty.generation is not None
    assert empty.generation > both.generation
    assert empty.leader is None
    assert look().generation == empty.generation

    world.delete_group(group)
    assert not cluster.describe([group], _WANT).groups
    world.commit(group, {(topic, 0): 1})
    assert look().generation != empty.generation, "another group of that name"
