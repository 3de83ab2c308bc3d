"""The rate of a running replay: what ``catchup throttle`` sets while it runs, and how far it yields to its group.

The driver reads both on a thread of its own, and answers the tasks' reports with their share.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Self

from kgroup.catchup.ledger.records import RecordKey, RecordKind, decode
from kgroup.catchup.worker.rate_limit import share
from kgroup.cluster.reader.to_end import CommittedReader
from kgroup.cluster.snapshot import Cluster, SnapshotRequest
from kgroup.groups.catchup.model import AppliedRate, PlanSnapshot, ThrottleRecord
from kgroup.groups.catchup.yielding import YIELD_TO, Yielding, parse_yield, rate_limit, time_lag_ms
from kgroup.groups.wait_conditions import Observation
from kgroup.queries.first_unread import FirstUnreadTimes
from kgroup.settings.clients import librdkafka_config
from kgroup.settings.model import Settings
from kgroup.support.errors import KgroupError

_EVERY_S = 2.0
_JOIN_S = 2.0
_COMMITS = SnapshotRequest(generation_budget_s=0, hidden_budget_s=0)


class RateControl:
    """Follows the rate of one plan. A context manager; ``snapshot`` is the plan as its runner has it.

    What cannot be read at the moment changes nothing: neither the rate nor how far it yields.
    """

    def __init__(self, settings: Settings, ledger: str, snapshot: PlanSnapshot, epoch: int, tasks_at_once: int) -> None:
        self._settings, self._ledger, self._snapshot, self._epoch = settings, ledger, snapshot, epoch
        self._tasks_at_once = tasks_at_once
        self._key = RecordKey(snapshot.plan.id, RecordKind.THROTTLE)
        self._read_to = snapshot.offset
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
        self._thread.join(_JOIN_S)  # it may wait for a broker

    def measured(self, bytes_per_s: float | None) -> None:
        """How fast the replay is now; None: unknown."""
        self._bytes_per_s = bytes_per_s

    @property
    def applied(self) -> AppliedRate:
        """What all tasks together may deliver now."""
        yielding = self._yielding
        limit = yielding.limited(rate_limit(self._tuning))
        records, size = (None, None) if limit is None else (limit.records_per_s, limit.bytes_per_s)
        return AppliedRate(self._epoch, records, size, yielding.halvings, yielding.time_lag_ms)

    def of_task(self) -> tuple[float | None, float | None]:
        """The records and bytes per second of each task; None: no limit of that kind."""
        part = share(self._yielding.limited(rate_limit(self._tuning)), self._tasks_at_once)
        return (None, None) if part is None else (part.records_per_s, part.bytes_per_s)

    def _follow(self) -> None:
        config, timeout_s = librdkafka_config(self._settings), self._settings.timeout_s
        lag = _GroupLag(self._settings, self._snapshot.plan.group)
        with CommittedReader(config, self._ledger, timeout_s=timeout_s) as reader:
            while not self._ended.wait(_EVERY_S):
                with suppress(KgroupError):
                    self._read_throttle(reader)
                with suppress(KgroupError):
                    self._yield(lag)
        lag.close()

    def _read_throttle(self, reader: CommittedReader) -> None:
        """Read what was written to the ledger since the last time; an open transaction hides the rest until later."""
        wanted = self._key.encode()
        for offset, key, value in reader.committed(self._read_to, patience_s=0.0):
            self._read_to = offset + 1
            if key == wanted and value is not None:
                throttle = decode(self._key, value)
                assert isinstance(throttle, ThrottleRecord)
                tuning = {**self._tuning, **throttle.tuning}
                rate_limit(tuning)
                self._tuning = tuning
        self._read_to = max(self._read_to, reader.end)

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
