"""A member whose session ended and that is not back is information, as long as the group goes on without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kgroup.groups.doctor.from_log import history_of
from kgroup.groups.history.lost_members import lost_member
from kgroup.groups.lag.from_log import from_log
from tests.helpers.cases.history import T0, Log, member
from tests.helpers.cases.lag import group
from tests.helpers.for_each import for_each

A, ALL = member("pod-0/1", 0, 1), member("pod-0/1", 0, 1, 2, 3)
B = member("pod-1/1", 2, 3)


def died() -> Log:
    """pod-1 committed at 30 s for the last time, and was removed at 41 s."""
    log = Log().at(0).generation(5, A, B).commits((0, 1, 2, 3), 1, 30).commits((0, 1), 31, 41)
    return log.at(41).generation(6, ALL)


def left() -> Log:
    return Log().at(0).generation(5, A, B).commits((0, 1, 2, 3), 1, 40).at(41).generation(6, ALL)


@dataclass(frozen=True)
class Lost:
    name: str
    log: Callable[[], Log]
    is_lost: bool
    now: int = 60

    def __str__(self) -> str:
        return self.name


@for_each(
    "case",
    [
        Lost("died", died, is_lost=True),
        Lost("longer ago", died, is_lost=False, now=641),
        Lost("left", left, is_lost=False),
        Lost("back", lambda: died().at(50).generation(7, A, member("pod-1/2", 2, 3)), is_lost=False),
        Lost("another one came", lambda: died().at(50).generation(7, A, member("pod-2/1", 2, 3)), is_lost=True),
        Lost("no member is left", lambda: died().at(50).generation(7), is_lost=False),
        Lost("nothing", Log, is_lost=False),
    ],
)
def test_a_member_that_is_lost(case: Lost) -> None:
    log = case.log()
    found = lost_member(log.steps(), T0 + case.now * 1000)

    assert (found is not None) == case.is_lost
    assert from_log(log.events, log.reach(), group([]), T0 + case.now * 1000, {}).lost == found
    assert history_of(log.history(now=case.now)).lost == found
    if found is not None:
        assert found.words(T0 + 60_000) == (
            "pod-1 left: its session ended at 03:00:41Z (no heartbeat for 10s): it died, hung or lost the network, or "
            "closed after as long a silence; pod-0 took its partitions over"
        )
