"""Groups with members and partitions, as observations of a wait."""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.groups.wait_conditions import Observation
from kgroup.model.commit import Commit
from kgroup.model.groups import Coordinator, Group, LogRange, Member, Partition
from kgroup.model.topic_partition import TopicPartition

NOW_MS = 1_800_000_000_000


def member(
    name: str = "m", *, epoch: int | None = None, instance: str | None = None, host: str = "10.0.7.6", key: str = ""
) -> Member:
    return Member(key or f"{name}-id", instance, name, host, None, epoch, None, None, None, None, None)


def partition(
    number: int, committed: int | None, start: int | None = 0, end: int = 100, error: str | None = None
) -> Partition:
    commit = None if committed is None else Commit(committed, None, "")
    return Partition(
        TopicPartition("orders", number), commit, None if start is None else LogRange(start, end), None, error
    )


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


STATIC = member("pay", instance="pay-4", key="x")
