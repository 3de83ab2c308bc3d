"""What ``--watch`` decides, without doing it: when to look, what a key means, which failure is the end."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from kgroup.support.errors import ExitCode

_ESCAPES = r"\x1b(?:\[[0-9;?<>=]*[ -/]*[@-~]|O.|.)?"
"""What arrows and function keys send: F1 ends in a P."""

_HEALS_NEVER = frozenset({ExitCode.USAGE, ExitCode.NOT_AUTHORIZED})
_LONGEST_WAIT_S = 1.0
"""The age of what is on the screen is told in seconds."""


@dataclass(frozen=True, slots=True)
class RefreshPace:
    """When the next look begins; moments are of a monotonic clock.

    ``begun_s`` is since when a look is under way, None while none is. ``late`` is whether that one began before a
    pause: what it finds is not shown, since the page has to stay as it is.
    """

    every_s: float
    due_s: float
    begun_s: float | None = None
    paused: bool = False
    quit: bool = False
    late: bool = False

    def is_due(self, now_s: float) -> bool:
        """Whether to look now."""
        return self.begun_s is None and not self.paused and now_s >= self.due_s

    def begun(self, now_s: float) -> RefreshPace:
        """A look begins."""
        return replace(self, begun_s=now_s, late=False)

    def ended(self, now_s: float) -> RefreshPace:
        """It is over. The next one begins ``every_s`` after it began, but leaves the cluster alone for half of that."""
        begun_s = now_s if self.begun_s is None else self.begun_s
        due_s = now_s if self.late else max(begun_s + self.every_s, now_s + self.every_s / 2)
        return replace(self, begun_s=None, due_s=due_s, late=False)

    def pressed(self, keys: str, now_s: float) -> RefreshPace:
        """What was typed: ``q`` quits, ``p`` pauses and goes on, at once; anything else means nothing."""
        pace = self
        for key in re.sub(_ESCAPES, "", keys):
            if key == "q":
                return replace(pace, quit=True)
            if key == "p":
                going_on = pace.paused
                pace = replace(
                    pace,
                    paused=not going_on,
                    due_s=now_s if going_on else pace.due_s,
                    late=pace.late or pace.begun_s is not None,
                )
        return pace

    def wait_s(self, now_s: float) -> float:
        """How long there is nothing to do but to wait for keys, and for the look that is under way."""
        if self.paused or self.begun_s is not None:
            return _LONGEST_WAIT_S
        return min(_LONGEST_WAIT_S, max(0.0, self.due_s - now_s))


def is_the_end(code: ExitCode, *, first: bool) -> bool:
    """Whether a look that showed nothing ends it, with this exit code.

    Any does at the start: a group that was mistyped is never there. Later on a cluster comes back and a group may, but
    not a right that was taken away.
    """
    return first or code in _HEALS_NEVER
