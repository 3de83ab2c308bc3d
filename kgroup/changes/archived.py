"""Which archived records of share groups a plan has delivered again, from ``__share_group_state``."""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_plan import ChangeRow
from kgroup.groups.share_changes import note_archived
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError

_BUDGET_S = 1.0


def with_archived(cluster: ChangingCluster, rows: Sequence[ChangeRow]) -> list[ChangeRow]:
    """The rows; those that set a start offset with a note about archived records, if their states can be read."""
    wanted: dict[str, list[TopicPartition]] = {}
    for row in rows:
        if row.counted is not None and row.new is not None and row.error is None:
            wanted.setdefault(row.group, []).append(row.tp)
    if not wanted:
        return list(rows)
    try:
        deliveries = cluster.deliveries(wanted, _BUDGET_S)
    except KgroupError:
        return list(rows)
    return [
        note_archived(row, deliveries[row.group].partitions.get(row.tp)) if row.group in deliveries else row
        for row in rows
    ]
