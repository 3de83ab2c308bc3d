"""The page of ``--watch`` from looks that were made up: what is cut, told to be old, told to fail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from rich.cells import cell_len

from kgroup.model.blocks import Column, Records, Screen, Style, Table, Title
from kgroup.model.groups import RowError
from kgroup.model.outcome import Outcome
from kgroup.output.watch.page import ScreenState, body_lines, fit_to_height, status_line
from kgroup.output.watch.refresh import RefreshResult
from kgroup.support.errors import ExitCode, KgroupError, NotFound, Unreachable
from tests.helpers.for_each import for_each

AT = datetime(2026, 7, 14, 3, 16, 3, tzinfo=UTC)


class Subject(msgspec.Struct):
    """Somebody's document."""

    group: str


def page(name: str, lags: Sequence[int], state: str = "Stable", errors: tuple[RowError, ...] = ()) -> Outcome:
    """A group's page with a row a partition."""
    screen = Screen(
        (
            Title(f"{name}  {state}"),
            Table(
                (Column("PARTITION"), Column("LAG", right=True)), [(f"orders:{n}", lag) for n, lag in enumerate(lags)]
            ),
        )
    )
    return Outcome((Subject(name),), lambda: screen, lambda: Records((), ()), errors=errors, at=AT)


def seen(
    *outcomes: Outcome, after_s: float = 0, said: Sequence[str] = (), error: KgroupError | None = None
) -> RefreshResult:
    """A look."""
    return RefreshResult(AT + timedelta(seconds=after_s), outcomes, tuple(said), error)


def marked(text: str, style: Style | None) -> str:
    """Colour that can be read in a test."""
    return f"<{style} {text}>" if style else text


def drawn(shown: ScreenState, height: int = 10, width: int = 40, now_s: float = 0) -> list[str]:
    """The lines of the screen, without the spaces of the title."""
    body = body_lines(shown.refresh, width, marked, wide=False)
    return [
        " ".join(line.split())
        for line in fit_to_height(shown, body, "STATUS", height, AT + timedelta(seconds=now_s), marked)
    ]


def test_a_look_that_fails_leaves_the_page_and_says_since_when() -> None:
    shown = ScreenState(seen(page("svc", [5]), said=["note: a note"]))
    assert "note: a note" in drawn(shown)

    down = Unreachable("broker 1 did not answer within the timeout")
    shown = shown.after(seen(after_s=2, said=["kgroup: broker 1 did not answer within the timeout"], error=down))
    shown = shown.after(seen(after_s=4, said=["kgroup: nothing listens"], error=down))

    lines = drawn(shown, 12, 60, now_s=9)
    assert lines[0] == "<bad FAILED> for 7s, tried again and again; the page below is of 03:16:03Z"
    assert lines[1:3] == ["kgroup: nothing listens", ""]
    assert "orders:0 5" in lines
    assert "note: a note" not in lines, "it was of another look"

    shown = shown.after(seen(page("svc", [6]), after_s=6))
    assert not any("FAILED" in line for line in drawn(shown))
    assert "orders:0 6" in drawn(shown)


@for_each("height", [1, 2, 3, 5, 8, 50])
@for_each("fails", [False, True])
@for_each("rows", [0, 3, 40])
def test_every_height_is_filled_and_no_more(height: int, fails: bool, rows: int) -> None:
    shown = ScreenState(seen(page("svc", range(rows)), said=[f"note {n}" for n in range(9)]))
    if fails:
        shown = shown.after(seen(said=["why", "hint"], error=Unreachable("gone")))

    lines = drawn(shown, height)

    assert len(lines) == height
    assert lines[-1] == "STATUS"


def test_what_does_not_fit_is_counted() -> None:
    lines = drawn(ScreenState(seen(page("svc", range(20)))), height=8)

    # Title, heading and 20 rows are 22 lines; one of the 7 says how many are left out.
    assert lines[-2] == "<dim 16 more lines: a taller terminal has room for them>"
    assert lines[5] == "orders:3 3"


@pytest.mark.parametrize(
    ("width", "age_s", "paused", "expected"),
    [
        (80, 0, False, "every 2s   p pauses   q quits" + " " * 37 + "read 03:16:03Z"),
        (80, 14, True, "PAUSED   p resumes   q quits" + " " * 29 + "read 03:16:03Z, 14s ago"),
        (80, 7500, True, "PAUSED   p resumes   q quits" + " " * 28 + "read 03:16:03Z, 2h5m ago"),
        (30, 14, True, "PAUSED   p resumes   q quits"),
        (12, 14, True, "PAUSED   p r"),
    ],
)
def test_the_status_fits(width: int, age_s: float, paused: bool, expected: str) -> None:
    shown = ScreenState(seen(page("svc", [])))

    status = status_line(shown, 2.0, width, AT + timedelta(seconds=age_s), paused=paused)

    assert status == expected
    assert cell_len(status) <= width


def test_notes_are_broken_between_words() -> None:
    shown = ScreenState(seen(page("svc", [5]), said=["note: the members of this group may not be seen"]))
    body = body_lines(shown.refresh, 24, marked, wide=False)

    lines = fit_to_height(shown, body, "STATUS", 10, AT, marked, 24)

    assert lines[len(body) : len(body) + 3] == ["note: the members of", "  this group may not be", "  seen"]


def test_nothing_chosen_is_said() -> None:
    assert drawn(ScreenState(seen()))[0] == "Nothing is chosen, as of now."
    empty = Outcome((), lambda: Screen(()), lambda: Records((), ()), at=AT)
    assert drawn(ScreenState(seen(empty)))[0] == "Nothing is chosen, as of now."


ROW = RowError.of(Unreachable("no coordinator"), group="svc")
NOTHING = Outcome((), lambda: Screen(()), lambda: Records((), ()), at=AT)


@pytest.mark.parametrize(
    ("look", "failure"),
    [
        (seen(page("svc", [1])), None),
        (seen(), None),
        (seen(NOTHING), None),
        (seen(page("svc", [1], errors=(ROW,))), None),
        (seen(error=NotFound("no such group")), ExitCode.NOT_FOUND),
        (seen(Outcome((), lambda: Screen(()), lambda: Records((), ()), errors=(ROW,))), ExitCode.UNREACHABLE),
    ],
    ids=["data", "none", "empty", "partly", "error", "rows"],
)
def test_what_is_a_failure(look: RefreshResult, failure: ExitCode | None) -> None:
    assert look.failure == failure
