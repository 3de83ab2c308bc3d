"""The schedule of a rate, with a clock of its own."""

from __future__ import annotations

from collections import Counter

import pytest

from kgroup.catchup.worker.rate_limit import MOST_NOTES_PER_S, NoteSchedule, Throttle, commit_every_s, note_gap_s, share
from kgroup.groups.catchup.chunks import RateLimit


@pytest.mark.parametrize(
    ("rate", "tasks", "expected"),
    [
        (None, 4, None),
        (RateLimit(500), 4, RateLimit(125)),
        (RateLimit(None, 20e6), 4, RateLimit(None, 5e6)),
        (RateLimit(500), 0, RateLimit(500)),
    ],
)
def test_each_task_has_its_share(rate: RateLimit | None, tasks: int, expected: RateLimit | None) -> None:
    assert share(rate, tasks) == expected


@pytest.mark.parametrize("tasks", [1, 2, 4, 200, 800, 3000])
def test_all_tasks_together_write_at_most_200_notes_a_second(tasks: int) -> None:
    """Each wants to write notes without a pause, and all begin at once: the worst case."""
    gap_s, written = note_gap_s(tasks), []
    for number in range(tasks):
        schedule, now_s = NoteSchedule.of_task(number, gap_s, 100.0), 100.0
        while (now_s := now_s + schedule.wait_s(now_s)) < 110.0:
            written.append(now_s)
            schedule.noted(now_s)
    in_second = Counter(int(now_s + 1e-6) for now_s in written)

    assert max(in_second.values()) == MOST_NOTES_PER_S


@pytest.mark.parametrize(("tasks", "seconds"), [(0, 5.0), (16, 5.0), (200, 5.0), (800, 20.0), (5000, 30.0)])
def test_transactions_of_many_tasks_are_longer(tasks: int, seconds: float) -> None:
    assert commit_every_s(tasks) == seconds


def test_a_task_writes_no_note_early_and_makes_up_for_none() -> None:
    schedule = NoteSchedule.of_task(0, note_gap_s(800), 0.0)
    schedule.noted(0.0)

    assert [schedule.wait_s(now_s) for now_s in (0.0, 1.0, 4.0, 60.0)] == [4.0, 3.0, 0.0, 0.0]
    schedule.noted(60.0)
    assert schedule.wait_s(60.0) == 4.0


@pytest.mark.parametrize(
    ("rate", "records", "size", "piece"),
    [
        (None, 2000, 0, 2000),
        (RateLimit(100), 2000, 10, 25),
        (RateLimit(1), 2000, 10, 1),
        (RateLimit(1e9), 2000, 10, 2000),
        (RateLimit(None, 4000), 2000, 2_000_000, 1),
        (RateLimit(None, 400_000), 2000, 2_000_000, 100),
        (RateLimit(None, 400_000), 2000, 0, 2000),
        (RateLimit(100, 400_000), 2000, 2_000_000, 25),
    ],
)
def test_a_piece_is_what_a_quarter_of_a_second_has(rate: RateLimit | None, records: int, size: int, piece: int) -> None:
    assert Throttle(rate).piece(records, size) == piece


@pytest.mark.parametrize(
    ("rate", "number", "size", "expected_s"),
    [(RateLimit(100), 1000, 0, 10.0), (RateLimit(None, 1000), 10, 5000, 5.0), (RateLimit(100, 1000), 50, 5000, 5.0)],
)
def test_a_schedule_is_kept_however_it_is_cut(rate: RateLimit, number: int, size: int, expected_s: float) -> None:
    throttle, now, left = Throttle(rate), 1000.0, number
    while left:
        now += throttle.wait_s(now)
        piece = min(left, throttle.piece(number, size))
        throttle.took(piece, size * piece // number, now)
        now += 0.001  # what the work takes
        left -= piece
    now += throttle.wait_s(now)

    assert now - 1000.0 == pytest.approx(expected_s, rel=0.01)


def test_a_stall_ends_in_no_burst() -> None:
    throttle = Throttle(RateLimit(100))
    throttle.took(100, 0, 0.0)

    assert throttle.wait_s(0.0) == 1.0
    assert throttle.wait_s(60.0) == 0.0
    throttle.took(100, 0, 60.0)  # a minute late: a second of it may be made up for
    assert throttle.wait_s(60.0) == 0.0
    throttle.took(100, 0, 60.0)
    assert throttle.wait_s(60.0) == 1.0


@pytest.mark.parametrize(("rate", "wait_s"), [(RateLimit(1), 60.0), (RateLimit(1000), 0.25), (None, 0.0)])
def test_another_rate_applies_soon(rate: RateLimit | None, wait_s: float) -> None:
    """A record of a minute at the old rate does not delay what the new one allows."""
    throttle = Throttle(RateLimit(1))
    throttle.took(60, 0, 0.0)
    throttle.change(rate, 0.0)

    assert throttle.wait_s(0.0) == wait_s


def test_a_rate_after_none_begins_at_that_moment() -> None:
    throttle = Throttle(None)
    throttle.took(1_000_000, 1_000_000, 0.0)
    throttle.change(RateLimit(100), 50.0)
    assert throttle.wait_s(50.0) == 0.0
    throttle.took(100, 0, 50.0)
    assert throttle.wait_s(50.0) == 1.0
