"""Find generations of classic groups in ``__consumer_offsets``, reading backwards from its end within a time limit.

No response of the coordinator has a classic group's generation and leader. They are only in the last record that it
wrote for the group. Windows of 64 offsets, then four times as many, are read from the end of the group's partition
(``scan``). All partitions are read in parallel, with one scan for all groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.offsets_topic.record_batches import RawRecord
from kgroup.cluster.offsets_topic.records import GroupMetadata, RecordType, decode, key_prefix
from kgroup.cluster.offsets_topic.scan import OUT_OF_TIME, LogPartition, Window, places_of, scan_backwards
from kgroup.cluster.primitives import MalformedRecord
from kgroup.cluster.topics import TopicLayout
from kgroup.model.groups import LogRange
from kgroup.support.errors import KgroupError


@dataclass(frozen=True, slots=True)
class Generation:
    """The newest generation of a classic group in the log; ``leader`` is None while the group is empty.

    ``session_timeouts_ms`` are its members' own timeouts, by member id.
    """

    number: int
    leader: str | None
    session_timeouts_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KnownGeneration:
    """A generation that was found, and the end offset up to which the group's partition was read."""

    generation: Generation
    end: int


@dataclass(frozen=True, slots=True)
class GenerationResults:
    """The generations of many groups; ``note`` says why some are missing, None if none is."""

    found: Mapping[str, Generation]
    note: str | None


async def latest_generations(
    client: CoordinatorClient,
    layout: TopicLayout | KgroupError,
    groups: Iterable[str],
    budget: Deadline,
    known: dict[str, KnownGeneration] | None = None,
) -> GenerationResults:
    """The generation and leader of each classic group that is found before ``budget`` ends.

    ``known`` holds results of earlier calls, for callers that ask repeatedly: only what was written since is read. New
    results are added to it.
    """
    wanted = set(groups)
    if not wanted:
        return GenerationResults({}, None)
    if isinstance(layout, KgroupError):
        return GenerationResults({}, f"generation unknown: {OFFSETS_TOPIC} {layout.message}")
    known = {} if known is None else known
    scans = [_scan(client, place, budget, known) for place in await places_of(client, layout, wanted, budget)]
    found: dict[str, Generation] = {}
    notes: dict[str, None] = {}
    for generations, note in await client.gather(scans):
        found |= generations
        if note:
            notes[note] = None
    missing = len(wanted) - len(found)
    reason = "; ".join(notes) or f"no record in {OFFSETS_TOPIC}"
    note = f"generation unknown for {missing} of {len(wanted)} classic groups: {reason}" if missing else None
    return GenerationResults(found, note)


async def _scan(
    client: CoordinatorClient, place: LogPartition, budget: Deadline, known: dict[str, KnownGeneration]
) -> tuple[dict[str, Generation], str | None]:
    """(generations found, why the rest was not) in one partition, window by window towards the log start.

    If all its groups are known, the scan ends at the smallest offset up to which they are.
    """
    log, before = place.log, [known[group] for group in place.groups if group in known]
    if isinstance(log, LogRange) and len(before) == len(place.groups):
        floor = min(dated.end for dated in before)
        if log.start <= floor <= log.end:
            place = replace(place, log=LogRange(floor, log.end))
    wanted = {key_prefix(RecordType.GROUP_METADATA, group): group for group in place.groups}
    found: dict[str, Generation] = {}
    seen: set[str] = set()

    def visit(window: Window) -> bool:
        newest = {wanted[record.key]: record for record in window.entries if isinstance(record, RawRecord)}
        for group, record in newest.items():
            if group not in seen:
                seen.add(group)
                if generation := _generation(record):
                    found[group] = generation
        return len(seen) < len(place.groups)

    stopped = await scan_backwards(client, place, wanted, budget, visit)
    if place.log is not log and stopped is None:
        found = {group: known[group].generation for group in place.groups if group not in seen} | found
    for group in place.groups:
        known.pop(group, None)
        if isinstance(log, LogRange) and group in found:
            known[group] = KnownGeneration(found[group], log.end)
    return found, "not found within the time for it (--generation-budget)" if stopped is OUT_OF_TIME else stopped


def _generation(record: RawRecord) -> Generation | None:
    """None for a tombstone (the group was deleted or became a consumer group) and for an unknown layout."""
    try:
        match decode(record.key, record.value):
            case GroupMetadata(value=value) if value is not None:
                timeouts = {member.member_id: member.session_timeout_ms for member in value.members}
                return Generation(value.generation, value.leader, timeouts)
    except MalformedRecord:
        pass
    return None
