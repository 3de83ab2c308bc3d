"""When rows start and when they are looked at; pure."""

import heapq
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.situations.results import Result
from tests.situations.row import Moment, Row

START_GAP_S: Final = 2.5
"""Between two starts, so that judges come along with the looks: one takes half a second, on a busy machine 2 s."""

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


def _never(_: Result) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Repeats:
    """Which looks are taken again when all looks at their row are over, and how often a row is played in all."""

    must: Callable[[Result], bool] = _never
    most_plays: int = 2


NO_REPEATS: Final = Repeats()


class Plays:
    """The looks at one row: of its play and, where a look must be repeated, of further ones up to that moment.

    A further play may run while the first one comes to its last look: most of its minutes nothing is due.
    """

    def __init__(self, moments: Sequence[Moment], repeats: Repeats) -> None:
        self.count, self._repeats = 1, repeats
        self.to_look_at = list(moments)  # in this play
        self.to_come = list(moments)  # of all plays
        self._last = list(moments)[-1:]
        self._results: dict[Moment, Result] = {}
        self._wanted = tuple(moments)
        self._has_ended = False

    def keep(self, result: Result) -> None:
        """A look of this play. It counts if its moment was to be repeated, unless only an earlier one was judged."""
        self.to_come.remove(result.moment)
        before = self._results.get(result.moment)
        if before is None or (result.moment in self._wanted and (before.void or not result.void)):
            self._results[result.moment] = result

    def that_count(self) -> list[Result]:
        """One result of each moment."""
        return [self._results[moment] for moment in sorted(self._results, key=lambda moment: moment.seconds)]

    def is_near_its_end(self) -> bool:
        """Whether no play runs but the first one, of which the last look alone may be to come."""
        return self.to_come in ([], self._last)

    def to_repeat(self, *, is_quiet: bool = False) -> list[Moment]:
        """The moments that a further play is for; none while one runs, and after the most of them.

        If it `is_quiet`, none but the last look of any row is to come.
        """
        runs = not self.is_near_its_end() if is_quiet else bool(self.to_come)
        if runs or self._has_ended or self.count >= self._repeats.most_plays:
            return []
        return [result.moment for result in self.that_count() if self._repeats.must(result)]

    def begin_again(self, moments: Sequence[Moment]) -> None:
        """A further play, for these moments; those before the last are looked at too: `holds` compares two looks."""
        self.count += 1
        self._wanted = tuple(moments)
        self.to_look_at = [moment for moment in Moment if moment.seconds <= moments[-1].seconds]
        self.to_come += self.to_look_at

    def end(self) -> None:
        """No further play."""
        self._has_ended = True

    def are_over(self) -> bool:
        """Whether all looks were taken, and none must be repeated."""
        return not self.to_come and not self.to_repeat()


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
