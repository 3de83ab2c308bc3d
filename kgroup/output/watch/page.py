"""The page of ``--watch``: the last refresh that showed something, its age, and what fails since then."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from rich.cells import cell_len

from kgroup.output.terminal.colour import Paint
from kgroup.output.terminal.draw import page_lines
from kgroup.output.terminal.wrapping import wrap_line
from kgroup.output.watch.refresh import RefreshResult
from kgroup.support.durations import format_duration
from kgroup.support.units import plural

_NOTES_SHOWN = 4
_HANGING = 2
_AGE_FROM_S = 3.0


class ScreenState(msgspec.Struct, frozen=True):
    """The refresh that is on the screen; the newest one if it failed, and since when refreshes fail."""

    refresh: RefreshResult
    failing: RefreshResult | None = None
    failing_since: datetime | None = None

    def after(self, refresh: RefreshResult) -> ScreenState:
        """The state after the next refresh; a failure is shown above the page that is there."""
        if refresh.failure is None:
            return ScreenState(refresh)
        return ScreenState(self.refresh, refresh, self.failing_since or refresh.at)


def body_lines(refresh: RefreshResult, width: int, paint: Paint, *, wide: bool) -> list[str]:
    """The pages of all outcomes, separated by empty lines."""
    lines: list[str] = []
    for outcome in refresh.outcomes:
        screen = outcome.screen()
        if screen.blocks:
            lines += [""] if lines else []
            lines += page_lines(outcome, screen, width, paint, wide=wide)
    return lines or ["Nothing is chosen, as of now."]


def fit_to_height(
    state: ScreenState,
    body: Sequence[str],
    status: str,
    height: int,
    now: datetime,
    paint: Paint,
    width: int | None = None,
) -> list[str]:
    """The lines of a screen of ``height`` lines: the failure, the page, notes, and the status line at the end.

    A page that does not fit is cut, with a line that shows how many lines are missing. Notes are broken at blanks to
    ``width``; None: they are not.
    """
    head: list[str] = []
    notes = _broken(state.refresh.lines, width)
    if state.failing is not None and state.failing_since is not None:
        since_s = max(0.0, (now - state.failing_since).total_seconds())
        head = [
            paint("FAILED", "bad") + f" for {format_duration(round(since_s))}, tried again and again; the page below "
            f"is of {_clock(state.refresh.at)}",
            *_broken(state.failing.lines, width),
            "",
        ]
        notes = []
    room = max(1, height - len(head) - len(notes) - 1)
    if len(body) > room:
        left_out = len(body) - room + 1
        body = [
            *body[: room - 1],
            paint(f"{plural(left_out, 'more line')}: a taller terminal has room for them", "dim"),
        ]
    lines = [*head, *body, *notes][: max(0, height - 1)]
    return [*lines, *[""] * (height - 1 - len(lines)), status]


def _broken(lines: Sequence[str], width: int | None) -> list[str]:
    """The first few messages, in lines of ``width``."""
    return [line for text in lines[:_NOTES_SHOWN] for line in wrap_line(text, width, _HANGING)]


def status_line(state: ScreenState, every_s: float, width: int, now: datetime, *, paused: bool) -> str:
    """The last line: what the keys do, and how old the page is.

    At 80 columns ``every 2s   p pauses   q quits`` with ``read 20:31:05Z, 14s ago`` at the right edge.
    """
    left = "PAUSED   p resumes   q quits" if paused else f"every {format_duration(every_s)}   p pauses   q quits"
    age_s = max(0.0, (now - state.refresh.at).total_seconds())
    right = f"read {_clock(state.refresh.at)}"
    if age_s >= _AGE_FROM_S:
        right += f", {format_duration(int(age_s))} ago"
    room = width - cell_len(left) - len(right)
    return left + " " * room + right if room >= 2 else left[:width]


def _clock(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%H:%M:%SZ}"
