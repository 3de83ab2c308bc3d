"""Adds to share groups how often their records were delivered, from ``__share_group_state``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from kgroup.cluster.snapshot import Cluster
from kgroup.model.groups import Group
from kgroup.model.share_deliveries import Deliveries
from kgroup.model.share_group import ShareGroup
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError
from kgroup.support.hint import Hint
from kgroup.support.units import plural

BUDGET_S = 2.0
"""How long the topic is read where no option says so."""


def with_deliveries(cluster: Cluster, groups: Iterable[Group], budget_s: float) -> tuple[Group, ...]:
    """The groups; share groups with the deliveries on their partitions that have a start offset.

    ``budget_s`` is how long the topic is read; with 0 it is not read.
    """
    known = tuple(groups)
    wanted = {group.name: [p.tp for p in group.partitions if p.commit is not None] for group in known if group.is_share}
    if not wanted or budget_s <= 0:
        return known
    try:
        read = cluster.deliveries(wanted, budget_s)
    except KgroupError as error:
        read = dict.fromkeys(wanted, Deliveries(unread=error.message))
    return tuple(
        replace(group, share=replace(group.share or ShareGroup(), deliveries=read[group.name]))
        if group.name in read
        else group
        for group in known
    )


class ArchivedMeanwhile:
    """Counts the offsets that share groups archive after two deliveries or more, from the first reading on.

    The brokers delete the state of what is archived after minutes, so it has to be read again and again.
    """

    def __init__(self, every_s: float = 10.0) -> None:
        self._every_s = every_s
        self._known: dict[tuple[str, TopicPartition], set[int]] = {}
        self._counts: dict[str, int] = {}
        self._due_s = 0.0

    def read(self, cluster: Cluster, groups: Iterable[Group], now_s: float) -> None:
        """Read the state of the share groups among these, if it is time to."""
        if now_s < self._due_s:
            return
        self._due_s = now_s + self._every_s
        for group in with_deliveries(cluster, (group for group in groups if group.is_share), BUDGET_S):
            deliveries = group.share.deliveries if group.share else None
            if deliveries is not None and deliveries.unread is None:
                self.add(group.name, deliveries)

    def add(self, group: str, deliveries: Deliveries) -> None:
        """Add the next reading; the first one counts nothing."""
        new = 0
        for tp, state in deliveries.partitions.items():
            archived = {offset for each in state.surely_archived for offset in range(each.first, each.last + 1)}
            known = self._known.setdefault((group, tp), set() if group in self._counts else archived)
            new += len(archived - known)
            known |= archived
        self._counts[group] = self._counts.get(group, 0) + new

    def count(self, group: str) -> int | None:
        """How many at least; None if the state was never read."""
        return self._counts.get(group)

    def notes(self) -> Iterator[str]:
        """A sentence for each group that has archived something, with the command that shows it."""
        for group, count in self._counts.items():
            if count:
                what = f"{group} archived {plural(count, 'offset')} meanwhile, after 2 deliveries or more"
                yield f"{what}: {Hint('{}', ('peek', group))}"
