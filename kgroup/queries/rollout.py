"""Following a rollout: looks at groups whose members are being replaced, says what happens, knows when it is over.

``kgroup migrate --watch`` is this. Nothing is changed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kgroup.cluster.snapshot import Cluster, Want
from kgroup.groups.migration.rollout import Followed, finished_line, line_of, summary, turns
from kgroup.groups.wait_conditions import FIRST_PAUSE_S, next_pause_s
from kgroup.model.groups import Group, Member
from kgroup.model.reporter import Reporter
from kgroup.queries.event_log import EventLog
from kgroup.queries.wait import LINES_AT_ONCE, SHORTEST_LOOK_S, raised
from kgroup.support.errors import ExitCode, KgroupError, NotFound, Unreachable
from kgroup.support.stdout_reader import pause

SETTLED_S = 3.0
"""A rollout is over when nothing has changed for so long: a deployment's members come one after the other."""

_WORD = "ROLLOUT"
_MEMBERS_ONLY = Want(offsets=False, logs=False, generation_budget_s=0)


@dataclass(frozen=True, slots=True)
class RolloutOf:
    """How far the rollout of one group has come. ``group`` is None where there is none (any more).

    ``members`` counts them by protocol, ``remaining`` are those of the protocol that is left behind.
    ``partitions_moved`` is how often a partition was seen with another owner than before, ``turned_back`` how often
    the group came to be of the other type again. ``first_epoch`` is the group epoch when it was first seen with its
    present type, None of a classic group. ``waited_s`` is until it was finished, else the whole time.
    """

    name: str
    group: Group | None
    finished: bool
    members: dict[str, int]
    remaining: tuple[Member, ...]
    first_epoch: int | None
    partitions_moved: int
    turned_back: int
    waited_s: float

    @property
    def epochs(self) -> tuple[int | None, int | None]:
        """The group epoch and the assignment epoch; None of a classic group."""
        return (self.group.group_epoch, self.group.assignment_epoch) if self.group else (None, None)

    def document(self) -> dict[str, Any]:
        """Its JSON form; the fields and their meaning are in README."""
        group_epoch, assignment_epoch = self.epochs
        return {
            "group": self.name,
            "type": self.group.type if self.group else None,
            "state": self.group.state if self.group else None,
            "finished": self.finished,
            "members": len(self.group.members or ()) if self.group else 0,
            "members_by_protocol": dict(self.members),
            "first_epoch": self.first_epoch,
            "group_epoch": group_epoch,
            "assignment_epoch": assignment_epoch,
            "partitions_moved": self.partitions_moved,
            "turned_back": self.turned_back,
            "waited_ms": round(self.waited_s * 1000),
            "remaining": [
                {
                    "member_id": member.member_id,
                    "client_id": member.client_id,
                    "instance_id": member.instance_id,
                    "host": member.host,
                }
                for member in self.remaining
            ],
        }


@dataclass(frozen=True, slots=True)
class Rollout:
    """How it ended; ``finished`` is whether it is in every group."""

    groups: tuple[RolloutOf, ...]
    finished: bool


def follow(
    reporter: Reporter,
    cluster: Cluster,
    groups: Sequence[str],
    target: str,
    within_s: float | None,
    settled_s: float = SETTLED_S,
) -> Rollout:
    """Look at the groups until all their members speak ``target``, or ``within_s`` is over (None: never).

    It is over when that is so of every group and nothing has changed for ``settled_s``; at once where the first look
    finds it so. What happens goes to the reporter: ROLLOUT, and BACK where a group is of the other type again. A
    cluster that does not answer is asked again; raises Unreachable where the last look had no answer, and
    NotAuthorized or AuthenticationFailed at once.
    """
    if not groups:
        return Rollout((), finished=True)
    limit_s = math.inf if within_s is None else within_s
    return _Follow(reporter, cluster, tuple(groups), target, limit_s, settled_s).run()


class _Follow:
    """One rollout: what was seen so far, and what was said of it."""

    def __init__(
        self,
        reporter: Reporter,
        cluster: Cluster,
        names: tuple[str, ...],
        target: str,
        within_s: float,
        settled_s: float,
    ) -> None:
        self._reporter = reporter
        self._telling = EventLog(reporter)
        self._cluster = cluster
        self._within_s = within_s
        self._settled_s = settled_s
        self._started_s = time.monotonic()
        self._followed = {name: Followed(name, target) for name in names}
        self._since_s: dict[str, float] = {}

    def run(self) -> Rollout:
        """Until it is over, or the time is."""
        pause_s = FIRST_PAUSE_S
        while True:
            before, changes = dict(self._followed), self._telling.changes
            failure = self._look()
            now_s = time.monotonic()
            self._say(before, now_s, failure)
            finished = failure is None and all(followed.finished for followed in self._followed.values())
            settling_s = max(followed.unsettled_s(now_s, self._settled_s) for followed in self._followed.values())
            left_s = self._within_s - (now_s - self._started_s)
            if finished and (settling_s <= 0 or left_s <= 0):
                return self._ended(now_s)
            if left_s <= 0:
                if failure is not None:
                    raise failure
                return self._ended(now_s)
            pause_s = next_pause_s(
                pause_s,
                changed=self._telling.changes != changes,
                holding=finished,
                left_s=min(left_s, settling_s) if finished else left_s,
            )
            pause(pause_s)

    def _look(self) -> KgroupError | None:
        """Look once at all groups; the error of a cluster, or of a group, that did not answer. Raises what is final."""
        left_s = max(SHORTEST_LOOK_S, self._within_s - (time.monotonic() - self._started_s))
        try:
            with self._cluster.at_most(left_s):
                snapshot = self._cluster.describe(tuple(self._followed), _MEMBERS_ONLY)
        except Unreachable as error:
            return error
        now_s = time.monotonic()
        found = {group.name: group for group in snapshot.groups}
        faults = {row.group: raised(row) for row in snapshot.errors if row.code != NotFound.code}
        for name, followed in self._followed.items():
            if name in faults:
                if faults[name].exit_code is ExitCode.NOT_AUTHORIZED:
                    raise faults[name]
                continue
            after = self._followed[name] = followed.step(found.get(name), now_s)
            if not after.finished:
                self._since_s.pop(name, None)
            else:
                self._since_s.setdefault(name, now_s - self._started_s)
        return next(iter(faults.values()), None)

    def _over(self, followed: Followed, now_s: float) -> bool:
        left_s = self._within_s - (now_s - self._started_s)
        return followed.finished and (left_s <= 0 or followed.unsettled_s(now_s, self._settled_s) <= 0)

    def _say(self, before: dict[str, Followed], now_s: float, failure: KgroupError | None) -> None:
        """What happened since the last look, and where each group stands where that has changed."""
        many = len(before) > LINES_AT_ONCE
        for name, followed in self._followed.items():
            for word, text in turns(before[name], followed):
                if word != _WORD or not many:
                    self._reporter.event(word, text)
        if failure is not None:
            self._telling.no_answer(_WORD, failure.message, now_s)
            return
        self._telling.answered()
        over = [name for name, followed in self._followed.items() if self._over(followed, now_s)]
        if many:
            self._telling.say(_WORD, None, summary(tuple(self._followed.values()), over), now_s)
            return
        for name, followed in self._followed.items():
            line = finished_line(followed) if name in over else line_of(followed)
            self._telling.say(_WORD, name, line, now_s)

    def _ended(self, now_s: float) -> Rollout:
        waited_s = now_s - self._started_s
        groups = tuple(
            RolloutOf(
                name=name,
                group=followed.group,
                finished=followed.finished,
                members=followed.members,
                remaining=followed.remaining,
                first_epoch=followed.first_epoch,
                partitions_moved=followed.moved,
                turned_back=followed.turned_back,
                waited_s=self._since_s.get(name, waited_s),
            )
            for name, followed in self._followed.items()
        )
        return Rollout(groups, finished=all(group.finished for group in groups))
