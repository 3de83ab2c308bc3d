"""Printed commands and settings, and what a row says that helps, tried in copies of a situation on a broker."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.situations.copies import Copies, is_done_unasked, is_tried_in_a_copy
from tests.situations.harm import Outcome
from tests.situations.row import Moment, Program, Row
from tests.situations.run import run
from tests.situations.stage import Stage
from tests.situations.table import ROWS

SICK = Row(id="sick", cause="", programs=(Program(commit="each"),))
WELL = replace(SICK, id="h-well", healthy=True)
ON_ITS_OWN = replace(SICK, replicas=((1,),), own_brokers=True)


@pytest.mark.parametrize(
    ("command", "row", "expected"),
    [
        ("reset --to-offset t:0=P+1", SICK, True),
        ("reset --to-offset t:0=P+1", WELL, True),
        ("evict --instance 0-static", SICK, True),
        ("peek", SICK, False),
        ("catchup start", SICK, False),  # of which the plan is read
        ("session.timeout.ms=45000", SICK, True),
        ("session.timeout.ms=45000", WELL, False),  # nothing can be better
        ("reset --to-offset t:0=P+1", ON_ITS_OWN, False),
    ],
)
def test_what_is_tried_in_a_copy(command: str, row: Row, expected: bool) -> None:
    assert is_tried_in_a_copy(command, row) is expected


@pytest.mark.parametrize(
    ("helps", "expected"),
    [
        ("restart", True),
        ("start two", True),
        ("evict --instance 0-static", True),
        ("evict za-0", False),  # the shape of what may be printed, and no command line
        ("reset --to-offset t:0=P+1 --save-skipped", False),
        ("scale", False),
    ],
)
def test_what_is_done_though_nothing_prints_it(helps: str, expected: bool) -> None:
    assert is_done_unasked(helps) is expected


@pytest.mark.parametrize(
    ("last", "until_s", "begun_early", "outcome"),
    [
        pytest.param(Moment.TEN_MINUTES, math.inf, 0, "RuntimeError('no brokers')", id="waits"),
        pytest.param(Moment.TWO_MINUTES, math.inf, 1, "RuntimeError('no brokers')", id="lives up to the last look"),
        pytest.param(Moment.TEN_MINUTES, 300.0, 0, "no time is left for a copy", id="would not be over"),
    ],
)
def test_a_copy_begins_when_nothing_but_last_looks_is_due_and_time_is_left(
    last: Moment, until_s: float, begun_early: int, outcome: str
) -> None:
    names: list[str] = []
    told: list[str] = []

    def staged(_: Row, name: str) -> Stage:
        names.append(name)
        raise RuntimeError("no brokers")

    copies = Copies(staged, {}, ThreadPoolExecutor(1), told.append, until_s)
    copies.expect([replace(SICK, helps=("restart",))], last, ())
    copies.tick(1.0, {}, is_quiet=False)
    assert len(names) == begun_early
    copies.tick(10.0, {}, is_quiet=True)
    assert len(names) == (until_s == math.inf)
    assert outcome in told[0]
    assert copies.are_over()


@pytest.mark.soak
def test_an_advice_is_tried(tmp_path: Path) -> None:
    row = replace(next(row for row in ROWS if row.id == "poison-each-again"), warm_s=15)
    lines: list[str] = []
    [result] = run([row], [Moment.HALF_A_MINUTE], tmp_path, lines.append, advice=True)
    outcomes = {tried.command: tried.outcome for tried in result.tried}
    assert outcomes.get("reset --to-offset t:0=P+1 --save-skipped") is Outcome.HELPED, lines
    assert set(outcomes.values()) <= {Outcome.HELPED, Outcome.USELESS, Outcome.READ}, lines
