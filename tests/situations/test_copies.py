"""Printed commands and settings, and what a row says that helps, tried in copies of a situation on a broker."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.situations.harm import Outcome
from tests.situations.row import Moment
from tests.situations.run import run
from tests.situations.table import ROWS


@pytest.mark.soak
@pytest.mark.parametrize(
    ("row_id", "command", "outcome"),
    [
        pytest.param("poison-each-again", "reset --to-offset t:0=P+1 --save-skipped", Outcome.HELPED, id="printed"),
        pytest.param("static-gone", "evict --instance 0-static", Outcome.HELPED, id="unasked"),
        pytest.param("hang-endless", "max.poll.records=100", Outcome.USELESS, id="a setting"),
    ],
)
def test_an_advice_is_tried(row_id: str, command: str, outcome: Outcome, tmp_path: Path) -> None:
    row = replace(next(row for row in ROWS if row.id == row_id), warm_s=15)
    lines: list[str] = []
    [result] = run([row], [Moment.HALF_A_MINUTE], tmp_path, lines.append, advice=True)
    assert {tried.command: tried.outcome for tried in result.tried}.get(command) is outcome, lines
    assert {tried.outcome for tried in result.tried} <= {outcome, Outcome.USELESS, Outcome.READ}, lines
