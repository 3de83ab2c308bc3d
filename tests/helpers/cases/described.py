"""Members, partitions and groups as a coordinator describes them, with the usual values where a test says none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kgroup.model.commit import Commit
from kgroup.model.groups import Coordinator, Group, LogRange, Member, Partition, TopicPartitions
from kgroup.model.topic_partition import TopicPartition


def member(member_id: str, *partitions: int, topic: str = "orders", **other: Any) -> Member:
    """A classic member that reads ``topic`` and has these partitions of it; its client has its name."""
    given: dict[str, Any] = {
        "instance_id": None,
        "client_id": member_id,
        "host": "10.0.3.2",
        "rack": None,
        "epoch": None,
        "protocol": "classic",
        "subscription": (topic,),
        "subscription_regex": None,
        "assignment": (TopicPartitions(topic, partitions),) if partitions else (),
        "target_assignment": None,
    }
    return Member(member_id=member_id, **(given | other))


def partition(
    number: int,
    committed: int | None = None,
    log: tuple[int, int] | None = None,
    owner: Member | None = None,
    error: str | None = None,
    topic: str = "orders",
) -> Partition:
    commit = None if committed is None else Commit(committed, None, "")
    return Partition(TopicPartition(topic, number), commit, None if log is None else LogRange(*log), owner, error)


def group(partitions: Sequence[Partition] = (), members: Sequence[Member] | None = (), **other: Any) -> Group:
    """A classic group ``orders-enrich``, which is Stable."""
    given: dict[str, Any] = {
        "name": "orders-enrich",
        "type": "classic",
        "state": "Stable",
        "protocol_type": "consumer",
        "assignor": "range",
        "coordinator": Coordinator(2, "b2", 9092, None),
        "generation": 112,
        "leader": None,
        "group_epoch": None,
        "assignment_epoch": None,
    }
    who = None if members is None else tuple(members)
    return Group(members=who, partitions=tuple(partitions), **(given | other))
