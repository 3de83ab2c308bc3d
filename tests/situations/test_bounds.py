"""What was said of the situations when they were last played, held to bounds; no broker.

``python -m tests.situations --until 10m --write`` plays them again.
"""

from collections.abc import Mapping
from typing import Final

from tests.situations.conclude import Worth
from tests.situations.fleet import FLEET
from tests.situations.page import by_row, faults
from tests.situations.results import stored
from tests.situations.table import ROWS

KNOWN_WRONG: Final[Mapping[str, str]] = {
    "h-batch-daily": "a job that is not due has no reader",
    "h-batch-hourly": "a job that is not due has no reader",
    "hang-poll": "no reader, and no word of the process that hangs",
    "frozen-process": "only history shows it, after another member took over",
    "slow-batch": "early, and max.poll.interval.ms is not named",
    "same-instance": "only history shows it",
    "reset-back": "only history shows it",
    "reset-forward": "only history shows it",
    "never-commits": "not told from a member that does not read",
}
"""Situations that are answered wrongly today, and how. One that is answered rightly by now has to go from here."""

LEAST: Final = 80
"""Situations of the table."""

TABLE = {row.id: row for row in ROWS}
PLAYED = {row_id: results for row_id, results in by_row(stored()).items() if row_id in TABLE}


def test_results_are_of_situations_of_the_table() -> None:
    assert {result.row for result in stored()} <= {*TABLE, FLEET}


def test_nothing_is_answered_wrongly_but_what_is_known() -> None:
    wrong = {row_id: found for row_id, results in PLAYED.items() if (found := faults(TABLE[row_id], results))}
    assert {row_id: found for row_id, found in wrong.items() if row_id not in KNOWN_WRONG} == {}
    assert sorted(set(KNOWN_WRONG) - set(wrong)) == []


def test_the_table_is_large_enough() -> None:
    """A third of it is healthy: `test_table`."""
    assert len(ROWS) >= LEAST


def test_nothing_is_harmful() -> None:
    """Not even what is known to be wrong."""
    found = [(result.line(), cell.why) for result in stored() for cell in result.cells if cell.worth is Worth.HARMFUL]
    assert found == []


def test_among_idle_groups_what_stands_is_found() -> None:
    assert [result.line() for result in stored() if result.row == FLEET and result.is_bad] == []
