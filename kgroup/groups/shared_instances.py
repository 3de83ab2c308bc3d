"""Instance ids that one process after the other takes over: each one that joins fences the one before it. Pure.

The log shows no more: of a static member that is replaced, a broker keeps the client id and the host of the first
process (seen: Kafka 4.1). Of the consumer protocol a second process is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kgroup.groups.thresholds import STORM, STORM_ONGOING, STORM_WINDOW
from kgroup.model.group_log import GenerationWritten
from kgroup.support.durations import format_duration


class SharedInstance(msgspec.Struct, frozen=True):
    """An instance id that was taken over again and again, as often as a storm has rebalances, and not only before."""

    instance_id: str
    first_ms: int
    last_ms: int
    times: int

    @property
    def words(self) -> str:
        return (
            f"group.instance.id {self.instance_id} was taken over {self.times} times in "
            f"{format_duration((self.last_ms - self.first_ms) / 1000)}: two processes have it and fence each other, or "
            "one ends and starts again; the log does not show which"
        )


def shared_instances(written: Iterable[GenerationWritten], now_ms: int) -> tuple[SharedInstance, ...]:
    """Those in a classic group's records, the one that was taken over most often first."""
    taken_ms: dict[str, list[int]] = {}
    holders: dict[str, str] = {}
    for record in written:
        now = {member.instance_id: member.member_id for member in record.members if member.instance_id is not None}
        if record.at_ms > now_ms - STORM_WINDOW.value:
            for instance_id, member_id in now.items():
                if holders.get(instance_id, member_id) != member_id:
                    taken_ms.setdefault(instance_id, []).append(record.at_ms)
        holders = now
    return tuple(
        SharedInstance(instance_id, times[0], times[-1], len(times))
        for instance_id, times in sorted(taken_ms.items(), key=lambda pair: -len(pair[1]))
        if len(times) >= STORM.value and times[-1] >= now_ms - STORM_ONGOING.value
    )
