"""The part of a history that an earlier refresh of the same group did not have: for ``--follow``. Pure."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from kgroup.groups.history.summary import GroupHistory
from kgroup.groups.timeline.steps import HistoryStep, StepKind
from kgroup.model.group_log import RebalanceProtocol

_SETTLED_AFTER_MS = 10_000
"""An epoch that not all members reach is reported after this time, in its state at that time."""


class HistoryDelta(msgspec.Struct, frozen=True):
    """The history with only its new steps, changes and jumps; ``began``: a rebalance began since the last refresh."""

    history: GroupHistory
    began: bool


class FollowCursor:
    """What was already reported of one group; at first that is all of ``history``."""

    def __init__(self, history: GroupHistory) -> None:
        self._step = max((step.log_offset for step in history.steps), default=-1)
        self._jump = _last_jump(history)
        self._change = max((change.log_offset for change in history.changes), default=-1)
        self._under_way = history.rebalancing

    def news(self, history: GroupHistory) -> HistoryDelta | None:
        """Return the unreported part, None if empty; an epoch waits until its members reach it, its end, or 10 s."""
        steps: list[HistoryStep] = []
        for step in history.steps:
            if step.log_offset > self._step:
                if not _settled(step, history.span.now_ms):
                    break
                steps.append(step)
        commits = history.commits
        if commits is not None:
            commits = replace(commits, jumps=tuple(jump for jump in commits.jumps if jump.log_offset > self._jump))
        changes = tuple(change for change in history.changes if change.log_offset > self._change)
        self._change = max((change.log_offset for change in changes), default=self._change)
        began = history.rebalancing and not self._under_way
        self._under_way = history.rebalancing
        self._step = max((step.log_offset for step in steps), default=self._step)
        self._jump = max(self._jump, _last_jump(history))
        if not (steps or changes or began or (commits is not None and commits.jumps)):
            return None
        return HistoryDelta(replace(history, steps=tuple(steps), changes=changes, commits=commits), began)


def _last_jump(history: GroupHistory) -> int:
    return max((jump.log_offset for jump in history.commits.jumps), default=-1) if history.commits is not None else -1


def _settled(step: HistoryStep, now_ms: int) -> bool:
    return (
        step.protocol is RebalanceProtocol.CLASSIC
        or step.kind is not StepKind.REBALANCE
        or step.lasted_ms is not None
        or step.completed is not None
        or now_ms - step.at_ms > _SETTLED_AFTER_MS
    )
