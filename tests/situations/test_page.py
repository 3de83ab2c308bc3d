"""Which answers are faults, and the page of them."""

from dataclasses import replace

from tests.situations.conclude import Cell, Worth
from tests.situations.harm import Outcome
from tests.situations.page import as_markdown, faults
from tests.situations.results import Result, Tried
from tests.situations.row import Later, Moment, Program, Row, Says

SICK = Row(id="stands", cause="it stands", programs=(Program(commit="each"),), right=Says(lag="stop"))
WELL = replace(SICK, id="h-well", cause="it goes", healthy=True)
EARLY, LATER = Moment.HALF_A_MINUTE, Moment.TWO_MINUTES


def of(row: Row, moment: Moment, verb: str, worth: Worth, why: str = "") -> Result:
    return Result(row.id, moment, (Cell(verb, worth, why),))


def test_a_cause_is_to_be_named_when_it_is_due_and_not_before() -> None:
    silent = {moment: of(SICK, moment, "describe", Worth.SILENT) for moment in (EARLY, LATER)}
    assert faults(SICK, silent) == ["2m: not named"]
    unseen = replace(SICK, unseen="nothing in the log shows it")
    assert faults(unseen, silent) == []
    page = as_markdown([unseen], silent.values())
    assert " (nothing in the log shows it) | " in page
    assert "not shown" in page
    assert faults(SICK, {LATER: of(SICK, LATER, "doctor", Worth.TOLD_APART)}) == []
    assert faults(SICK, {LATER: of(SICK, LATER, "lag", Worth.RIGHT)}) == ["2m: not named"]


def test_what_is_true_later_is_what_counts_then() -> None:
    over = replace(SICK, later=Later(LATER, "it goes again", healthy=True))
    assert faults(over, {LATER: of(over, LATER, "describe", Worth.RIGHT)}) == []
    assert faults(over, {EARLY: of(over, EARLY, "describe", Worth.SILENT)}) == []
    assert faults(over, {LATER: of(over, LATER, "lag", Worth.WRONG, "t:0 is stop")}) == ["2m: lag: t:0 is stop"]
    other = replace(SICK, later=Later(LATER, "it is at another member", right=Says(describe="another")))
    assert faults(other, {LATER: of(other, LATER, "describe", Worth.SILENT)}) == ["2m: not named"]
    page = as_markdown((over,), (of(over, LATER, "lag", Worth.RIGHT),))
    assert "| stands | it stands; at 2m: it goes again | - | right | - |" in page


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


def test_a_command_that_does_harm_is_a_fault() -> None:
    skips, reads = Tried("reset", Outcome.HARMED, "skipped 3 of t:0, from 14"), Tried("peek", Outcome.READ)
    right = Result(SICK.id, LATER, (Cell("describe", Worth.RIGHT),), tried=(reads,))
    assert faults(SICK, {LATER: right}) == []
    harmed = Result(SICK.id, LATER, right.cells, tried=(reads, skips))
    assert faults(SICK, {LATER: harmed}) == ["2m: harmed: reset (skipped 3 of t:0, from 14)"]
    refused = Result(SICK.id, LATER, right.cells, tried=(Tried("undo", Outcome.REFUSED, "exit 6: moved since"),))
    assert faults(SICK, {LATER: refused}) == []


def test_the_page_shows_what_became_of_each_command() -> None:
    tried = (Tried("peek", Outcome.READ), Tried("lag", Outcome.READ), Tried("reset t:0=P+1", Outcome.HELPED))
    played = (
        Result(SICK.id, EARLY, (Cell("describe", Worth.RIGHT),), tried=tried[:1]),
        Result(SICK.id, LATER, (Cell("describe", Worth.RIGHT),), tried=tried[1:]),
        of(WELL, LATER, "lag", Worth.RIGHT),
    )
    page = as_markdown((WELL, SICK), played)
    assert "| situation | what is true | 30s | 2m | 10m | commands tried |" in page
    assert "| h-well | it goes | - | right | - | - |" in page
    assert "| stands | it stands | describe | describe | - | read 2, helped 1 |" in page
    assert "stands\n  read: peek\n  read: lag\n  helped: reset t:0=P+1\n```" in page
    assert "commands tried" not in as_markdown((WELL,), played)
