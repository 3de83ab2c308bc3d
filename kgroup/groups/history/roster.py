"""The last change of a group's members that lasted: they became fewer, or all of them were replaced. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kgroup.groups.history.signatures import ROLLOUT_GAP_MS, rollouts
from kgroup.groups.timeline.steps import HistoryStep
from kgroup.model.migration_facts import holds_group
from kgroup.support.instants import short_time
from kgroup.support.units import plural


class RosterChange(msgspec.Struct, frozen=True):
    """From ``began_ms`` to ``ended_ms`` so many members became so many; equal numbers: each was replaced."""

    began_ms: int
    ended_ms: int
    before: int
    after: int

    def words(self, now_ms: int) -> str:
        """``as 3 members became 1 at 12:04:31Z``, ``after all 3 members were replaced at 12:04:31Z``."""
        at = short_time(self.began_ms, now_ms)
        if self.after < self.before:
            return f"as {plural(self.before, 'member')} became {self.after} at {at}"
        return f"after all {plural(self.before, 'member')} were replaced at {at}"


def roster_change(steps: Sequence[HistoryStep]) -> RosterChange | None:
    """The later one of the last fall of the number of members, and of the last rollout; None without any.

    A group whose members went one after the other lost them together. That it is Empty for a while does not count.
    """
    sizes = [(step.at_ms, _size(step)) for step in steps]
    sizes = [(at_ms, size) for at_ms, size in sizes if size]
    changes: list[RosterChange] = []
    now = sizes[-1][1] if sizes else 0
    last = next((index for index in range(len(sizes) - 1, 0, -1) if sizes[index - 1][1] > now), None)
    if last is not None:
        first = last
        while first > 1 and sizes[last][0] - sizes[first - 1][0] <= ROLLOUT_GAP_MS and sizes[first - 2][1] > now:
            first -= 1
        before = max(size for _, size in sizes[first - 1 : last])
        changes.append(RosterChange(sizes[first][0], sizes[last][0], before, now))
    changes += [
        RosterChange(one.from_ms, one.to_ms, len(one.members), len(one.members)) for one in rollouts(steps)[-1:]
    ]
    return max(changes, key=lambda change: change.ended_ms, default=None)


def _size(step: HistoryStep) -> int:
    return sum(not holds_group(present.member_id, present.instance_id) for present in step.members)
