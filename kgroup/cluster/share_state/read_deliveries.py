"""Reads the deliveries of share groups from ``__share_group_state``, with the scan of ``__consumer_offsets``.

Each partition of a group has its own key, and so its own partition of the topic, which is read back to its log start:
the brokers delete what is older than minutes, and keep one snapshot of each key.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kgroup.cluster.byte_reader import MalformedRecord
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_partition import partition_of
from kgroup.cluster.offsets_topic.decode import key_prefix
from kgroup.cluster.offsets_topic.record_batches import RawRecord
from kgroup.cluster.offsets_topic.scan import OUT_OF_TIME, Entry, PartitionScan
from kgroup.cluster.share_state.state_records import SNAPSHOT, UPDATE, decode, fold, key_tail
from kgroup.cluster.topics import TopicLayout, log_ranges, topic_layouts
from kgroup.model.groups import LogRange
from kgroup.model.share_deliveries import Deliveries, PartitionDeliveries
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError

STATE_TOPIC = "__share_group_state"

_TYPE_BYTES = 2


async def read_deliveries(
    client: CoordinatorClient, wanted: Mapping[str, Collection[TopicPartition]], budget: Deadline
) -> dict[str, Deliveries]:
    """The deliveries of these partitions of share groups, read until ``budget`` ends.

    What cannot be read is unknown, with the reason. Raises KgroupError if no broker answers.
    """
    if not any(wanted.values()):
        return dict.fromkeys(wanted, Deliveries())
    topics = {tp.topic for partitions in wanted.values() for tp in partitions}
    layouts = await topic_layouts(client, {STATE_TOPIC, *topics})
    layout = layouts[STATE_TOPIC]
    if isinstance(layout, KgroupError):
        return dict.fromkeys(wanted, Deliveries(unread=f"{STATE_TOPIC} {layout.message}"))
    by_number: dict[int, dict[bytes, tuple[str, TopicPartition]]] = {}
    for group, partitions in wanted.items():
        for tp in partitions:
            topic = layouts.get(tp.topic)
            if isinstance(topic, TopicLayout) and topic.id is not None:
                number = partition_of(f"{group}:{topic.id}:{tp.partition}", len(layout.leaders))
                by_number.setdefault(number, {})[key_tail(group, topic.id, tp.partition)] = (group, tp)
    places = [TopicPartition(STATE_TOPIC, number) for number in by_number]
    logs = await log_ranges(client, {STATE_TOPIC: layout}, places, budget)
    scans = [_StateScan(tp, layout.leaders.get(tp.partition), logs[tp], by_number[tp.partition]) for tp in places]
    await client.gather(scan.run(client, budget) for scan in scans)
    found: dict[str, dict[TopicPartition, PartitionDeliveries]] = {group: {} for group in wanted}
    reasons: dict[str, str] = {}
    for scan in scans:
        for (group, tp), state in scan.states():
            if isinstance(state, str):
                reasons[group] = state
            else:
                found[group][tp] = state
    return {group: Deliveries(found[group], reasons.get(group)) for group in wanted}


class _StateScan:
    """Reads one partition of the topic, and keeps the records of ``keys``, the ends of their keys, newest first."""

    def __init__(
        self,
        tp: TopicPartition,
        leader: int | None,
        log: LogRange | KgroupError,
        keys: Mapping[bytes, tuple[str, TopicPartition]],
    ) -> None:
        groups = tuple({group for group, _ in keys.values()})
        self._scan = PartitionScan(tp.partition, leader, log, groups, topic=tp.topic)
        self._keys = keys
        self._records: dict[bytes, list[RawRecord]] = {tail: [] for tail in keys}

    async def run(self, client: CoordinatorClient, budget: Deadline) -> None:
        handlers = {key_prefix(kind, name): self._add for kind in (SNAPSHOT, UPDATE) for name in self._scan.groups}
        await self._scan.run(client, handlers, budget, lambda: True)

    def _add(self, entry: Entry) -> None:
        raw = entry[0]
        if (records := self._records.get(raw.key[_TYPE_BYTES:])) is not None:
            records.append(raw)

    def states(self) -> list[tuple[tuple[str, TopicPartition], PartitionDeliveries | str]]:
        """The state of each partition of a group, or why it is unknown."""
        return [(self._keys[tail], self._state(records)) for tail, records in self._records.items()]

    def _state(self, records: list[RawRecord]) -> PartitionDeliveries | str:
        stopped = self._scan.stopped
        try:
            state = fold(
                (decode(each.key, each.value, each.timestamp_ms) for each in reversed(records)), self._scan.oldest_ms
            )
        except MalformedRecord as error:
            return f"{self._scan.name} {error.message}"
        if state is not None or stopped is None:
            return state or PartitionDeliveries(since_ms=self._scan.oldest_ms)
        return f"too much of {STATE_TOPIC} to read in the time for it" if stopped is OUT_OF_TIME else stopped
