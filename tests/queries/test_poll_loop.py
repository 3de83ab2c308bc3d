"""Lines that are said once: what is news, and when counts are said again."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from kgroup.groups.wait_progress import EventLine
from kgroup.queries.poll_loop import EventLog
from tests.helpers.command_line import QuietReporter


@pytest.mark.parametrize(
    ("said", "lines", "changes"),
    [
        ([("a", "k", "one", 0), ("a", "k", "one", 60)], ["one"], 1),
        ([("a", "k", "one", 0), ("a", "k", "two", 9)], ["one"], 1),
        ([("a", "k", "one", 0), ("a", "k", "two", 10)], ["one", "two"], 1),
        ([("a", "k", "one", 0), ("a", "l", "one", 1)], ["one", "one"], 2),
        ([("a", "k", "one", 0), ("b", "k", "one", 1)], ["one", "one"], 2),
        # A crash loop: a new member every 2 s. After five lines there is one every ten seconds.
        ([("a", n, str(n), 2 * n) for n in range(20)], ["0", "1", "2", "3", "4", "9", "14", "19"], 20),
        ([("a", n, str(n), 15 * n) for n in range(9)], [str(n) for n in range(9)], 9),
    ],
)
def test_what_is_news(said: list[tuple[str, Hashable, str, float]], lines: list[str], changes: int) -> None:
    reporter = QuietReporter()
    telling = EventLog(reporter)
    for about, key, text, now_s in said:
        telling.report("WAIT", about, EventLine(key, text), now_s)
    assert reporter.lines == [f"WAIT {text}" for text in lines]
    assert telling.changes == changes


def test_an_outage_is_said_once_and_then_all_is_news() -> None:
    reporter = QuietReporter()
    telling = EventLog(reporter)
    for now_s in (0.0, 1.0):
        telling.report("WAIT", "svc", EventLine("k", "svc is Empty"), now_s)
    for now_s in (2.0, 3.0):
        telling.no_answer("WAIT", "connection refused", now_s)
    telling.answered()
    telling.report("WAIT", "svc", EventLine("k", "svc is Empty"), 4.0)
    telling.no_answer("WAIT", "connection refused", 5.0)
    seen, gone = "WAIT svc is Empty", "WAIT no answer: connection refused"
    assert reporter.lines == [seen, gone, seen, gone]


def test_what_is_forgotten_is_said_again() -> None:
    reporter = QuietReporter()
    telling = EventLog(reporter)
    telling.report("WAIT", "svc", EventLine("k", "one"), 0.0)
    telling.reset("svc")
    telling.report("WAIT", "svc", EventLine("k", "one"), 1.0)
    assert len(reporter.lines) == 2


def test_the_last_line_is_said_however_many_there_were() -> None:
    reporter = QuietReporter()
    telling = EventLog(reporter)
    for number in range(6):
        telling.report("ROLLOUT", "svc", EventLine(number, f"{number}"), number / 10, last=number == 5)
    assert reporter.lines[-1] == "ROLLOUT 5"
