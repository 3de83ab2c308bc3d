"""Commits that leap from below the log start; what they may mean, and what is no leap."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kgroup.groups.next_commands import deliver_passed_over
from kgroup.groups.passed_over import Leap, leaps, logged_commits, passed_over, passed_over_in, passed_over_words
from kgroup.model.groups import LoggedCommit
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.cases.history import T0, Log, member
from tests.helpers.cases.lag import Part

TP = TopicPartition("orders", 0)


def steady(log: Log | None = None, until: int = 60, pace: int = 20) -> Log:
    """A member that commits each second what has arrived."""
    return (log or Log()).at(0).generation(1, member("app/1", 0)).commits([0], 1, until, pace=pace)


def stopped(offset: int = 3400, restarts: float = 200, after: float = 1) -> Log:
    """It stops at 1200, is started again, and commits that offset so many seconds later."""
    log = steady().at(61).generation(2).at(restarts).generation(3, member("app/2", 0))
    return log.at(restarts + after).commit(0, offset)


def overtaken() -> Log:
    """A consumer that lives, and is slower than what retention deletes."""
    return steady().at(61).commit(0, 9000)


def catching_up() -> Log:
    """After a pause it reads a batch a second, faster than records arrive."""
    return stopped(1900).at(202).commit(0, 2600).at(203).commit(0, 3300)


@pytest.mark.parametrize(
    ("write", "leap"),
    [
        pytest.param(stopped, (1200, 3400, 20), id="a start beyond"),
        pytest.param(overtaken, (1200, 9000, 20), id="a live one"),
        pytest.param(steady, None, id="ordinary progress"),
        pytest.param(lambda: stopped(1400, after=1), None, id="ten times as far is not more"),
        pytest.param(lambda: stopped(after=60), None, id="read within the minute since it joined"),
        pytest.param(catching_up, None, id="catches up, commit by commit"),
        pytest.param(lambda: steady(until=3).at(4).commit(0, 9000), None, id="too few commits to compare"),
        pytest.param(lambda: steady(pace=1).at(61).commit(0, 130), None, id="a few records"),
        pytest.param(lambda: overtaken().commit(0, None).at(70).commit(0, 9000), None, id="it was deleted since"),
        pytest.param(lambda: overtaken().at(70).commit(0, 60), (1200, 9000, 20), id="it was rewound since"),
    ],
)
def test_leaps(write: Callable[[], Log], leap: tuple[int, int, int] | None) -> None:
    log = write()

    found = leaps(logged_commits(log.events), log.events)

    assert [(one.tp, one.old, one.new, one.usual) for one in found] == ([] if leap is None else [(TP, *leap)])


def test_the_reset_of_a_tool_is_no_leap() -> None:
    commits = logged_commits(overtaken().events)[TP]
    by_tool = [*commits[:-1], replace(commits[-1], by_tool=True)]

    assert leaps({TP: commits}, []) != ()
    assert leaps({TP: by_tool}, []) == ()


def test_a_reset_of_a_tool_hides_no_leap() -> None:
    log = overtaken().at(70).commit(0, 90_000)
    reset = log.events[-1].log_offset

    assert leaps(logged_commits(log.events), log.events) == ()
    (leap,) = leaps(logged_commits(log.events, {reset}), log.events)
    assert (leap.old, leap.new) == (1200, 9000)


def test_what_was_never_committed_does_not_matter() -> None:
    assert leaps({TP: [LoggedCommit("orders", 0, 7, None, T0, 1)]}, []) == ()


LEAP = Leap(TP, T0, 7, 1200, 3400, 20)


@pytest.mark.parametrize(
    ("log_start", "words", "command"),
    [
        (1200, None, None),
        (None, None, None),
        (2000, "offsets 1200 to 1999 are gone, 2000 to 3399 are still there: auto.", "2000-3400"),
        # It read on from the log start, as with auto.offset.reset=earliest.
        (3380, "offsets 1200 to 3379 are gone: auto.", None),
        (3400, "offsets 1200 to 3399 are gone: auto.", None),
        # It moved later.
        (3401, None, None),
    ],
)
def test_what_may_have_been_passed_over(log_start: int | None, words: str | None, command: str | None) -> None:
    found = passed_over([LEAP], {} if log_start is None else {TP: log_start})

    assert len(found) == (0 if words is None else 1)
    for one in found:
        assert one.words.startswith(words or "")
        commands = [f"kgroup catchup start --range orders:0={command}"] if command else []
        assert [str(each) for each in deliver_passed_over(found)] == commands


def test_words_begin_with_the_farthest() -> None:
    """The range of the other one is printed too."""
    other = Leap(TopicPartition("orders", 1), T0 + 5, 9, 1200, 9000, 20)
    parts = [Part(0, 0, committed=3400, log_start=2000), Part(1, 0, committed=9000, log_start=2000)]

    found = passed_over_in((LEAP, other), [part.partition for part in parts])

    assert passed_over_words(found, T0 + 1000) == (
        "orders:1 leapt by 7800 at 03:00:00Z, from below the log start: offsets 1200 to 1999 are gone, 2000 to 8999 "
        "are still there: auto.offset.reset passed over them, or they were read in one go and deleted since, the "
        "log does not show which; 1 more partition too"
    )
    (command,) = deliver_passed_over(found)
    assert str(command).endswith("--range orders:1=2000-9000 --range orders:0=2000-3400")
