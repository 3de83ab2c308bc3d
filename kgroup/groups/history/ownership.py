"""Who had which partition last, and what a new assignment moved. Pure.

Members are known by their instance id where they are static, so that one which comes back under a new member id has
kept what it gets again; a dynamic member that restarts is a new one, and its state is gone with the old.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kgroup.model.group_log import Partitions, TopicPartition

Identity: TypeAlias = tuple[str, str]


def identity(member_id: str, instance_id: str | None) -> Identity:
    """By what a member is known over restarts."""
    return ("member", member_id) if instance_id is None else ("instance", instance_id)


@dataclass(frozen=True, slots=True)
class Moves:
    """Partitions that have another owner than they had last, and those of them whose owner stayed in the group."""

    moved: int
    needlessly: int


class Ownership:
    """The last known owner of every partition."""

    def __init__(self) -> None:
        self._last: dict[TopicPartition, Identity] = {}
        self._known = False

    def assign(self, assigned: Mapping[Identity, Partitions | None]) -> Moves | None:
        """A new assignment of all members. None where there was none before, or one of these is not known.

        A partition that nobody had before (new, or first read) is not moved; one that was nobody's in between (a
        cooperative rebalance) is, if it comes back to another.
        """
        known = self._known and None not in assigned.values()
        moved = needless = 0
        for owner, partitions in assigned.items():
            for place in partitions or ():
                before = self._last.get(place)
                if before is not None and before != owner:
                    moved += 1
                    needless += before in assigned
                self._last[place] = owner
        self._known = True
        return Moves(moved, needless) if known else None

    def all_left(self) -> None:
        """The group is empty: who comes next is new, but for static members."""
        self._last = {place: owner for place, owner in self._last.items() if owner[0] == "instance"}

    def forget(self) -> None:
        """A group begins, or one of the same name begins anew: nobody had anything before."""
        self._last.clear()
        self._known = True
