"""Plans that change a share group, made by hand."""

from __future__ import annotations

from kgroup.groups.change_plan import ChangeRow
from kgroup.model.commit import Commit
from kgroup.model.groups import Group, LogRange, Partition
from kgroup.model.share_group import BrokerLag, ShareGroup, ShareSettings
from kgroup.model.topic_partition import TopicPartition

LOG = LogRange(0, 20)


def start(offset: int | None) -> Commit | None:
    return None if offset is None else Commit(offset, None, "")


def row(old: int | None, new: int | None, lag: int | None, log: LogRange | None = LOG, number: int = 0) -> ChangeRow:
    return ChangeRow("jobs", "orders", number, start(old), start(new), log, counted=BrokerLag(lag))


def share_group(starts: dict[int, int | None], settings: ShareSettings | None = None) -> Group:
    partitions = [
        Partition(TopicPartition("orders", number), start(offset), None, None, None, BrokerLag(0))
        for number, offset in starts.items()
    ]
    return Group(
        "jobs", "share", "Empty", "share", None, None, None, None, 3, 3, (), partitions, share=ShareGroup(settings)
    )
