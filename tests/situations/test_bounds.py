"""What was said of the situations when they were last played, held to bounds; no broker.

``python -m tests.situations --until 10m --write`` plays them again.
"""

from collections.abc import Mapping
from typing import Final

from tests.situations.conclude import Worth, named
from tests.situations.fleet import FLEET
from tests.situations.page import by_row, faults
from tests.situations.results import digest, stored
from tests.situations.row import Moment, Row
from tests.situations.table import ROWS

KNOWN_WRONG: Final[Mapping[str, str]] = {
    "passed-over-each": "a client that commits each record goes as fast at other times",
}
"""Situations that are answered wrongly today, and how. One that is answered rightly by now has to go from here."""

LEAST: Final = 80
"""Situations of the table."""

NAMED_AT_TWO_MINUTES: Final = 0.9
"""Of the sick ones."""

TABLE = {row.id: row for row in ROWS}
PLAYED = {row_id: results for row_id, results in by_row(stored()).items() if row_id in TABLE}
AS_NOW = {
    row_id: {moment: result for moment, result in results.items() if result.digest == digest(TABLE[row_id])}
    for row_id, results in PLAYED.items()
}
"""What was said of a row that was another one says nothing of it."""


def test_results_are_of_situations_of_the_table() -> None:
    assert {result.row for result in stored()} <= {*TABLE, FLEET}


def test_nothing_is_answered_wrongly_but_what_is_known() -> None:
    wrong = {row_id: found for row_id, results in AS_NOW.items() if (found := faults(TABLE[row_id], results))}
    assert {row_id: found for row_id, found in wrong.items() if row_id not in KNOWN_WRONG} == {}
    assert sorted(KNOWN_WRONG.keys() - wrong.keys() - {row_id for row_id in TABLE if not AS_NOW.get(row_id)}) == []


def test_the_table_is_large_enough() -> None:
    """A third of it is healthy: `test_table`."""
    assert len(ROWS) >= LEAST


def test_nothing_is_harmful() -> None:
    """Not even what is known to be wrong."""
    found = [(result.line(), cell.why) for result in stored() for cell in result.cells if cell.worth is Worth.HARMFUL]
    assert found == []


def test_among_idle_groups_what_stands_is_found() -> None:
    assert [result.line() for result in stored() if result.row == FLEET and result.is_bad] == []


def test_each_row_was_played_as_it_is_now_and_so_was_the_fleet() -> None:
    played = {(result.row, result.moment): result for result in stored()}
    wanted = {(row.id, moment): digest(row) for row in ROWS for moment in Moment}
    assert [at for at, of in wanted.items() if at not in played or played[at].digest != of] == []
    assert (FLEET, Moment.TEN_MINUTES) in played


def test_at_two_minutes_nine_of_ten_sick_ones_are_named() -> None:
    sick = {row.id: named_at(row, Moment.TWO_MINUTES) for row in ROWS if not row.healthy}
    assert sum(sick.values()) >= NAMED_AT_TWO_MINUTES * len(sick), [row_id for row_id, yes in sick.items() if not yes]


def test_at_ten_minutes_all_are_named_but_what_the_log_cannot_show_and_what_is_known() -> None:
    then = [row.then(Moment.TEN_MINUTES) for row in ROWS]
    late = [row.id for row in then if not row.healthy and not row.unseen and not named_at(row, Moment.TEN_MINUTES)]
    assert [row_id for row_id in late if row_id not in KNOWN_WRONG] == []


def named_at(row: Row, moment: Moment) -> bool:
    """Whether its cause was named then; a look that was not judged has shown nothing."""
    result = PLAYED.get(row.id, {}).get(moment)
    return result is not None and named(result.cells)
