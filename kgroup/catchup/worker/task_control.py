"""What the runner of a plan orders while a task runs: its rate, and to stop. The task reads both from the ledger.

For Spark's workers: importable without kafka-python.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Self

from kgroup.catchup.ledger.follow import EVERY_S, JOIN_S, PlanFollower
from kgroup.catchup.ledger.records import RecordKind, Value
from kgroup.catchup.worker.rate_limit import share
from kgroup.catchup.worker.task_ledger import TaskLedger
from kgroup.catchup.worker.task_spec import TaskSpec
from kgroup.groups.catchup.chunks import RateLimit
from kgroup.groups.catchup.model import AppliedRate, RunnerEpoch
from kgroup.groups.catchup.takeover import SIGNED_OFF
from kgroup.support.errors import KgroupError

_NEWEST = 5_000
"""Offsets of the ledger. In 5 seconds handlers write at most 1,000 notes, and the tasks their progress."""


class TaskControl:
    """Reads the ledger every two seconds on a thread of its own. A context manager.

    It begins with what ``ledger`` has read; without, with the newest records, at once: a runner that lives writes both
    every 5 seconds. Nothing changes while the ledger cannot be read.
    """

    def __init__(self, spec: TaskSpec, ledger: TaskLedger | None = None) -> None:
        self.must_stop = False
        """Whether the runner has ended, or another one has taken over: the task ends at its next commit."""
        self.rate: RateLimit | None = spec.rate
        """The task's share of the rate in force."""
        self._spec, self._work = spec, spec.work
        self._start, self._wait_s = self._work.offset, 0.0
        self._newest: int | None = _NEWEST
        if ledger is not None:
            self._take(ledger.epoch)
            self._take(ledger.applied)
            self._start, self._newest, self._wait_s = ledger.read_to, None, EVERY_S
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="task control", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(JOIN_S)

    def _follow(self) -> None:
        spec, work, wait_s = self._spec, self._work, self._wait_s
        source = spec.config, work.ledger, work.plan_id, self._start
        with PlanFollower(*source, timeout_s=spec.timeout_s, newest=self._newest) as follower:
            while not self._ended.wait(wait_s):
                wait_s = EVERY_S
                with suppress(KgroupError):
                    # Uncommitted ones count: who writes a later epoch has fenced this task's runner before, even if
                    # that write is aborted.
                    for value in follower.written(RecordKind.EPOCH, RecordKind.APPLIED):
                        self._take(value)

    def _take(self, value: Value | None) -> None:
        mine = self._work.epoch
        match value:
            case RunnerEpoch(number=number, seen_ms=seen_ms):
                self.must_stop |= number > mine or (number == mine and seen_ms == SIGNED_OFF)
            case AppliedRate(epoch=epoch, records=records, bytes=size) if epoch == mine:
                whole = None if records is None and size is None else RateLimit(records, size)
                self.rate = share(whole, self._spec.at_once)
