"""What is stored of a run."""

from dataclasses import replace
from pathlib import Path

import msgspec

from tests.situations.conclude import Cell, Worth
from tests.situations.harm import Outcome
from tests.situations.results import Result, Tried, digest, store, stored
from tests.situations.row import Feed, Moment, Program, Row

SILENT = Result("row", Moment.HALF_A_MINUTE, (Cell("lag", Worth.SILENT),))
WRONG = Result(
    "row",
    Moment.TWO_MINUTES,
    (Cell("lag", Worth.RIGHT), Cell("peek", Worth.RIGHT), Cell("doctor", Worth.WRONG, "storm")),
)


def test_a_run_replaces_what_it_looked_at_and_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert stored(path) == ()
    later = Result("row", Moment.TEN_MINUTES, void="late")
    store([later, SILENT, WRONG], path)
    named = Result("row", Moment.HALF_A_MINUTE, (Cell("lag", Worth.RIGHT, commands=("peek",)),))
    store([named], path)
    assert stored(path) == (named, WRONG, later)


def test_a_line_says_the_worst_first() -> None:
    assert WRONG.line().split(maxsplit=2) == ["2m", "row", "wrong: doctor (storm); right: lag, peek"]
    assert Result("row", Moment.TEN_MINUTES, void="late").line().endswith("not judged: late")


def test_a_row_is_another_one_where_it_has_something_else_than_the_default() -> None:
    """Else each thing that rows can have from now on would make all of them others."""
    row = Row("r", "", (Program(commit="each"),))
    assert digest(row) == digest(replace(row, feed=Feed(per_s=2.0), programs=(Program(commit="each", members=1),)))
    for other in (
        replace(row, warm_s=41),
        replace(row, feed=Feed(per_s=3)),
        replace(row, programs=(Program(commit="each", settings={"a": "b"}),)),
    ):
        assert digest(other) != digest(row)


def test_what_is_wrong_or_was_not_judged_is_bad() -> None:
    assert WRONG.is_bad
    assert Result("row", Moment.TEN_MINUTES, void="late").is_bad
    assert msgspec.structs.replace(SILENT, tried=(Tried("reset", Outcome.HARMED),)).is_bad
    assert not msgspec.structs.replace(SILENT, tried=(Tried("reset", Outcome.USELESS),)).is_bad
    assert not SILENT.is_bad
