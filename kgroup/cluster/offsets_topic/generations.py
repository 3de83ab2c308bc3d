"""Find generations of classic groups in ``__consumer_offsets``, reading backwards from its end within a time limit.

No response of the coordinator has a classic group's generation and leader. They are only in the last record that it
wrote for the group.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.offsets_topic.records import GroupMetadata, RecordType
from kgroup.cluster.offsets_topic.scan import OUT_OF_TIME, Entry, PartitionScan, Visitor, decode_or_none, scan_groups
from kgroup.cluster.topics import TopicLayout
from kgroup.model.groups import LogRange
from kgroup.support.errors import KgroupError


class Generation(msgspec.Struct, frozen=True):
    """The newest generation of a classic group in the log; ``leader`` is None while the group is empty.

    ``session_timeouts_ms`` are its members' own timeouts, by member id.
    """

    number: int
    leader: str | None
    session_timeouts_ms: Mapping[str, int] = msgspec.field(default_factory=dict)


class KnownGeneration(msgspec.Struct, frozen=True):
    """A generation that was found, and the end offset up to which the group's partition was read."""

    generation: Generation
    end: int


class GenerationResults(msgspec.Struct, frozen=True):
    """The generations of many groups; ``note`` says why some are missing, None if none is."""

    generations: Mapping[str, Generation]
    note: str | None


async def latest_generations(
    client: CoordinatorClient,
    layout: TopicLayout | KgroupError,
    groups: Collection[str],
    budget: Deadline,
    known: dict[str, KnownGeneration] | None = None,
) -> GenerationResults:
    """The generation and leader of each classic group that is found before ``budget`` ends.

    ``known`` holds results of earlier calls, for callers that ask repeatedly: only what was written since is read. New
    results are added to it.
    """
    if isinstance(layout, KgroupError):
        return GenerationResults({}, f"generation unknown: {OFFSETS_TOPIC} {layout.message}" if groups else None)
    known = {} if known is None else known
    visitors = {group: _Newest(known.pop(group, None)) for group in groups}
    generations: dict[str, Generation] = {}
    notes: dict[str, None] = {}
    for scan in await scan_groups(client, layout, visitors, budget):
        if scan.stopped is not None:
            out_of_time = scan.stopped is OUT_OF_TIME
            notes["not found within --scan-time" if out_of_time else scan.stopped] = None
        for group in scan.groups:
            generation = visitors[group].result(scan)
            if generation is not None and isinstance(scan.log, LogRange):
                generations[group] = generation
                known[group] = KnownGeneration(generation, scan.log.end)
    missing = len(visitors) - len(generations)
    reason = "; ".join(notes) or f"no record in {OFFSETS_TOPIC}"
    note = f"generation unknown for {missing} of {len(visitors)} classic groups: {reason}" if missing else None
    return GenerationResults(generations, note)


class _Newest(Visitor):
    """Keeps the newest record of a group. ``known`` is what an earlier scan found: only later records are needed."""

    types = (RecordType.GROUP_METADATA,)

    def __init__(self, known: KnownGeneration | None) -> None:
        self._known = known
        self._newest: Generation | None = None

    def floor(self, log: LogRange) -> int:
        if self._known is None or not log.start <= self._known.end <= log.end:
            self._known = None
            return log.start
        return self._known.end

    def add(self, entry: Entry) -> None:
        if self.complete:
            return
        self.complete, self._known = True, None
        match decode_or_none(entry[0]):
            # A tombstone: the group was deleted or became a consumer group.
            case GroupMetadata(generation=number, leader=leader, members=members):
                timeouts = {member.member_id: member.session_timeout_ms for member in members}
                self._newest = Generation(number, leader, timeouts)

    def reached(self, scan: PartitionScan) -> None:
        self.complete = self.complete or (self._known is not None and scan.start <= self._known.end)

    def result(self, scan: PartitionScan) -> Generation | None:
        """The generation, None if there is none or the scan has not come to it."""
        if self._known is not None and (self.complete or scan.stopped is None):
            return self._known.generation
        return self._newest
