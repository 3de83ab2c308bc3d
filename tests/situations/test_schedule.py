"""When rows start and are looked at."""

from dataclasses import replace

import pytest

from tests.situations.__main__ import MOST_S
from tests.situations.results import Result
from tests.situations.row import Moment
from tests.situations.schedule import START_GAP_S, Look, Looks, Plays, Repeats, chosen, is_late
from tests.situations.table import ROWS

TO_START_S = 60
"""Until all brokers run and the topics of all rows are made."""
TO_SPARE_S = 4 * 60
"""For commands that are printed at the last looks, plays of what was void, and the fleet."""


def test_looks_come_when_they_are_due() -> None:
    looks = Looks()
    looks.add("second", 101, (Moment.HALF_A_MINUTE,))
    looks.add("first", 100, (Moment.TWO_MINUTES, Moment.HALF_A_MINUTE))
    assert looks.next_due(129) is None
    assert looks.next_due(135) == Look(130, "first", Moment.HALF_A_MINUTE)
    assert looks.next_due(135) == Look(131, "second", Moment.HALF_A_MINUTE)
    assert looks.next_due(135) is None


def test_of_what_is_due_comes_first_what_can_wait_least() -> None:
    looks = Looks()
    looks.add("early", 0, (Moment.TEN_MINUTES,))
    looks.add("later", 575, (Moment.HALF_A_MINUTE,))
    assert looks.next_due(606) == Look(605, "later", Moment.HALF_A_MINUTE)
    assert looks.next_due(606) == Look(600, "early", Moment.TEN_MINUTES)


def test_a_look_too_late_says_nothing_of_its_moment() -> None:
    look = Look(130, "row", Moment.HALF_A_MINUTE)
    assert not is_late(look, 145)
    assert is_late(look, 146)


def test_the_longest_healthy_life_starts_first() -> None:
    short, long = replace(ROWS[0], id="a-1"), replace(ROWS[0], id="a-2", warm_s=240)
    other = replace(ROWS[0], id="b")
    assert chosen([short, long, other], "^a") == [long, short]


EARLY, LATER = Moment.HALF_A_MINUTE, Moment.TWO_MINUTES


def of(moment: Moment, digest: str, void: str = "") -> Result:
    """Which one it is can be known by its digest."""
    return Result("row", moment, digest=digest, void=void)


@pytest.mark.parametrize(
    ("first", "again", "count"),
    [
        ([of(EARLY, "1"), of(LATER, "1")], [], ["1", "1"]),
        ([of(EARLY, "1", "late"), of(LATER, "1")], [of(EARLY, "2")], ["2", "1"]),
        ([of(EARLY, "1"), of(LATER, "1", "late")], [of(EARLY, "2"), of(LATER, "2")], ["1", "2"]),
        ([of(EARLY, "1", "late"), of(LATER, "1")], [of(EARLY, "2", "late")], ["2", "1"]),
        ([of(EARLY, "1"), of(LATER, "1", "late")], [of(EARLY, "2", "late"), of(LATER, "2")], ["1", "2"]),
    ],
)
def test_a_look_that_was_void_is_replaced_and_no_other(
    first: list[Result], again: list[Result], count: list[str]
) -> None:
    plays = Plays((EARLY, LATER), Repeats(lambda result: bool(result.void)))
    for result in first:
        assert plays.to_repeat() == []  # its other looks may be void too
        plays.keep(result)
    assert plays.are_over() is not bool(again)
    if again:
        plays.begin_again(plays.to_repeat())
        assert plays.to_look_at == [result.moment for result in again]
    for result in again:
        plays.keep(result)
    assert [result.digest for result in plays.that_count()] == count
    assert plays.are_over()


def test_before_the_last_look_what_was_void_can_be_played_again() -> None:
    plays = Plays((EARLY, LATER), Repeats(lambda result: bool(result.void)))
    assert not plays.is_near_its_end()
    plays.keep(of(EARLY, "1", "late"))
    assert plays.is_near_its_end()
    assert plays.to_repeat() == []
    assert plays.to_repeat(is_quiet=True) == [EARLY]
    plays.begin_again([EARLY])
    assert plays.to_repeat(is_quiet=True) == []
    plays.keep(of(LATER, "1"))
    plays.keep(of(EARLY, "2"))
    assert [result.digest for result in plays.that_count()] == ["2", "1"]
    assert plays.are_over()


def test_the_whole_table_is_looked_at_well_within_the_time_of_a_run() -> None:
    """Copies begin when all rows have been looked at after 2 minutes, and are over before the last looks are."""
    begins = [n * START_GAP_S + row.warm_s for n, row in enumerate(chosen(ROWS, ""))]
    assert TO_START_S + max(begins) + Moment.TEN_MINUTES.seconds < MOST_S - TO_SPARE_S


def test_an_answer_that_was_judged_is_not_replaced_by_a_look_that_was_not() -> None:
    plays = Plays((EARLY,), Repeats(lambda result: result.digest == "wrong"))
    plays.keep(of(EARLY, "wrong"))
    plays.begin_again(plays.to_repeat())
    plays.keep(of(EARLY, "2", "late"))
    assert [result.digest for result in plays.that_count()] == ["wrong"]
