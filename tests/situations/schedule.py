"""When rows start and when they are looked at; pure."""

import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tests.situations.row import Moment, Row

START_GAP_S: Final = 2.5
"""Between two starts, so that two judges come along with the looks: one takes 1 to 2 s of a core."""

TOLERANCE_S: Final[Mapping[Moment, float]] = {
    Moment.HALF_A_MINUTE: 15,
    Moment.TWO_MINUTES: 30,
    Moment.TEN_MINUTES: 60,
}
"""A look that begins later is not judged: it would see another moment."""

PARTS: Final = 4
"""Each run of .ci/run plays one."""

LONGEST_WARM_S: Final = 280
"""Of a row of a part, so that it is looked at after 2 minutes within MOST_S of a part."""


class Look(NamedTuple):
    """One stage at one moment."""

    at_s: float
    stage: str
    moment: Moment


class Looks:
    """What is to be looked at, and what is due of it, first what would be too late first."""

    def __init__(self) -> None:
        self._to_come: list[Look] = []
        self._due: list[tuple[float, Look]] = []

    def add(self, stage: str, begun_s: float, moments: Iterable[Moment]) -> None:
        """All looks at a stage that began at ``begun_s``."""
        for moment in moments:
            heapq.heappush(self._to_come, Look(begun_s + moment.seconds, stage, moment))

    def next_due(self, now_s: float) -> Look | None:
        """The look that can wait least; None if none is due."""
        while self._to_come and self._to_come[0].at_s <= now_s:
            look = heapq.heappop(self._to_come)
            heapq.heappush(self._due, (look.at_s + TOLERANCE_S[look.moment], look))
        return heapq.heappop(self._due)[1] if self._due else None


def is_late(look: Look, now_s: float) -> bool:
    """Whether it is too late to say anything about this moment."""
    return now_s - look.at_s > TOLERANCE_S[look.moment]


def chosen(rows: Sequence[Row], pattern: str) -> list[Row]:
    """The rows whose id has a match, those with the longest healthy life first: all begin as near as they can."""
    return _in_order([row for row in rows if re.search(pattern, row.id)])


def part(rows: Sequence[Row], number: int) -> list[Row]:
    """The rows of a part, from 1 to PARTS: as many of the healthy and of the sick as the others have.

    Those that need three brokers are in one part, since these take long to start; those that live too long before
    anything goes wrong are in none.
    """
    parts: list[list[Row]] = [[] for _ in range(PARTS)]
    for row in sorted(rows, key=lambda row: (not row.replicas, row.healthy, row.id)):
        if row.warm_s <= LONGEST_WARM_S:
            like = [sum(each.healthy is row.healthy for each in of) for of in parts]
            smallest = min(range(PARTS), key=lambda n: (like[n], len(parts[n])))
            parts[-1 if row.replicas else smallest].append(row)
    return _in_order(parts[number - 1])


def _in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: -row.warm_s)
