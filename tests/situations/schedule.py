"""When rows start and when they are looked at; pure."""

import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tests.situations.row import Moment, Row

START_GAP_S: Final = 1.0
"""Between two starts: members of many groups that join at once make each other late."""

TOLERANCE_S: Final[Mapping[Moment, float]] = {
    Moment.HALF_A_MINUTE: 15,
    Moment.TWO_MINUTES: 30,
    Moment.TEN_MINUTES: 60,
}
"""A look that begins later is not judged: it would see another moment."""


class Look(NamedTuple):
    """One row at one moment."""

    at_s: float
    row: str
    moment: Moment


class Looks:
    """What is to be looked at, by due time."""

    def __init__(self) -> None:
        self._due: list[Look] = []

    def add(self, row: str, begun_s: float, moments: Iterable[Moment]) -> None:
        """All looks at a row that began at ``begun_s``."""
        for moment in moments:
            heapq.heappush(self._due, Look(begun_s + moment.seconds, row, moment))

    def next_due(self, now_s: float) -> Look | None:
        """The look that waited longest; None if none is due."""
        return heapq.heappop(self._due) if self._due and self._due[0].at_s <= now_s else None

    def __len__(self) -> int:
        return len(self._due)


def is_late(look: Look, now_s: float) -> bool:
    """Whether it is too late to say anything about this moment."""
    return now_s - look.at_s > TOLERANCE_S[look.moment]


def chosen(rows: Sequence[Row], pattern: str) -> list[Row]:
    """The rows whose id has a match, those with the longest healthy life first: all begin as near as they can."""
    found = [row for row in rows if re.search(pattern, row.id)]
    return sorted(found, key=lambda row: -row.warm_s)
