"""Reading ``__consumer_offsets`` backwards from its end, within a time budget.

The generation and the leader of a classic group are in no answer of the coordinator, only in the last record
that it wrote of the group. Windows of 64 offsets, then four times as many, are read from the end of the
group's partition (``backwards``); all partitions side by side, one scan for all groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kgroup.cluster.coordinator.client import Client
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.logs import TopicLayout
from kgroup.cluster.offsets_log.backwards import OUT_OF_TIME, Place, RawRecord, Window, places_of, scan_backwards
from kgroup.cluster.offsets_log.partition import OFFSETS_TOPIC
from kgroup.cluster.offsets_log.records import (
    GroupMetadata,
    RecordType,
    decode,
    key_prefix,
)
from kgroup.cluster.wire import MalformedRecord
from kgroup.errors import KgroupError


@dataclass(frozen=True, slots=True)
class Generation:
    """The newest generation that the log holds of a classic group; ``leader`` is None while it is empty.

    ``session_timeouts_ms`` are its members' own, by member id.
    """

    number: int
    leader: str | None
    session_timeouts_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Generations:
    """What the log told about many groups; ``note`` says why some are missing, None if none is."""

    found: Mapping[str, Generation]
    note: str | None


async def latest_generations(
    client: Client, layout: TopicLayout | KgroupError, groups: Iterable[str], budget: Deadline
) -> Generations:
    """The generation and leader of each classic group, as far as they are found before ``budget`` ends."""
    wanted = set(groups)
    if not wanted:
        return Generations({}, None)
    if isinstance(layout, KgroupError):
        return Generations({}, f"generation unknown: {OFFSETS_TOPIC} {layout.message}")
    scans = [_scan(client, place, budget) for place in await places_of(client, layout, wanted, budget)]
    found: dict[str, Generation] = {}
    notes: dict[str, None] = {}
    for generations, note in await client.gather(scans):
        found |= generations
        if note:
            notes[note] = None
    missing = len(wanted) - len(found)
    reason = "; ".join(notes) or f"no record in {OFFSETS_TOPIC}"
    note = f"generation unknown for {missing} of {len(wanted)} classic groups: {reason}" if missing else None
    return Generations(found, note)


async def _scan(client: Client, place: Place, budget: Deadline) -> tuple[dict[str, Generation], str | None]:
    """(what was found, why the rest was not) in one partition, window by window towards its start."""
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
