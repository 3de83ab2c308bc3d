"""Which answers are faults, and the page of them."""

from dataclasses import replace

from tests.situations.conclude import Cell, Worth
from tests.situations.page import as_markdown, faults
from tests.situations.results import Result
from tests.situations.row import Moment, Program, Row, Says

SICK = Row(id="stands", cause="it stands", programs=(Program(commit="each"),), right=Says(lag="stop"))
WELL = replace(SICK, id="h-well", cause="it goes", healthy=True)
EARLY, LATER = Moment.HALF_A_MINUTE, Moment.TWO_MINUTES


def of(row: Row, moment: Moment, verb: str, worth: Worth, why: str = "") -> Result:
    return Result(row.id, moment, (Cell(verb, worth, why),))


def test_a_cause_is_to_be_named_when_it_is_due_and_not_before() -> None:
    silent = {moment: of(SICK, moment, "describe", Worth.SILENT) for moment in (EARLY, LATER)}
    assert faults(SICK, silent) == ["2m: not named"]
    assert faults(replace(SICK, unseen="nothing in the log shows it"), silent) == []
    assert faults(SICK, {LATER: of(SICK, LATER, "doctor", Worth.TOLD_APART)}) == []
    assert faults(SICK, {LATER: of(SICK, LATER, "lag", Worth.RIGHT)}) == ["2m: not named"]


def test_what_is_wrong_is_a_fault_at_any_moment() -> None:
    assert faults(SICK, {EARLY: of(SICK, EARLY, "lag", Worth.WRONG, "t:0 is rewind")}) == ["30s: lag: t:0 is rewind"]
    assert faults(WELL, {EARLY: Result("h-well", EARLY, void="late")}) == ["30s: not judged: late"]
    assert faults(WELL, {LATER: of(WELL, LATER, "lag", Worth.RIGHT)}) == []


def test_the_page_shows_each_situation_and_each_fault() -> None:
    page = as_markdown(
        (WELL, SICK),
        (of(SICK, EARLY, "lag", Worth.WRONG, "t:0 is rewind"), of(WELL, LATER, "lag", Worth.RIGHT)),
    )
    assert "2 situations were played, 1 of them healthy; 1 were answered rightly." in page
    assert "| h-well | it goes | - | right | - |" in page
    assert "| stands | it stands | **not right** | - | - |" in page
    assert page.endswith("stands\n  30s: lag: t:0 is rewind\n```")
