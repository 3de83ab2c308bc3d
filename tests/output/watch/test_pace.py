"""When ``--watch`` looks, what keys do, which failures end it: by cases, without a terminal and without a clock."""

from __future__ import annotations

import pytest

from kgroup.output.watch.pace import RefreshPace, ends_watch
from kgroup.support.errors import ExitCode


def test_a_look_follows_the_last_ones_beginning() -> None:
    pace = RefreshPace(2.0, due_s=10.0)

    assert not pace.is_due(9.9)
    assert pace.is_due(10.0)
    assert pace.wait_s(9.6) == pytest.approx(0.4)
    looking = pace.begin(10.0)
    assert not looking.is_due(99.0), "never two at once"
    assert looking.end(10.3).due_s == 12.0


@pytest.mark.parametrize(
    ("every_s", "took_s", "due_s"),
    [(2.0, 0.1, 2.0), (2.0, 1.0, 2.0), (2.0, 1.5, 2.5), (2.0, 10.0, 11.0), (0.5, 3.0, 3.25), (60.0, 10.0, 60.0)],
)
def test_a_slow_cluster_is_left_alone_for_half_the_time(every_s: float, took_s: float, due_s: float) -> None:
    assert RefreshPace(every_s, due_s=0.0).begin(0.0).end(took_s).due_s == due_s


@pytest.mark.parametrize("now_s", [0.0, 3.0, 8.9, 9.5, 30.0])
def test_the_age_is_told_every_second(now_s: float) -> None:
    assert 0 <= RefreshPace(10.0, due_s=9.0).wait_s(now_s) <= 1.0
    assert RefreshPace(10.0, due_s=9.0, paused=True).wait_s(now_s) == 1.0
    assert RefreshPace(10.0, due_s=9.0).begin(0.0).wait_s(now_s) == 1.0


@pytest.mark.parametrize(
    ("keys", "is_quit", "paused"),
    [
        ("", False, False),
        ("q", True, False),
        ("p", False, True),
        ("pp", False, False),
        ("ppp", False, True),
        ("pq", True, True),
        ("qp", True, False),
        ("xyz \n", False, False),
        ("\x1b[A", False, False),
        ("\x1bOp", False, False),
        ("\x1bq", False, False),
        ("\x1b[1;5p", False, False),
        ("\x1b[A\x1b[Bp", False, True),
        ("\x1b", False, False),
        ("\ufffdq", True, False),
    ],
    ids=repr,
)
def test_keys(keys: str, is_quit: bool, paused: bool) -> None:
    pace = RefreshPace(2.0, due_s=5.0).after_keys(keys, 1.0)

    assert (pace.quit, pace.paused) == (is_quit, paused)


def test_paused_it_does_not_look_and_goes_on_at_once() -> None:
    paused = RefreshPace(60.0, due_s=5.0).after_keys("p", 1.0)

    assert not paused.is_due(1000.0)
    assert paused.after_keys("p", 1000.0).is_due(1000.0)


def test_a_look_from_before_a_pause_is_not_shown() -> None:
    looking = RefreshPace(2.0, due_s=0.0).begin(0.0).after_keys("p", 0.1)

    assert looking.late
    assert looking.after_keys("p", 0.2).late, "the page of before the pause has to be read anew"
    again = looking.end(0.5).after_keys("p", 0.6)
    assert again.is_due(0.6)
    assert not again.begin(0.6).late


@pytest.mark.parametrize("code", list(ExitCode))
def test_which_failure_is_the_end(code: ExitCode) -> None:
    assert ends_watch(code, first=True)
    assert ends_watch(code, first=False) == (code in (ExitCode.USAGE, ExitCode.NOT_AUTHORIZED))
