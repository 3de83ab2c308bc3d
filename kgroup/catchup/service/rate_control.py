"""What the driver follows while a replay runs: its progress, what ``catchup throttle`` sets, and the group's lag.

All is read on a thread of its own. The runner writes the rate in force to the ledger, where the tasks read it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

from kgroup.catchup.ledger.follow import EVERY_S, JOIN_S, PlanFollower
from kgroup.catchup.ledger.records import Value
from kgroup.cluster.snapshot import Cluster, SnapshotRequest
from kgroup.groups.catchup.model import AppliedRate, ChunkProgress, PlanSnapshot, ThrottleRecord
from kgroup.groups.catchup.yielding import YIELD_TO, Yielding, parse_yield, rate_limit, time_lag_ms
from kgroup.groups.wait_conditions import Observation
from kgroup.queries.first_unread import FirstUnreadTimes
from kgroup.settings.clients import librdkafka_config
from kgroup.settings.model import Settings
from kgroup.support.errors import KgroupError, UsageError

_COMMITS = SnapshotRequest(generation_budget_s=0, hidden_budget_s=0, queries=True)


class RateControl:
    """Follows one plan. A context manager; ``snapshot`` is the plan as its runner has it.

    What cannot be read at the moment changes nothing: neither the rate nor how far it yields.
    """

    def __init__(self, settings: Settings, ledger: str, snapshot: PlanSnapshot, epoch: int) -> None:
        self._settings, self._ledger, self._snapshot, self._epoch = settings, ledger, snapshot, epoch
        self._progress = dict(snapshot.progress)
        self._tuning = snapshot.tuning
        self._yielding = Yielding()
        self._bytes_per_s: float | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="rate", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(JOIN_S)

    def measured(self, bytes_per_s: float | None) -> None:
        """How fast the replay is now; None: unknown, and 0 between two commits: the last known rate stays."""
        self._bytes_per_s = bytes_per_s or self._bytes_per_s

    @property
    def progress(self) -> Mapping[int, ChunkProgress]:
        """The ledger's progress of each chunk, by number."""
        return self._progress.copy()  # the thread adds to it

    @property
    def applied(self) -> AppliedRate:
        """What all tasks together may deliver now."""
        yielding = self._yielding
        limit = yielding.limited(rate_limit(self._tuning))
        records, size = (None, None) if limit is None else (limit.records_per_s, limit.bytes_per_s)
        return AppliedRate(self._epoch, records, size, yielding.halvings, yielding.time_lag_ms)

    def _follow(self) -> None:
        config, timeout_s = librdkafka_config(self._settings), self._settings.timeout_s
        plan_id, start = self._snapshot.plan.id, self._snapshot.offset
        lag = _GroupLag(self._settings, self._snapshot.plan.group)
        with PlanFollower(config, self._ledger, plan_id, start, timeout_s=timeout_s) as follower:
            while not self._ended.wait(EVERY_S):
                with suppress(KgroupError):
                    for value in follower.committed():
                        self._take(value)
                with suppress(KgroupError):
                    self._yield(lag)
        lag.close()

    def _take(self, value: Value) -> None:
        match value:
            case ThrottleRecord():
                tuning = {**self._tuning, **value.tuning}
                with suppress(UsageError):  # written by another version of kgroup
                    rate_limit(tuning)
                    self._tuning = tuning
            case ChunkProgress():
                self._progress[value.chunk] = value
            case _:
                pass

    def _yield(self, lag: _GroupLag) -> None:
        bound = parse_yield(self._tuning.get(YIELD_TO, ""))
        if bound is None:
            self._yielding = Yielding()
            return
        self._yielding = self._yielding.after(lag.read(), round(bound.bound_s * 1000), self._bytes_per_s)


class _GroupLag:
    """How late a group's consumers are, with a connection of its own."""

    def __init__(self, settings: Settings, group: str | None) -> None:
        self._settings, self._group = settings, group
        self._cluster: Cluster | None = None
        self._first_unread = FirstUnreadTimes()

    def read(self) -> int | None:
        """``time_lag_ms`` of the group now; None: unknown."""
        if self._group is None:
            return None
        try:
            self._cluster = cluster = self._cluster or Cluster(self._settings)
            groups = cluster.describe([self._group], _COMMITS).groups
            ages = self._first_unread.read(cluster, groups)
            now_ms = cluster.now_ms()
        except KgroupError:
            self.close()
            return None
        return time_lag_ms(Observation(self._group, next(iter(groups), None), now_ms, ages.get(self._group, {})))

    def close(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.__exit__(None, None, None)
