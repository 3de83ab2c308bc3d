"""Empty groups that are jobs, and services whose consumers are missing."""

from __future__ import annotations

import pytest

from kgroup.groups.history.runs import Run, job_words, runs_of
from kgroup.groups.lag.from_log import from_log
from kgroup.model.group_log import RebalanceProtocol
from kgroup.model.migration_facts import OWN_MEMBER_PREFIX
from tests.helpers.cases.history import T0, Log, member
from tests.helpers.cases.lag import group

M = 60


def run(began_s: float | None, ended_s: float, *, left: bool = True) -> Run:
    return Run(None if began_s is None else T0 + round(began_s * 1000), T0 + round(ended_s * 1000), left)


HOURLY = (run(0, 5 * M), run(60 * M, 63 * M), run(120 * M, 125 * M))
ONCE = (run(0, 5 * M),)
TWICE = (run(0, 1 * M), run(4 * M, 5 * M))


@pytest.mark.parametrize(
    ("runs", "unread_s", "now_s", "quiet", "expected"),
    [
        # Each hour, for some minutes.
        (HOURLY, 126 * M, 170 * M, False, "the next one begins by 06:01:00Z"),
        (HOURLY[:2], 64 * M, 119 * M, False, "the next one begins by 05:01:00Z"),
        ((run(None, -50 * M), *HOURLY), 126 * M, 170 * M, False, "the next one begins by 06:01:00Z"),
        (HOURLY, 126 * M, 182 * M, False, None),
        (HOURLY, 126 * M, 182 * M, True, None),
        # What its last run did not read, arrived before that ended.
        (HOURLY, 124 * M, 170 * M, False, None),
        (HOURLY, None, 170 * M, False, None),
        # It was killed.
        ((*HOURLY[:2], run(120 * M, 125 * M, left=False)), 126 * M, 170 * M, False, None),
        # A service that was stopped for some minutes, twice; and one since before the log that was read.
        ((run(0, 50 * M), run(60 * M, 100 * M)), 101 * M, 105 * M, False, None),
        ((run(None, 50 * M), run(60 * M, 63 * M)), 64 * M, 66 * M, False, None),
        # One run: it may be either, as long as little has come just after it.
        (ONCE, 5 * M, 8 * M, True, "the log does not show which"),
        (ONCE, 5 * M, 8 * M, False, None),
        (ONCE, 5 * M, 15.9 * M, True, "its only known run read to the end"),
        (ONCE, 5 * M, 16 * M, True, None),
        # Two show one distance, which a third one need not keep.
        (TWICE, 5 * M, 9 * M, False, "the next one begins by 03:09:00Z"),
        (TWICE, 5 * M, 10 * M, True, "its last run read to the end"),
        (TWICE, 5 * M, 10 * M, False, None),
        ((run(None, 5 * M),), 5 * M, 8 * M, True, "the log does not show which"),
        ((), 5 * M, 8 * M, True, None),
    ],
)
def test_a_job_that_is_not_due(
    runs: tuple[Run, ...], unread_s: float | None, now_s: float, quiet: bool, expected: str | None
) -> None:
    unread_ms = None if unread_s is None else T0 + round(unread_s * 1000)
    words = job_words(runs, unread_ms, T0 + round(now_s * 1000), quiet=quiet)
    assert expected in words if expected is not None and words is not None else words is expected


def job(ends: float = 20) -> Log:
    return Log().at(0).generation(1, member("job/0", 0, 1)).commits([0, 1], 1, ends - 1).at(ends).generation(2)


HELD = member(f"{OWN_MEMBER_PREFIX}0")


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (job(), [run(0, 20)]),
        (job().at(200).generation(3, member("job/1", 0, 1)), [run(0, 20)]),
        (job().at(99).generation(3, member("job/1", 0)).commit(0, 1).at(103).generation(4), [run(0, 20), run(99, 103)]),
        # It went without a sign of life for longer than its session: it did not leave, or this is not known.
        (Log().at(0).generation(1, member("a", 0)).commits([0], 1, 9).at(20).generation(2), [run(0, 20, left=False)]),
        (Log().at(0).generation(7, member("job/0", 0)).commits([0], 1, 19).at(20).generation(8), [run(None, 20)]),
        (job().at(30).gone(RebalanceProtocol.CLASSIC), []),
        # kgroup holds it to change it.
        (job().at(30).generation(3, HELD).at(40).generation(4), [run(0, 20)]),
    ],
)  # fmt: skip
def test_the_runs_of_a_log(log: Log, expected: list[Run]) -> None:
    assert list(log.history(since=3600).runs) == expected
    assert list(from_log(log.events, log.reach(), group([], (), "Empty"), T0, {}).runs) == expected


def test_the_runs_of_a_log_where_the_session_timeout_is_known() -> None:
    """Of the consumer protocol only the broker has it: without it, the log does not show that a member left."""
    log = Log().at(0).member("job/0").epoch(1).at(1).commits([0, 1], 1, 19).at(20).left("job/0").epoch(2)
    assert runs_of(log.steps(45_000)) == (run(0, 20),)
    assert runs_of(log.steps()) == (run(0, 20, left=False),)
