"""Follows a rollout: polls groups whose members are being replaced, reports events, and detects the end.

``kgroup migrate --watch`` uses it. Nothing is changed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import msgspec

from kgroup.cluster.broker_facts import broker_facts
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.migration.about_brokers import protocol_available
from kgroup.groups.migration.check import BLOCKED, CheckStatus
from kgroup.groups.migration.evidence import MigrationCase, MigrationEvidence, MigrationRequest
from kgroup.groups.migration.rollout import (
    FollowedGroup,
    GroupRollout,
    finished_line,
    line_of,
    rollout_events,
    rollout_summary,
)
from kgroup.model.groups import Group
from kgroup.model.migration_facts import BrokerFacts
from kgroup.model.reporter import Reporter
from kgroup.queries.migration_data import load_rules
from kgroup.queries.poll_loop import LINES_AT_ONCE, PollLoop, PollState
from kgroup.queries.snapshots import STATE_ONLY
from kgroup.queries.wait import error_of_row
from kgroup.support.errors import ExitCode, KgroupError, NotFound, Refused, Unreachable
from kgroup.support.stdout_reader import pause

SETTLED_S = 3.0
"""A rollout is finished after so many seconds without a change: a deployment replaces members one by one."""

_WORD = "ROLLOUT"


class Rollout(msgspec.Struct, frozen=True):
    """The result; ``finished`` is whether all groups are."""

    groups: tuple[GroupRollout, ...]
    finished: bool


def require_protocol(cluster: Cluster, groups: Sequence[Group], wanted: MigrationRequest) -> None:
    """Raise Refused [blocked] if the brokers do not support the protocol: the rollout could never finish."""
    facts = cluster.ask(broker_facts, {group.coordinator.id for group in groups if group.coordinator})
    rules = load_rules()
    for group in groups:
        broker = facts[group.coordinator.id] if group.coordinator else BrokerFacts()
        evidence = MigrationEvidence(group, group.type, broker, past=None, configs=None, access=None, now_ms=0)
        check = protocol_available(MigrationCase(evidence, wanted, rules))
        if check is not None and check.status is CheckStatus.BLOCKED:
            text = f"{group.name} cannot move to the {wanted.target} protocol: {check.evidence}"
            raise Refused(text, hint=check.remedy, code=BLOCKED)


def follow(
    reporter: Reporter,
    cluster: Cluster,
    groups: Sequence[str],
    target: str,
    within_s: float | None,
    settled_s: float = SETTLED_S,
) -> Rollout:
    """Poll the groups until all their members use ``target``, or ``within_s`` is over (None: no limit).

    It ends when every group is finished and nothing has changed for ``settled_s``, or at once if the first poll finds
    all finished. Events go to the reporter: ROLLOUT, and REVERTED if a group returns to the old type. A cluster that
    does not answer is polled again. Raises Unreachable if the last poll had no answer, and NotAuthorized or
    AuthenticationFailed at once.
    """
    if not groups:
        return Rollout((), finished=True)
    limit_s = math.inf if within_s is None else within_s
    return _Follow(reporter, cluster, tuple(groups), target, limit_s, settled_s).run()


class _Follow(PollLoop[Rollout]):
    def __init__(
        self,
        reporter: Reporter,
        cluster: Cluster,
        names: tuple[str, ...],
        target: str,
        within_s: float,
        settled_s: float,
    ) -> None:
        super().__init__(reporter, cluster, within_s, pause)
        self._settled_s = settled_s
        self._followed = {name: FollowedGroup(name, target) for name in names}
        self._before = dict(self._followed)

    def poll(self) -> KgroupError | None:
        self._before = dict(self._followed)
        try:
            with self.in_time():
                snapshot = self.cluster.describe(tuple(self._followed), STATE_ONLY)
        except Unreachable as error:
            return error
        now_s = time.monotonic()
        groups = {group.name: group for group in snapshot.groups}
        faults = {row.group: error_of_row(row) for row in snapshot.errors if row.code != NotFound.code}
        for name, followed in self._followed.items():
            if name in faults:
                if faults[name].exit_code is ExitCode.NOT_AUTHORIZED:
                    raise faults[name]
                continue
            after = self._followed[name] = followed.step(groups.get(name), now_s)
            self.note(name, now_s, done=after.finished)
        return next(iter(faults.values()), None)

    def report(self, now_s: float, failure: KgroupError | None) -> PollState:
        self._report_changes(now_s, failure)
        finished = failure is None and all(followed.finished for followed in self._followed.values())
        settling_s = max(followed.unsettled_s(now_s, self._settled_s) for followed in self._followed.values())
        return PollState(finished and settling_s <= 0, finished, settling_s if finished else math.inf)

    def _is_over(self, followed: FollowedGroup, now_s: float) -> bool:
        settled = followed.unsettled_s(now_s, self._settled_s) <= 0
        return followed.finished and (self.left_s(now_s) <= 0 or settled)

    def _report_changes(self, now_s: float, failure: KgroupError | None) -> None:
        """Report the events since the last poll, and the state of each group if it has changed."""
        many = len(self._followed) > LINES_AT_ONCE
        for name, followed in self._followed.items():
            for word, text in rollout_events(self._before[name], followed):
                if word != _WORD or not many:
                    self.reporter.event(word, text)
        if failure is not None:
            self.events.no_answer(_WORD, failure.message, now_s)
            return
        self.events.answered()
        over = [name for name, followed in self._followed.items() if self._is_over(followed, now_s)]
        if many:
            summary = rollout_summary(tuple(self._followed.values()), over)
            self.events.report(_WORD, None, summary, now_s, last=len(over) == len(self._followed))
            return
        for name, followed in self._followed.items():
            line = finished_line(followed) if name in over else line_of(followed)
            self.events.report(_WORD, name, line, now_s, last=name in over)

    def result(self, now_s: float, *, reached: bool) -> Rollout:
        groups = tuple(each.rollout(self.waited_s(now_s, name)) for name, each in self._followed.items())
        return Rollout(groups, finished=all(group.finished for group in groups))
