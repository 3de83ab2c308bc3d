"""Lines of what happens, for verbs that look again and again: an event a line, not a look a line."""

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
    """Says lines once, each about something: a group, all of them, the cluster.

    A line with another key than the last about the same thing is said at once; one that differs in its counts
    alone every ten seconds. ``changes`` counts the former.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._said: dict[Hashable, _Said] = {}
        self.changes = 0

    def say(self, word: str, about: Hashable, line: EventLine, now_s: float) -> None:
        """Say it if it is news; ``now_s`` is of a monotonic clock."""
        last = self._said.get(about)
        known = last is not None and last.key == line.key
        if known and last and (last.text == line.text or now_s - last.at_s < _COUNTS_EVERY_S):
            return
        self.changes += not known
        self._said[about] = _Said(line.key, line.text, now_s)
        self._reporter.event(word, line.text)

    def forget(self, about: Hashable) -> None:
        """What is said next about it is news."""
        self._said.pop(about, None)

    def no_answer(self, word: str, message: str, now_s: float) -> None:
        """The cluster does not answer; whatever is seen afterwards is news."""
        self._said = {about: said for about, said in self._said.items() if about == _NO_ANSWER}
        self.say(word, _NO_ANSWER, EventLine(_NO_ANSWER, f"no answer: {message}"), now_s)

    def answered(self) -> None:
        """The cluster answers (again)."""
        self.forget(_NO_ANSWER)
