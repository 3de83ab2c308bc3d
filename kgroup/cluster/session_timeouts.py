"""Session timeouts: how long a member may be silent before the coordinator removes it. No group API reports them.

A classic member sets its own session timeout, which is in the group's newest record in ``__consumer_offsets``.
All members of the other protocols share the group's timeout, a dynamic group config on the broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kgroup.cluster.configs import setting_in_force
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.topics import offsets_topic_layout
from kgroup.model.groups import Group
from kgroup.model.migration_facts import SESSION_CONFIG
from kgroup.model.share_group import SHARE
from kgroup.model.streams_group import STREAMS
from kgroup.support.errors import KgroupError

_BUDGET_S = 1.0
_SETTINGS = {"consumer": SESSION_CONFIG, STREAMS: "streams.session.timeout.ms", SHARE: "share.session.timeout.ms"}
"""The group config of the session timeout, by type of group."""


class Sessions(msgspec.Struct, frozen=True):
    """Session timeouts in ms by (group, member id). If a member is missing, ``note`` says why it is unknown."""

    timeouts_ms: Mapping[tuple[str, str], int]
    note: str | None = None

    def of(self, group: Group) -> dict[str, int]:
        """The timeouts of one group in ms, by member id. Members whose timeout is unknown are left out."""
        pairs = ((m.member_id, self.timeouts_ms.get((group.name, m.member_id))) for m in group.members or ())
        return {member_id: timeout for member_id, timeout in pairs if timeout is not None}


async def session_timeouts(client: CoordinatorClient, groups: Sequence[Group]) -> Sessions:
    """The session timeout of each member, as far as this user's rights and one second of reading allow.

    Raises nothing for the rest. A classic member inside a consumer group (online upgrade) has its own timeout, which is
    not searched for.
    """
    classic = [group for group in groups if group.type == "classic" and group.members]
    timed = [group for group in groups if group.type in _SETTINGS and group.members]
    names = {kind: [group.name for group in timed if group.type == kind] for kind in _SETTINGS}
    (by_member, note), *of_types = await client.gather(
        [
            _classic(client, classic),
            *(consumer_sessions(client, names[kind], setting) for kind, setting in _SETTINGS.items() if names[kind]),
        ]
    )
    by_group = {name: timeout_ms for of_type in of_types for name, timeout_ms in of_type.items()}
    timeouts_ms: dict[tuple[str, str], int] = dict(by_member)
    for group in timed:
        timeout_ms = by_group.get(group.name)
        if timeout_ms is None:
            note = note or "session timeouts unknown: no DESCRIBE_CONFIGS on the Group"
            continue
        timeouts_ms |= {(group.name, m.member_id): timeout_ms for m in group.members or () if m.protocol != "classic"}
    return Sessions(timeouts_ms, note)


async def _classic(client: CoordinatorClient, groups: Sequence[Group]) -> tuple[dict[tuple[str, str], int], str | None]:
    if not groups:
        return {}, None
    # Imported here: it loads the decoders of all record types.
    from kgroup.cluster.offsets_topic.generations import latest_generations

    budget = Deadline.after(min(_BUDGET_S, client.deadline.left_s))
    try:
        layout = await offsets_topic_layout(client)
        generations = await latest_generations(client, layout, [group.name for group in groups], budget)
    except KgroupError as error:
        return {}, f"session timeouts unknown: {error.message}"
    timeouts_ms = {
        (name, member_id): timeout_ms
        for name, generation in generations.generations.items()
        for member_id, timeout_ms in generation.session_timeouts_ms.items()
    }
    return timeouts_ms, generations.note and generations.note.replace(
        "generation unknown", "session timeouts unknown", 1
    )


async def consumer_sessions(
    client: CoordinatorClient, groups: Sequence[str], setting: str = SESSION_CONFIG
) -> dict[str, int]:
    """The session timeout in ms for members of the consumer protocol, by group; ``setting`` is that of another one.

    Groups whose configs this user may not read are left out. Brokers before 3.8 have no such setting.
    """
    try:
        values = await setting_in_force(client, groups, setting)
    except KgroupError:
        return {}
    return {name: int(value) for name, value in values.items() if isinstance(value, str) and value.isdigit()}
