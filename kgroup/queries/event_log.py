"""Reports events for verbs that poll: one line per event, not one per poll."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from kgroup.groups.wait_conditions import EventLine
from kgroup.model.reporter import Reporter

_COUNTS_EVERY_S = 10.0
_NO_ANSWER = ("no answer",)


@dataclass(frozen=True, slots=True)
class _Said:
    key: Hashable
    text: str
    at_s: float


class EventLog:
    """Reports each line once; each line has a subject: a group, all groups, or the cluster.

    A line with a new key for its subject is reported at once. A line that differs only in its counts is reported at
    most every ten seconds. ``changes`` counts the lines with a new key.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._said: dict[Hashable, _Said] = {}
        self.changes = 0

    def report(self, word: str, about: Hashable, line: EventLine, now_s: float) -> None:
        """Report the line if it is new; ``now_s`` is from a monotonic clock."""
        last = self._said.get(about)
        known = last is not None and last.key == line.key
        if known and last and (last.text == line.text or now_s - last.at_s < _COUNTS_EVERY_S):
            return
        self.changes += not known
        self._said[about] = _Said(line.key, line.text, now_s)
        self._reporter.event(word, line.text)

    def reset(self, about: Hashable) -> None:
        """Make the next line with this subject count as new."""
        self._said.pop(about, None)

    def no_answer(self, word: str, message: str, now_s: float) -> None:
        """Report that the cluster does not answer; all other lines after it count as new."""
        self._said = {about: said for about, said in self._said.items() if about == _NO_ANSWER}
        self.report(word, _NO_ANSWER, EventLine(_NO_ANSWER, f"no answer: {message}"), now_s)

    def answered(self) -> None:
        """The cluster answers; a later failure counts as new."""
        self.reset(_NO_ANSWER)
