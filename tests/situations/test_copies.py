"""A printed command, executed in a copy of its situation on a broker."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.situations.harm import Outcome
from tests.situations.results import Tried
from tests.situations.row import Moment
from tests.situations.run import run
from tests.situations.table import ROWS


@pytest.mark.soak
def test_what_is_printed_is_tried(tmp_path: Path) -> None:
    row = replace(next(row for row in ROWS if row.id == "poison-each-again"), warm_s=15)
    lines: list[str] = []
    [result] = run([row], [Moment.HALF_A_MINUTE], tmp_path, lines.append, advice=True)
    skip = Tried("reset --to-offset t:0=P+1 --save-skipped", Outcome.HELPED)
    assert skip in result.tried, lines
    assert {tried.outcome for tried in result.tried} == {Outcome.HELPED, Outcome.READ}, lines
