"""The decisions of ``--watch``, as pure functions: when to refresh, what a key means, which failure ends it."""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from kgroup.support.errors import ExitCode

_ESCAPES = r"\x1b(?:\[[0-9;?<>=]*[ -/]*[@-~]|O.|.)?"
"""The sequences of arrow and function keys, which contain letters: F1 ends in a P."""

_PERMANENT = frozenset({ExitCode.USAGE, ExitCode.NOT_AUTHORIZED})
_LONGEST_WAIT_S = 1.0
"""The age of the page is shown in seconds."""


class RefreshPace(msgspec.Struct, frozen=True):
    """When the next refresh begins; times are of a monotonic clock.

    ``started_s`` is the start of the running refresh, None if none is running. ``late`` is true if that refresh began
    before a pause: its result is not shown, because a paused page must not change.
    """

    every_s: float
    due_s: float
    started_s: float | None = None
    paused: bool = False
    quit: bool = False
    late: bool = False

    def is_due(self, now_s: float) -> bool:
        """Whether to refresh now."""
        return self.started_s is None and not self.paused and now_s >= self.due_s

    def begin(self, now_s: float) -> RefreshPace:
        """A refresh begins."""
        return replace(self, started_s=now_s, late=False)

    def end(self, now_s: float) -> RefreshPace:
        """The refresh ends. The next begins ``every_s`` after its start, but not before ``every_s`` / 2 from now."""
        started_s = now_s if self.started_s is None else self.started_s
        due_s = now_s if self.late else max(started_s + self.every_s, now_s + self.every_s / 2)
        return replace(self, started_s=None, due_s=due_s, late=False)

    def after_keys(self, keys: str, now_s: float) -> RefreshPace:
        """Handle typed keys: ``q`` quits, ``p`` pauses, or continues at once; other keys do nothing."""
        pace = self
        for key in re.sub(_ESCAPES, "", keys):
            if key == "q":
                return replace(pace, quit=True)
            if key == "p":
                was_paused = pace.paused
                pace = replace(
                    pace,
                    paused=not was_paused,
                    due_s=now_s if was_paused else pace.due_s,
                    late=pace.late or pace.started_s is not None,
                )
        return pace

    def wait_s(self, now_s: float) -> float:
        """How long to wait for keys or for the running refresh, at most one second."""
        if self.paused or self.started_s is not None:
            return _LONGEST_WAIT_S
        return min(_LONGEST_WAIT_S, max(0.0, self.due_s - now_s))


def ends_watch(code: ExitCode, *, first: bool) -> bool:
    """Whether a refresh that showed nothing ends the watch, with this exit code.

    The first one always does: a mistyped group never appears. Later, a cluster or a group may come back, but a right
    that was revoked does not.
    """
    return first or code in _PERMANENT
