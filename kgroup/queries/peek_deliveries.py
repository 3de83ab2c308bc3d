"""Reads the records of a share group that are retried or archived, for ``kgroup peek``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from kgroup.cluster.deadline import Deadline
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.lag.evidence import Isolation
from kgroup.groups.peek import PeekRequest, PeekTarget, ReadableLog, ReadWindow
from kgroup.groups.peek_deliveries import DeadLetteredRecords, PeekedDeliveries, dead_letter_of, newest_of_each_kind
from kgroup.groups.reset_targets import TopicChoice
from kgroup.model.group_log import LOG_INCOMPLETE
from kgroup.model.groups import Group, LogRange, RowError
from kgroup.model.records import ConsumerRecord
from kgroup.model.reporter import Reporter
from kgroup.model.share_deliveries import Deliveries
from kgroup.model.share_group import ShareGroup
from kgroup.model.topic_partition import TopicPartition
from kgroup.queries.deliveries import BUDGET_S, with_deliveries
from kgroup.queries.peek_window import MOST_BYTES, PeekLimits, ReadWindowOf, records_before, records_of
from kgroup.support.errors import ExitCode, KgroupError
from kgroup.support.units import plural

if TYPE_CHECKING:
    from kgroup.cluster.reader.batches import BatchReader

_DEAD_LETTERS = 1000
"""How many dead letters of each partition of their topic are searched."""


def delivery_targets(
    cluster: Cluster, group: Group, topics: Sequence[TopicChoice] | None
) -> tuple[tuple[PeekTarget, ...], tuple[RowError, ...]]:
    """The partitions of a share group with records that are retried or archived: last attempts first."""
    (read,) = with_deliveries(cluster, [group], BUDGET_S)
    share = read.share or ShareGroup()
    deliveries = share.deliveries or Deliveries()
    wanted = None if topics is None else {choice.topic: choice.partitions for choice in topics}
    targets = []
    for p in read.partitions:
        if p.tp not in deliveries.partitions:
            continue
        if wanted is not None and not (p.topic in wanted and p.partition in (wanted[p.topic] or (p.partition,))):
            continue
        peeked = PeekedDeliveries(deliveries.partitions[p.tp], share.delivery_limit)
        if peeked.batches:
            targets.append(PeekTarget(*p.tp, group.name, p.commit.offset if p.commit else None, deliveries=peeked))
    targets.sort(key=lambda target: (-target.deliveries.last_attempts if target.deliveries else 0, target.tp))
    if deliveries.unread is None:
        return tuple(targets), ()
    what = f"what became of its records is not known: {deliveries.unread}"
    return tuple(targets), (RowError(LOG_INCOMPLETE, what, group.name, exit_code=ExitCode.PARTLY),)


def isolation_of(share: ShareGroup) -> Isolation | None:
    """The isolation level of the group; None if it is not known."""
    level = share.settings.isolation if share.settings else None
    return Isolation(level) if level in tuple(Isolation) else None


def deliveries_reader(
    reporter: Reporter, cluster: Cluster, share: ShareGroup, group: str, timeout_s: float
) -> Callable[[BatchReader], ReadWindowOf]:
    """What reads the records to be shown of each partition, without those that the dead-letter topic has."""

    def with_dead_letters(reader: BatchReader) -> ReadWindowOf:
        topic = share.settings.dead_letters if share.settings else None
        if topic is None or topic.exists is False:
            return _DeliveredReader(reporter)
        try:
            limits = PeekLimits(Deadline.after(timeout_s), MOST_BYTES)
            dead_letters = _read_dead_letters(cluster, reader, topic.name, group, limits)
        except KgroupError as error:
            reporter.note(f"archived records may be in {topic.name}, which cannot be read: {error.message}")
            return _DeliveredReader(reporter)
        return _DeliveredReader(reporter, topic.name, dead_letters)

    return with_dead_letters


def _read_dead_letters(
    cluster: Cluster, reader: BatchReader, topic: str, group: str, limits: PeekLimits
) -> DeadLetteredRecords:
    """The records that the newest dead letters of a group are about. Raises KgroupError if they cannot be read."""
    layouts = cluster.layouts([topic])
    layout = layouts[topic]
    if isinstance(layout, KgroupError):
        raise layout
    found: set[tuple[str, int, int]] = set()
    for tp, view in cluster.log_views(layouts, [TopicPartition(topic, number) for number in layout.leaders]).items():
        if isinstance(view, KgroupError):
            raise view
        log = ReadableLog(view.start, view.end, view.last_stable.offset)
        records, _ = records_before(reader, tp, log, log.readable_end, _DEAD_LETTERS, limits)
        found |= {about for each in records if (about := dead_letter_of(each, group)) is not None}
    return frozenset(found)


class _DeliveredReader(msgspec.Struct, frozen=True):
    """Reads of each kind the newest records, without those of which there is a dead letter in ``topic``."""

    reporter: Reporter
    topic: str = ""
    dead_letters: DeadLetteredRecords = frozenset()

    def __call__(
        self,
        reader: BatchReader,
        target: PeekTarget,
        log: ReadableLog,
        offset: int,
        request: PeekRequest,
        limits: PeekLimits,
    ) -> ReadWindow:
        assert target.deliveries is not None
        found: list[ConsumerRecord] = []
        start, stop, stopped_reason = log.end, offset, None
        for offsets in target.deliveries.ranges(LogRange(offset, log.readable_end)):
            records, stop_of_range = records_of(reader, target.tp, offsets, offsets.end - offsets.start, limits)
            found = [*records, *found]
            start, stop = offsets.start, max(stop, stop_of_range)
            if stop_of_range < offsets.end:
                stopped_reason = limits.reached
                break
        alive = [record for record in found if (*record.tp, record.offset) not in self.dead_letters]
        if left_out := len(found) - len(alive):
            self.reporter.note(f"{target.tp}: left out, {plural(left_out, 'record')} that {self.topic} has")
        kept = newest_of_each_kind(alive, target.deliveries, request.count)
        return ReadWindow(min(start, stop), min(start, stop), stop, kept, stopped_reason)
