"""A part of the table, live: another one with each commit, and nothing runs beside it, since its looks are due in time.

``.venv/bin/pytest -m situations -s``; KGROUP_SITUATIONS_PART=2 chooses the part.
"""

import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.situations.conclude import Cell, Worth
from tests.situations.page import by_row
from tests.situations.part import CHOOSES, part_number, worse
from tests.situations.results import Result, digest, stored
from tests.situations.row import Moment, Program, Row
from tests.situations.run import run
from tests.situations.schedule import LONGEST_WARM_S, PARTS, START_GAP_S, Repeats, part
from tests.situations.table import ROWS

MOST_S: Final = 7 * 60 + 30.0
TO_START_S: Final = 50
"""Until brokers run and all topics are made."""
MOMENTS: Final = (Moment.HALF_A_MINUTE, Moment.TWO_MINUTES)
MOST_UNSEEN: Final = 0.1
"""Of looks: a busy machine may miss a few, and one that misses more has shown nothing."""
MOST_LESS_RIGHT: Final = 0.1
"""Of sick rows: nine of ten are to be named. What clients do by chance differs from run to run."""

SICK = Row(id="sick", cause="", programs=(Program(commit="each"),))
WELL = replace(SICK, id="h-well", healthy=True)


@pytest.fixture(autouse=True)
def ended_by_sigterm() -> Iterator[None]:
    """Brokers and members end with the test."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.situations
def test_a_part_of_the_table_is_answered_as_it_is_stored(tmp_path: Path) -> None:
    """By the bounds of the whole table. A row that is worse is played a second time, if there is time."""
    number, before = part_number(ROWS), by_row(stored())
    rows = {row.id: row for row in part(ROWS, number)}

    def faults(result: Result) -> list[str]:
        return worse(rows[result.row], result, before.get(result.row, {}).get(result.moment))

    print(f"part {number} of {PARTS}; {CHOOSES} chooses another")
    results = run(
        tuple(rows.values()), MOMENTS, tmp_path, print, repeats=Repeats(lambda one: bool(faults(one))), most_s=MOST_S
    )
    expected = {(row, moment) for row in rows for moment in MOMENTS}
    unseen = [f"{at}: not played in time" for at in expected - {(each.row, each.moment) for each in results}]
    unseen += [result.line() for result in results if result.void]
    bad = {result: found for result in results if not result.void and (found := faults(result))}
    harm = [(result.line(), found) for result, found in bad.items() if is_harm(rows[result.row], result)]
    less = {result.row: found for result, found in bad.items() if not is_harm(rows[result.row], result)}
    print(f"{len(results)} looks, {len(unseen)} not judged, {len(less)} rows less right", *unseen, less, sep="\n")
    assert harm == []
    assert len(less) <= MOST_LESS_RIGHT * sum(not row.healthy for row in rows.values()), less
    assert len(unseen) <= MOST_UNSEEN * len(expected), unseen


def is_harm(row: Row, result: Result) -> bool:
    """Whether a healthy group has an alarm, or a command does harm: none is borne."""
    return row.healthy or any(cell.worth is Worth.HARMFUL for cell in result.cells)


def test_parts_have_each_row_once_and_are_alike() -> None:
    """But for rows that live too long."""
    parts = [part(ROWS, number) for number in range(1, PARTS + 1)]
    played = [row for rows in parts for row in rows]
    assert len(played) == len({row.id for row in played})
    assert all(row.warm_s > LONGEST_WARM_S for row in ROWS if row not in played)
    assert len(played) >= 0.95 * len(ROWS)
    assert sum(any(row.replicas for row in rows) for rows in parts) == 1
    for healthy in (True, False):
        counts = [sum(row.healthy is healthy for row in rows) for rows in parts]
        assert max(counts) - min(counts) <= 1, counts


def test_a_part_ends_in_time() -> None:
    for number in range(1, PARTS + 1):
        begins = [n * START_GAP_S + row.warm_s for n, row in enumerate(part(ROWS, number))]
        assert max(begins) + MOMENTS[-1].seconds + TO_START_S < MOST_S


def test_the_part_is_chosen_or_follows_from_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHOOSES, raising=False)
    assert part_number(ROWS) in range(1, PARTS + 1)
    monkeypatch.setenv("PATH_OF_MACHINE", "/nowhere")
    assert part_number(ROWS) in range(1, PARTS + 1), "without git"
    monkeypatch.setenv(CHOOSES, "2")
    assert part_number(ROWS) == 2
    monkeypatch.setenv(CHOOSES, "5")
    with pytest.raises(AssertionError, match="1 to 4"):
        part_number(ROWS)


def result(row: Row, worth: Worth, moment: Moment = Moment.TWO_MINUTES, of: Row | None = None) -> Result:
    """What describe says of a row, as it was or is."""
    return Result(row.id, moment, (Cell("describe", worth, "why"),), digest(of or row))


WORSE = {
    "right as before": (SICK, Worth.RIGHT, Worth.RIGHT, []),
    "told apart": (SICK, Worth.TOLD_APART, Worth.RIGHT, []),
    "better": (SICK, Worth.RIGHT, Worth.WRONG, []),
    "named no more": (SICK, Worth.SILENT, Worth.RIGHT, ["not named"]),
    "never named": (SICK, Worth.SILENT, Worth.SILENT, []),
    "wrong as before": (SICK, Worth.WRONG, Worth.WRONG, []),
    "wrong and known for worse": (SICK, Worth.WRONG, Worth.HARMFUL, []),
    "worse than wrong": (SICK, Worth.HARMFUL, Worth.WRONG, ["describe is harmful: why"]),
    "wrong": (SICK, Worth.WRONG, Worth.RIGHT, ["describe is wrong: why"]),
    "an alarm": (WELL, Worth.WRONG, Worth.RIGHT, ["describe is wrong: why"]),
    "a known alarm": (WELL, Worth.WRONG, Worth.WRONG, []),
}


@pytest.mark.parametrize(("row", "now", "before", "found"), WORSE.values(), ids=WORSE)
def test_what_is_worse_than_stored(row: Row, now: Worth, before: Worth, found: list[str]) -> None:
    assert worse(row, result(row, now), result(row, before)) == found


def test_what_was_never_played_or_is_another_row_now_excuses_nothing() -> None:
    was = replace(SICK, warm_s=41)
    for before in (None, result(SICK, Worth.WRONG, of=was), Result("sick", Moment.TWO_MINUTES, void="late")):
        assert worse(SICK, result(SICK, Worth.WRONG), before) == ["describe is wrong: why"]
        assert worse(SICK, result(SICK, Worth.SILENT), before) == []


def test_before_it_is_due_a_cause_need_not_be_named() -> None:
    early = Moment.HALF_A_MINUTE
    assert worse(SICK, result(SICK, Worth.SILENT, early), result(SICK, Worth.RIGHT, early)) == []


def test_what_was_not_judged_is_played_again() -> None:
    assert worse(SICK, Result("sick", Moment.TWO_MINUTES, void="late"), None) == ["not judged: late"]
