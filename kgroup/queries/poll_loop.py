"""The loop of verbs that poll groups until something is reached: pauses, time limit, lines of events."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

import msgspec

from kgroup.cluster.snapshot import Cluster
from kgroup.groups.wait_progress import FIRST_PAUSE_S, SHORTEST_PAUSE_S, EventLine, next_pause_s
from kgroup.model.reporter import Reporter
from kgroup.support.errors import KgroupError

LINES_AT_ONCE = 5
"""Up to this number of groups get a line each; more share one line."""

_MIN_POLL_S = 5.0
"""The least time for one poll, however little is left: without an answer the state of the groups is unknown."""

_COUNTS_EVERY_S = 10.0
_MOST_NEW, _MOST_NEW_IN_S = 5, 60.0
_NO_ANSWER = ("no answer",)

T = TypeVar("T")


class _ReportedLine(msgspec.Struct, frozen=True):
    key: Hashable
    text: str
    at_s: float


class EventLog:
    """Reports each line once; each line has a subject: a group, all groups, or the cluster.

    A line with a new key for its subject is reported at once. A line that differs only in its counts is reported at
    most every ten seconds, and so is any line after five in a minute, as in a crash loop. ``changes`` counts the lines
    with a new key.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._reported: dict[Hashable, _ReportedLine] = {}
        self._times_s: dict[Hashable, deque[float]] = {}
        self.changes = 0

    def report(self, word: str, subject: Hashable, line: EventLine, now_s: float, *, last: bool = False) -> None:
        """Report the line if it is new; ``now_s`` is from a monotonic clock. The ``last`` one is never too many."""
        before = self._reported.get(subject)
        known = before is not None and before.key == line.key
        if known and before and (before.text == line.text or now_s - before.at_s < _COUNTS_EVERY_S):
            return
        self.changes += not known
        times_s = self._times_s.setdefault(subject, deque(maxlen=_MOST_NEW))
        often = len(times_s) == _MOST_NEW and now_s - times_s[0] < _MOST_NEW_IN_S
        if often and not last and now_s - times_s[-1] < _COUNTS_EVERY_S:
            return
        times_s.append(now_s)
        self._reported[subject] = _ReportedLine(line.key, line.text, now_s)
        self._reporter.event(word, line.text)

    def reset(self, subject: Hashable) -> None:
        """Make the next line with this subject count as new."""
        self._reported.pop(subject, None)

    def no_answer(self, word: str, message: str, now_s: float) -> None:
        """Report that the cluster does not answer; all other lines after it count as new."""
        self._reported = {subject: line for subject, line in self._reported.items() if subject == _NO_ANSWER}
        self.report(word, _NO_ANSWER, EventLine(_NO_ANSWER, f"no answer: {message}"), now_s)

    def answered(self) -> None:
        """The cluster answers; a later failure counts as new."""
        self.reset(_NO_ANSWER)


class PollState(msgspec.Struct, frozen=True):
    """What a poll showed: whether the end is reached, or only still has to last for ``left_s`` (``holding``).

    ``soon`` asks for the shortest pause.
    """

    reached: bool
    holding: bool
    left_s: float
    soon: bool = False


class PollLoop(ABC, Generic[T]):
    """Polls groups until the end is reached or ``within_s`` is over; subclasses say what is read and reported.

    A cluster that does not answer is polled again. ``pause`` waits a number of seconds.
    """

    def __init__(self, reporter: Reporter, cluster: Cluster, within_s: float, pause: Callable[[float], None]) -> None:
        self.reporter = reporter
        self.cluster = cluster
        self.events = EventLog(reporter)
        self._within_s = within_s
        self._pause = pause
        self._started_s = time.monotonic()
        self._since_s: dict[str, float] = {}

    def run(self) -> T:
        """The result at the end. Raises Unreachable if the last poll had no answer."""
        pause_s = FIRST_PAUSE_S
        while True:
            changes = self.events.changes
            failure = self.poll()
            now_s = time.monotonic()
            state = self.report(now_s, failure)
            left_s = self.left_s(now_s)
            if failure is not None and left_s <= 0:
                raise failure
            if state.reached or left_s <= 0:
                return self.result(now_s, reached=state.reached)
            changed = self.events.changes != changes
            pause_s = next_pause_s(pause_s, changed=changed, holding=state.holding, left_s=min(left_s, state.left_s))
            self._pause(SHORTEST_PAUSE_S if state.soon else pause_s)

    @abstractmethod
    def poll(self) -> KgroupError | None:
        """Read all groups once; returns the error of a cluster or group that is silent. Raises all other errors."""

    @abstractmethod
    def report(self, now_s: float, failure: KgroupError | None) -> PollState:
        """Report what the poll showed, ``failure`` if it showed nothing."""

    @abstractmethod
    def result(self, now_s: float, *, reached: bool) -> T:
        """The result; without ``reached`` the time is over."""

    def in_time(self) -> AbstractContextManager[None]:
        """A block whose requests end with ``within_s``, but have five seconds in any case."""
        return self.cluster.time_limit(max(_MIN_POLL_S, self.left_s(time.monotonic())))

    def left_s(self, now_s: float) -> float:
        """The time that remains."""
        return self._within_s - (now_s - self._started_s)

    def note(self, name: str, now_s: float, *, done: bool) -> None:
        """Remember since when a group is done."""
        if not done:
            self._since_s.pop(name, None)
        else:
            self._since_s.setdefault(name, now_s - self._started_s)

    def waited_s(self, now_s: float, name: str | None = None) -> float:
        """How long it took until the group was done; without a group, or if it is not done, the whole time."""
        waited_s = now_s - self._started_s
        return waited_s if name is None else self._since_s.get(name, waited_s)
