"""How long members may be silent before the coordinator takes them for dead: no answer about a group says it.

A classic member brings its own session timeout, which stands in the group's newest record in
``__consumer_offsets``. All members of the consumer protocol have the group's, a dynamic setting of the broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_configs import setting_in_force
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.topics import topic_layouts
from kgroup.model.groups import Group
from kgroup.model.migration_facts import SESSION_CONFIG
from kgroup.support.errors import KgroupError

_BUDGET_S = 1.0


@dataclass(frozen=True, slots=True)
class Sessions:
    """Session timeouts in ms by (group, member id). A member that is not in it is unknown, and ``note`` says why."""

    timeouts_ms: Mapping[tuple[str, str], int]
    note: str | None = None

    def of(self, group: Group) -> dict[str, int]:
        """Those of one group, by member id."""
        pairs = ((m.member_id, self.timeouts_ms.get((group.name, m.member_id))) for m in group.members or ())
        return {member_id: timeout for member_id, timeout in pairs if timeout is not None}


async def session_timeouts(client: CoordinatorClient, groups: Sequence[Group]) -> Sessions:
    """The session timeout of every member, as far as rights and a second of reading go; raises nothing for the rest.

    A classic member inside a consumer group (an online upgrade) keeps its own, which is not looked for.
    """
    classic = [group for group in groups if group.type == "classic" and group.members]
    consumer = [group for group in groups if group.type == "consumer" and group.members]
    (by_member, note), by_group = await client.gather(
        [_classic(client, classic), consumer_sessions(client, [group.name for group in consumer])]
    )
    found: dict[tuple[str, str], int] = dict(by_member)
    for group in consumer:
        timeout_ms = by_group.get(group.name)
        if timeout_ms is None:
            note = note or "session timeouts unknown: no DESCRIBE_CONFIGS on the Group"
            continue
        found |= {(group.name, m.member_id): timeout_ms for m in group.members or () if m.protocol != "classic"}
    return Sessions(found, note)


async def _classic(client: CoordinatorClient, groups: Sequence[Group]) -> tuple[dict[tuple[str, str], int], str | None]:
    if not groups:
        return {}, None
    # Imported here: the decoders of all record types.
    from kgroup.cluster.offsets_topic.scan import latest_generations

    budget = Deadline.after(min(_BUDGET_S, client.deadline.left_s))
    try:
        layout = (await topic_layouts(client, [OFFSETS_TOPIC]))[OFFSETS_TOPIC]
        generations = await latest_generations(client, layout, [group.name for group in groups], budget)
    except KgroupError as error:
        return {}, f"session timeouts unknown: {error.message}"
    found = {
        (name, member_id): timeout_ms
        for name, generation in generations.found.items()
        for member_id, timeout_ms in generation.session_timeouts_ms.items()
    }
    return found, generations.note and generations.note.replace("generation unknown", "session timeouts unknown", 1)


async def consumer_sessions(client: CoordinatorClient, groups: Sequence[str]) -> dict[str, int]:
    """The timeout, in ms, of members of the consumer protocol, by group, of those that this user may ask for.

    Brokers before 3.8 have no such setting.
    """
    try:
        values = await setting_in_force(client, groups, SESSION_CONFIG)
    except KgroupError:
        return {}
    return {name: int(value) for name, value in values.items() if isinstance(value, str) and value.isdigit()}
