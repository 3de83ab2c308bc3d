"""When rows start and are looked at."""

from dataclasses import replace

from tests.situations.row import Moment
from tests.situations.schedule import Look, Looks, chosen, is_late
from tests.situations.table import ROWS


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
