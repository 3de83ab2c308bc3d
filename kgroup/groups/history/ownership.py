"""The last owner of each partition, and how many partitions a new assignment moved. Pure.

A static member is identified by its instance id: if it comes back with a new member id to the same partitions,
nothing has moved. A dynamic member that restarts is a new member, because the state of the old one is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kgroup.model.group_log import Partitions
from kgroup.model.topic_partition import TopicPartition

Identity: TypeAlias = tuple[str, str]


def identity(member_id: str, instance_id: str | None) -> Identity:
    """The identity of a member across restarts: its instance id if it is static, else its member id."""
    return ("member", member_id) if instance_id is None else ("instance", instance_id)


@dataclass(frozen=True, slots=True)
class Moves:
    """How many partitions changed their owner, and how many of these although the old owner stayed in the group."""

    moved: int
    needlessly: int


class Ownership:
    """The last known owner of every partition."""

    def __init__(self) -> None:
        self._last: dict[TopicPartition, Identity] = {}
        self._known = False

    def assign(self, assigned: Mapping[Identity, Partitions | None]) -> Moves | None:
        """Record a new assignment of all members; return its moves, None if it or the one before it is not known.

        A partition without an earlier owner (new, or first read) does not count as moved. One that was unassigned in
        between (cooperative rebalance) counts if it goes to another member.
        """
        known = self._known and None not in assigned.values()
        moved = needless = 0
        for owner, partitions in assigned.items():
            for tp in partitions or ():
                before = self._last.get(tp)
                if before is not None and before != owner:
                    moved += 1
                    needless += before in assigned
                self._last[tp] = owner
        self._known = True
        return Moves(moved, needless) if known else None

    def all_left(self) -> None:
        """Forget dynamic members: the group is empty, and only static members can come back."""
        self._last = {tp: owner for tp, owner in self._last.items() if owner[0] == "instance"}

    def reset(self) -> None:
        """Forget all owners: the group is new or was recreated, so that no partition had an owner before."""
        self._last.clear()
        self._known = True
