"""The result of a wait: what holds for each group, and which members are left. Pure."""

from __future__ import annotations

import msgspec

from kgroup.groups.member_sessions import SessionBound
from kgroup.groups.wait_conditions import (
    ConditionResult,
    total_lag,
)
from kgroup.model.groups import Group, Member


class RemainingMember(msgspec.Struct, frozen=True):
    """A member that has not left, although the wait was for that."""

    member: Member
    session: SessionBound


class GroupWaitResult(msgspec.Struct, frozen=True):
    """The result for one group. ``group`` is None if the group does not exist (any more).

    ``waited_s`` is the time until its conditions last became true; the whole wait if they are not true.
    """

    name: str
    group: Group | None
    results: tuple[ConditionResult, ...]
    waited_s: float
    remaining: tuple[RemainingMember, ...]
    archived: int | None = None
    """How many offsets a share group archived meanwhile, at least; None if that was not read."""

    @property
    def holds(self) -> bool:
        return all(result.holds for result in self.results)

    @property
    def member_count(self) -> int | None:
        """The number of members; None if this user may not see them."""
        if self.group is None:
            return 0
        return None if self.group.members is None else len(self.group.members)

    @property
    def lag(self) -> int | None:
        """The number of unread records; None if not requested, or unknown for a partition."""
        return total_lag(self.group) if self.reads_lag else None

    @property
    def reads_lag(self) -> bool:
        return any(result.condition.reads_lag for result in self.results)

    @property
    def sessions(self) -> dict[str, SessionBound]:
        return {item.member.member_id: item.session for item in self.remaining}


class WaitResult(msgspec.Struct, frozen=True):
    """The result of a wait. ``reached`` can be False with all conditions true: they did not hold long enough."""

    groups: tuple[GroupWaitResult, ...]
    reached: bool
    waited_s: float
    held_s: float

    @property
    def missing(self) -> tuple[GroupWaitResult, ...]:
        """The groups that do not meet the conditions."""
        return tuple(group for group in self.groups if not group.holds)
